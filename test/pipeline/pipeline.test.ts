import { createHash } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SignJWT } from 'jose';
import t, { type Test as T } from 'tap';
import { METHODS } from '../../src/domain/methods.js';
import { syntheticSession } from '../../src/gate/what-if.js';
import { type Refusal, Unavailable } from '../../src/domain/refusal.js';
import type { RequestTrace, Tracing } from '../../src/observe/tracing/spans.js';
import { anonymousBodies } from '../../src/http/read-body.js';
import { refusalReply } from '../../src/http/replies.js';
import { type Fault, FAULTS } from '../../src/http1/events.js';
import { parseRefusal } from '../../src/pipeline/faults.js';
import type { Services } from '../../src/pipeline/services.js';
import { type Recheck, StreamRevalidator } from '../../src/pipeline/streams.js';
import { Simulator } from '../../src/pipeline/simulate.js';
import { endedByName } from '../../src/store/endings.js';
import { OutcomeUnknown, StoreUnavailable } from '../../src/store/faults.js';
import type { Store } from '../../src/store/core/store.js';
import { PASSWORD } from '../helpers/fixture.js';
import type { Sent } from '../helpers/http.js';
import { HANDSHAKE } from '../helpers/entrances.js';
import { startInProcess } from '../helpers/in-process.js';
import { newPair } from '../helpers/key-server.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

type Headers = NonNullable<Sent['headers']>;

/** Starts a server with a store whose operations fail on demand. */
async function startFailing(t: T, config: object = {}) {
  const faults = new Map<string, (run: () => unknown) => unknown>();
  const failing = (of: string, part: object) =>
    new Proxy(part, {
      get: (target, name: string) => {
        const run = (target as Record<string, (...args: unknown[]) => unknown>)[name];
        return (...args: unknown[]) => {
          const call = () => run?.apply(target, args);
          return faults.get(`${of}.${name}`)?.(call) ?? call();
        };
      },
    });
  const server = await startInProcess(t, config, {
    opened: ({ store }) => ({
      store: Object.fromEntries(
        Object.entries(store).map(([name, part]) => [name, failing(name, part as object)]),
      ) as unknown as Store,
    }),
  });
  return { ...server, faults };
}

t.test('a fault denies the request: its response, its log record, and nothing for the client', async (t) => {
  const { request, login, token, faults } = await startFailing(t);
  const session = { Cookie: await login('superuser') };
  const key = { 'Service-Key': await token('superuser') };
  const down = new StoreUnavailable('the store is down');
  const fails = (error: Error, late: boolean) => () => {
    if (late) return Promise.reject(error);
    throw error;
  };
  const rows: [string, string, Headers, 'tokens.find' | 'sessions.find' | 'tokens.listOfUser', Error, boolean, number, string][] = [
    ['GET', '/', key, 'tokens.find', down, false, 503, 'store_unavailable'],
    ['GET', '/', key, 'tokens.find', down, true, 503, 'store_unavailable'],
    ['GET', '/', session, 'sessions.find', down, true, 503, 'store_unavailable'],
    ['GET', '/tokens', session, 'tokens.listOfUser', down, true, 503, 'store_unavailable'],
    ['GET', '/', key, 'tokens.find', new Error('inside'), false, 500, 'fault'],
    ['GET', '/', key, 'tokens.find', new Error('inside'), true, 500, 'fault'],
    ['GET', '/tokens', session, 'tokens.listOfUser', new Error('inside'), true, 500, 'fault'],
  ];
  for (const [method, target, headers, operation, error, late, status, outcome] of rows) {
    const what = `${target} ${operation} ${outcome} ${late ? 'late' : 'at once'}`;
    faults.set(operation, fails(error, late));
    const reply = await request(target, { method, headers });
    faults.clear();
    t.same([reply.status, reply.forwarded], [status, undefined], what);
    t.equal(reply.headers['retry-after'], status === 503 ? '1' : undefined, `${what}: Retry-After`);
    t.notMatch(reply.text, error.message, `${what}: the client does not learn why`);
    t.match(reply.log.at(-1), { msg: 'request', outcome, status }, what);
    // An outage is logged once in a while.
    if (outcome === 'fault') t.match(reply.log[0], { err: { message: 'inside' }, request_id: reply.headers['x-request-id'] }, `${what}: the log does`);
  }
  t.equal((await request('/', { headers: key })).status, 200, 'works again afterwards');
}); // prettier-ignore

t.test('the audit log has each session that ended once, whatever happens meanwhile', async (t) => {
  const { request, login, faults } = await startFailing(t);
  const endings = async (target: string, sent: Sent) =>
    (await request(target, sent)).audit.filter(({ event }) => event === 'session.ended').length;
  const headers = { Cookie: await login('superuser') };
  const end = { method: 'DELETE', headers };
  faults.set('sessions.endOfUser', async (run) => {
    faults.clear();
    await login('superuser');
    return run();
  });
  t.equal(await endings('/_latchkey/sessions', end), 1, 'one that began after the list was read');
  await login('superuser');
  faults.set('sessions.endOfUser', async (run) => {
    faults.clear();
    await request('/_latchkey/sessions', end);
    return run();
  });
  t.equal(await endings('/_latchkey/sessions', end), 1, 'one that another request ended, which reports it');
  const body = new URLSearchParams({ user: 'superuser@example.com', password: PASSWORD });
  for (const [target, sent] of [['/login', { method: 'POST', headers, body }], ['/logout', { method: 'POST', headers: { Cookie: await login('superuser') } }]] as const) {
    faults.set('sessions.end', async (run) => {
      faults.clear();
      await run();
      return run();
    });
    t.equal(await endings(target, sent), 0, `${target}: another request ended it`);
  }
}); // prettier-ignore

t.test('an unconfirmed change is reported as such, and may have been made', async (t) => {
  const { request, login, token, create, faults } = await startFailing(t, { interface: { account_endpoints: true } });
  const cookie = await login('superuser');
  const session = { headers: { Cookie: cookie } };
  await login('superuser');
  const form = (name: string) => ({ method: 'POST', body: new URLSearchParams({ [name]: 'superuser@example.com', password: PASSWORD }) });
  const { id } = (await create('user')).json;
  const key = { 'Service-Key': await token('user') };
  const listed = (await request('/_latchkey/sessions', session)).json as { id: string; current: boolean }[];
  const other = listed.find(({ current }) => !current)?.id;
  const rows: [operation: string, method: string, target: string, sent: Sent, events: string[]][] = [
    ['tokens.revoke', 'DELETE', `/tokens/${id}`, session, ['token.revoked unknown']],
    ['tokens.revoke', 'DELETE', '/tokens', { ...session, json: { data: [{ id }] } }, ['token.revoked unknown']],
    ['tokens.revoke', 'DELETE', '/tokens/self', { headers: key }, ['token.revoked unknown']],
    ['tokens.update', 'PATCH', `/tokens/${id}`, { ...session, json: { suspended: true } }, ['token.changed unknown']],
    ['tokens.rotate', 'POST', '/tokens/self/rotate', { headers: key }, ['token.created unknown', 'token.rotated unknown']],
    ['tokens.create', 'POST', '/tokens', form('username'), ['login.succeeded success', 'token.created unknown']],
    ['sessions.create', 'POST', '/login', form('user'), ['login.succeeded success', 'session.started unknown']],
    ['sessions.end', 'POST', '/login', { ...form('user'), ...session }, ['login.succeeded success', 'session.started success', 'session.ended unknown']],
    ['sessions.grantSudo', 'POST', '/sudo', { ...form('username'), ...session }, ['login.succeeded success', 'sudo.granted unknown']],
    ['sessions.end', 'DELETE', `/_latchkey/sessions/${other}`, session, ['session.ended unknown']],
    ['sessions.endOfUser', 'DELETE', '/_latchkey/sessions', session, ['session.ended unknown', 'session.ended unknown']],
    ['sessions.end', 'POST', '/logout', session, ['session.ended unknown']],
  ];
  for (const [operation, method, target, sent, events] of rows) {
    faults.set(operation, () => Promise.reject(new OutcomeUnknown('no answer')));
    const reply = await request(target, { ...sent, method });
    faults.clear();
    t.match(reply, { status: 503, json: { detail: /may have been applied/ } }, `${method} ${target}`);
    t.same(reply.audit.map(({ event, outcome }) => `${String(event)} ${String(outcome)}`), events, `${method} ${target}`);
  }
}); // prettier-ignore

t.test('what a request did is recorded even if the store fails before its response', async (t) => {
  const { request, login, create, faults } = await startFailing(t);
  const cookie = await login('superuser');
  const { id } = (await create('user')).json;
  const body = new URLSearchParams({ user: 'superuser@example.com', password: PASSWORD });
  const rows: [written: string, method: string, target: string, sent: Sent, events: string[]][] = [
    ['tokens.update', 'PATCH', `/tokens/${id}`, { json: { suspended: true } }, ['token.changed']],
    ['sessions.create', 'POST', '/login', { body }, ['login.succeeded', 'session.started']],
  ];
  for (const [written, method, target, sent, events] of rows) {
    faults.set(written, async (run) => {
      const done = await run();
      for (const read of ['tokens.get', 'sessions.find', 'directory.getUser', 'directory.getCustomer'])
        faults.set(read, () => Promise.reject(new StoreUnavailable('the store is down')));
      return done;
    });
    const reply = await request(target, { ...sent, method, headers: { Cookie: cookie } });
    faults.clear();
    t.same(reply.audit.map(({ event }) => event), events, `${method} ${target}: ${reply.status}`);
  }
}); // prettier-ignore

t.test('if audit log entries are required, a change that cannot be recorded is not made', async (t) => {
  const unwritable = new Unavailable({ refusal: 'audit_unavailable' }, 'the disk is full');
  let broken = false;
  const check = () => {
    if (broken) throw unwritable;
  };
  const audit = { record: check, note: () => undefined, ensureWritable: check, close: () => undefined };
  const { request, token, create } = await startInProcess(t, {}, { opened: () => ({ audit }) });
  const headers = { 'Service-Key': await token('user') };
  broken = true;
  t.match(await create('user'), { status: 503, json: { detail: /audit log cannot be written/ } });
  t.equal((await request('/tokens/self', { method: 'DELETE', headers })).status, 503);
  t.equal((await request('/tokens/self', { headers })).status, 200, 'reads still work, and the token remains');
  broken = false;
  t.equal((await request('/tokens/self', { method: 'DELETE', headers })).status, 204);
}); // prettier-ignore

t.test('a request is not forwarded if its identity cannot be signed', async (t) => {
  const cannot = new Unavailable({ refusal: 'signing_unavailable' }, 'no key');
  for (const identify of [() => Promise.reject(cannot), () => { throw cannot; }]) {
    const { request, token } = await startInProcess(t, {}, { services: () => ({ identify }) });
    const reply = await request('/', { headers: { 'Service-Key': await token('user') } });
    t.same([reply.status, reply.forwarded], [503, undefined]);
    t.match(reply.log.at(-1), { outcome: 'signing_unavailable' });
  }
}); // prettier-ignore

t.test('refuses some requests before the gate, by their head or body', async (t) => {
  const { request } = await startInProcess(t, { limits: { body_size: '8KiB', target_size: '2KiB', head_fields: 20 } });
  const form = { body: new URLSearchParams({ user: 'user@example.com', password: PASSWORD }) };
  const many = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`X-${i}`, 'x']));
  const rows: [string, string, Sent, number, string][] = [
    ['a body of another type', '/login', { method: 'POST', body: 'x', headers: { 'Content-Type': 'text/plain' } }, 400, 'grant'],
    ['broken JSON', '/login', { method: 'POST', body: '{', headers: { 'Content-Type': 'application/json' } }, 400, 'grant'],
    ['a compressed body', '/login', { ...form, headers: { 'Content-Encoding': 'gzip' } }, 400, 'malformed'],
    ['a long body', '/login', { method: 'POST', body: 'x'.repeat(9000) }, 413, 'body_too_large'],
    ['a method that is not supported', '/', { method: 'TRACE' }, 405, 'method_not_allowed'],
    ['a HEAD with a body', '/', { method: 'HEAD', body: 'x' }, 400, 'malformed'],
    ['an expectation', '/login', { ...form, headers: { Expect: 'x' } }, 417, 'expectation_failed'],
    ['a long target', `/${'x'.repeat(2048)}`, {}, 414, 'target_too_long'],
    ['many fields', '/', { headers: many }, 431, 'fields_too_large'],
    ['two hosts', '/', { headers: { Host: ['a', 'b'] } }, 400, 'malformed'],
    ['a bad host', '/', { headers: { Host: 'a b' } }, 400, 'malformed'],
  ];
  for (const [what, target, sent, status, outcome] of rows) {
    const reply = await request(target, sent);
    t.equal(reply.status, status, `${what}: ${reply.text}`);
    t.match(reply.log.at(-1), { outcome, detail: String }, what);
    t.equal(reply.headers['allow'], status === 405 ? METHODS.join(', ') : undefined, what);
  }
}); // prettier-ignore

t.test('a request that is not HTTP/1.1 is refused by what is too long in it', async (t) => {
  for (const [fault, status] of [
    ['head_too_large', 431],
    ['trailers_too_large', 431],
    ['chunk_line_too_long', 413],
    ['extensions_too_large', 413],
    ['line_end', 400],
  ] as const)
    t.equal(refusalReply(parseRefusal(fault)).status, status, fault);
  for (const [fault, rule] of Object.entries(FAULTS)) {
    const refusal = parseRefusal(fault as Fault, 7);
    if (refusal.refusal === 'malformed')
      t.same(refusal, { refusal: 'malformed', detail: `the request is not well-formed HTTP/1.1: ${fault} at byte 7 (${rule})` });
  }
}); // prettier-ignore

t.test('logs a record for the configured requests', async (t) => {
  const logged = async (log: object, headers: Headers) => {
    const { request } = await startInProcess(t, { log, routes: [{ path: '/open', auth: 'none' }] });
    const lines = async (target: string) => (await request(target, { headers })).log.filter(({ msg }) => msg === 'request').length;
    return [await lines('/open?secret=1'), await lines('/closed')];
  };
  t.same(await logged({ requests: 'all' }, {}), [1, 1]);
  t.same(await logged({ requests: 'refused' }, {}), [0, 1]);
  t.same(await logged({ requests: 'none' }, {}), [0, 0]);
  t.same(await logged({ requests: 'all', sample: 0 }, {}), [0, 1], 'sampling applies only to served requests');
}); // prettier-ignore

t.test('a record describes the client, and contains no values of the query', async (t) => {
  const fields = ['path', 'query', 'client', 'host', 'user_agent', 'timings'];
  const { request } = await startInProcess(t, { log: { requests: 'all', fields }, listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] } });
  const headers = { 'User-Agent': 'probe', 'X-Forwarded-For': '203.0.113.9', traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
  const { log } = await request('/a?token=hidden-value&page=1', { headers });
  t.match(log, [{ path: '/a', query: 'token&page', client: '203.0.113.9', host: 'api.example', user_agent: 'probe', trace_id: 'a'.repeat(32) }]);
  t.notMatch(JSON.stringify(log), 'hidden-value');
  const form = new URLSearchParams({ username: 'user@example.com', password: PASSWORD, name: 'Schlüssel' });
  const created = await request('/tokens', { body: form, headers });
  t.match(created, { status: 200, json: { name: 'Schlüssel' } }, 'a response with non-ASCII characters is complete');
  t.match(created.audit.at(-1), { event: 'token.created', address: '203.0.113.9', address_from: 'proxy' });
  const direct = await request('/tokens', { body: form });
  t.match(direct.audit.at(-1), { event: 'token.created', address: '127.0.0.1', address_from: 'socket' });
}); // prettier-ignore

t.test('the upstream learns the public prefix and port: what is stripped, and what a trusted proxy tells', async (t) => {
  const told = { 'X-Forwarded-Prefix': '/team/', 'X-Forwarded-Port': '8443' };
  const rows: readonly [trusted: string[], target: string, Headers, prefix: string | undefined, port: string | undefined][] = [
    [[], '/x', {}, undefined, undefined],
    [[], '/x', told, undefined, undefined],
    [[], '/app/x', told, '/app', undefined],
    [['127.0.0.1'], '/x', {}, undefined, undefined],
    [['127.0.0.1'], '/x', told, '/team', '8443'],
    [['127.0.0.1'], '/app/x', told, '/team/app', '8443'],
    [['127.0.0.1'], '/x', { 'X-Forwarded-Prefix': '/', X_Forwarded_Port: '1' }, undefined, undefined],
  ];
  for (const [trusted_proxies, target, headers, prefix, port] of rows) {
    const { request } = await startInProcess(t, {
      listen: { host: '127.0.0.1', port: 0, trusted_proxies },
      routes: [{ path: '/app/*', auth: 'none', strip_prefix: '/app' }],
      default_route: { auth: 'none' },
    });
    const fields = Object.entries((await request(target, { headers })).forwarded?.fields ?? {});
    const sent = (name: string) => fields.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);
    t.same([sent('x-forwarded-prefix'), sent('x-forwarded-port')], [[prefix ?? []].flat(), [port ?? []].flat()], `${trusted_proxies.join()} ${target} ${JSON.stringify(headers)}`);
  }
}); // prettier-ignore

t.test('explain without a store: a subject replaces the credential, and owns the tokens it names', async (t) => {
  const { loaded, opened } = await startInProcess(t);
  const user = await opened.store.directory.getUserByLogin('engineer@example.com');
  if (user === undefined) throw new Error('the user is not there');
  const ask = (of: Simulator, locked: boolean, method: string, target: string) =>
    of.simulate({ method, target, as: { subject: syntheticSession({ ...user, locked }) } }, Date.now());
  for (const [store, simulator] of [['none', new Simulator(loaded, null)], ['one', new Simulator(loaded, opened.store)]] as const) {
    t.match(await ask(simulator, false, 'PUT', '/a'), { verdict: { outcome: 'forward' }, credential: { user_id: 'engineer' }, note: null }, store);
    t.match(await ask(simulator, true, 'GET', '/a'), { verdict: { outcome: 'unauthenticated' }, note: /engineer@example.com is locked/ }, store);
    t.match(await ask(simulator, false, 'GET', '/tokens'), { verdict: { endpoint: null, outcome: 'role', status: 403 } }, store);
  }
}); // prettier-ignore

t.test('a session ends with logout, and a token with its revocation', async (t) => {
  const { request, login, token } = await startInProcess(t);
  const Cookie = await login('user');
  const out = await request('/logout', { method: 'POST', headers: { Cookie, 'Latchkey-Page': '1' } });
  t.match(out.headers, { 'set-cookie': [/^service\.session=; .*Max-Age=0/], 'clear-site-data': '"cache", "storage"' });
  t.equal((await request('/_latchkey/session', { headers: { Cookie } })).status, 401);
  const headers = { 'Service-Key': await token('user') };
  t.equal((await request('/tokens/self', { method: 'DELETE', headers })).status, 204);
  t.equal((await request('/tokens/self', { headers })).status, 401);
}); // prettier-ignore

t.test('streams: ends those that would be refused now, or cannot be re-evaluated', async (t) => {
  const interval = 200;
  const watch = (recheck: Recheck) => {
    const faults: unknown[] = [];
    const revalidator = new StreamRevalidator(() => interval, recheck, (error) => faults.push(error));
    t.teardown(() => revalidator.close());
    const ended: Refusal[] = [];
    const began = performance.now();
    const stream = { record: { head: {} as never, subject: null }, abort: (reason: Refusal) => void ended.push(reason) };
    const watched = revalidator.watch(stream);
    return { revalidator, watched, ended, faults, stream, age: () => performance.now() - began };
  };
  const refused = watch(() => ({ refusal: 'unauthenticated' }));
  await until(() => refused.ended.length > 0, 'it ends');
  t.same(refused.ended, [{ refusal: 'unauthenticated' }]);
  t.ok(refused.age() >= interval / 2, 'not before half of the interval');
  const unanswered = [() => Promise.reject(new Error('down')), () => { throw new Error('down'); }, () => new Promise<undefined>(() => undefined)];
  await Promise.all(unanswered.map(async (recheck) => {
    const silent = watch(recheck);
    await until(() => silent.ended.length > 0, 'it ends');
    t.same(silent.ended, [{ refusal: 'store_unavailable' }]);
    t.ok(silent.age() >= interval, 'not before the end of the interval');
  }));
  let asked = 0;
  const kept = watch(async () => void (asked += 1));
  await until(() => asked >= 2 && kept.age() > 2 * interval, 'it is re-evaluated');
  t.same(kept.ended, [], 'an allowed stream stays open');
  kept.revalidator.end(kept.watched);
  const broken = watch(() => ({ refusal: 'unauthenticated' }));
  broken.stream.abort = () => { throw new Error('in abort'); };
  const other = { record: { head: {} as never, subject: null }, abort: () => void broken.ended.push({ refusal: 'fault' }) };
  broken.revalidator.watch(other);
  await until(() => broken.ended.length > 0 && broken.faults.length > 0, 'the other one ends anyway');
  t.match(broken.faults, [{ message: 'in abort' }]);
}); // prettier-ignore

t.test('streams: one whose interval passed without a check is checked before it ends', async (t) => {
  const shortened = () => 10;
  const stopped = () => {
    for (const until = performance.now() + 600; performance.now() < until;);
    return 500;
  };
  const verdicts = { holds: async () => undefined, fails: () => Promise.reject(new Error('down')) };
  for (const [why, pass] of Object.entries({ shortened, stopped }))
    for (const [verdict, recheck] of Object.entries(verdicts)) {
      let interval = 500;
      let asked = 0;
      const ended: Refusal[] = [];
      const revalidator = new StreamRevalidator(
        () => interval,
        () => {
          asked += 1;
          return recheck();
        },
        (error) => t.fail(String(error)),
      );
      t.teardown(() => revalidator.close());
      revalidator.watch({
        record: { head: {} as never, subject: null },
        abort: (reason) => void ended.push(reason),
      });
      interval = pass();
      await until(() => asked >= 2 || ended.length > 0, 'the checks');
      const expected = verdict === 'holds' ? [] : [{ refusal: 'store_unavailable' }];
      t.same(ended, expected, `${why}, ${verdict}`);
      t.ok(asked >= 1, 'it was checked');
    }
});

t.test('a revocation ends its streams at once, for each kind of credential, and no others', async (t) => {
  const user = { id: 'U1' };
  const subjects = {
    token: { credential: 'token', user, token: { id: 'T1', digest: 'D1' } },
    other: { credential: 'token', user: { id: 'U2' }, token: { id: 'T2', digest: 'D2' } },
    legacy: { credential: 'legacy_key', user: { id: 'U3' }, token: { id: 'T3', digest: 'D3' } },
    session: { credential: 'session', user, session: { digest: 'S1' } },
    jwt: { credential: 'jwt', user, token: { id: 'T1', digest: 'D1' } },
    nobody: null,
  };
  /** Returns which streams end for these names, and how often a stream is re-evaluated. */
  const endedBy = async (names: readonly string[] | null, holds: boolean) => {
    let asked = 0;
    const recheck = (): Refusal | undefined => {
      asked += 1;
      return holds ? undefined : { refusal: 'unauthenticated' };
    };
    const revalidator = new StreamRevalidator(() => 60_000, recheck, (error) => t.fail(String(error)));
    t.teardown(() => revalidator.close());
    const ended: string[] = [];
    for (const [name, subject] of Object.entries(subjects))
      revalidator.watch({ record: { head: {} as never, subject: subject as never }, abort: () => void ended.push(name) });
    revalidator.ended(names && endedByName(names));
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    return { ended, asked };
  };
  t.same(await endedBy(['token:T1'], true), { ended: ['token'], asked: 0 }, 'revoked: no re-evaluation needed');
  for (const name of ['legacy:D3', 'token:T3']) {
    t.same(await endedBy([name], false), { ended: ['legacy'], asked: 1 }, name);
    t.same(await endedBy([name], true), { ended: [], asked: 1 }, `${name}, a legacy key that was restored`);
  }
  t.same(await endedBy(['session:S1'], true), { ended: ['session'], asked: 0 });
  for (const name of ['suspended:5:T1', 'changed:5:T1', 'ends:5:T1']) {
    t.same(await endedBy([name], false), { ended: ['token'], asked: 1 }, name);
    t.same(await endedBy([name], true), { ended: [], asked: 1 }, `${name}, still valid`);
  }
  t.same(await endedBy(['user:5:U1'], false), { ended: ['token', 'session'], asked: 2 });
  t.same(await endedBy(['token:T1', 'changed:5:T1'], true), { ended: ['token'], asked: 0 }, 'only the ended credential matters');
  t.same(await endedBy(null, false), { ended: ['token', 'other', 'legacy', 'session', 'jwt', 'nobody'], asked: 6 }, 'anything may have been revoked');
}); // prettier-ignore

t.test('streams that one change concerns end together, so that none takes the connection of another', async (t) => {
  const subject = { credential: 'session', user: { id: 'U1' }, session: { digest: 'S1' } } as never;
  const verdicts: ((refusal: Refusal) => void)[] = [];
  const revalidator = new StreamRevalidator(() => 60_000, () => new Promise((resolve) => verdicts.push(resolve)), (error) => t.fail(String(error)));
  t.teardown(() => revalidator.close());
  const ended: string[] = [];
  for (const name of ['holds', 'waits']) revalidator.watch({ record: { head: {} as never, subject }, abort: () => void ended.push(name) });
  revalidator.ended(endedByName(['user:5:U1']));
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  verdicts[0]?.({ refusal: 'unauthenticated' });
  await turn();
  t.same(ended, [], 'the other one may wait for it');
  verdicts[1]?.({ refusal: 'unauthenticated' });
  await turn();
  t.same(ended, ['holds', 'waits']);
}); // prettier-ignore

t.test('streams: rechecks that fail, or whose verdicts come twice', async (t) => {
  const subject = { credential: 'session', user: { id: 'U1' }, session: { digest: 'S1' } } as never;
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const open = (names: readonly string[]) => {
    const verdicts: { resolve: (refusal?: Refusal) => void; reject: (error: Error) => void }[] = [];
    const recheck = () => new Promise<Refusal | undefined>((resolve, reject) => verdicts.push({ resolve, reject }));
    const revalidator = new StreamRevalidator(() => 60_000, recheck, (error) => t.fail(String(error)));
    t.teardown(() => revalidator.close());
    const ended: string[] = [];
    for (const name of names) revalidator.watch({ record: { head: {} as never, subject }, abort: () => void ended.push(name) });
    return { verdicts, ended, change: () => revalidator.ended(endedByName(['user:5:U1'])) };
  };
  for (const order of [[0, 1], [1, 0]]) {
    const two = open(['fails', 'refused']);
    two.change();
    for (const at of order) {
      if (at === 0) two.verdicts[0]?.reject(new Error('down'));
      else two.verdicts[1]?.resolve({ refusal: 'unauthenticated' });
      await turn();
    }
    t.same(two.ended, ['refused'], 'a failure keeps no other stream open');
  }
  const twice = open(['refused']);
  twice.change();
  twice.change();
  for (const { resolve } of twice.verdicts) resolve({ refusal: 'unauthenticated' });
  await turn();
  t.same([twice.verdicts.length, ...twice.ended], [2, 'refused'], 'it ends once');

  const interval = 600;
  let asked = 0;
  const ended: Refusal[] = [];
  const down = async (): Promise<undefined> => {
    asked += 1;
    if (asked === 1) throw new Error('down');
  };
  const revalidator = new StreamRevalidator(() => interval, down, (error) => t.fail(String(error)));
  t.teardown(() => revalidator.close());
  const began = performance.now();
  revalidator.watch({ record: { head: {} as never, subject }, abort: (reason) => void ended.push(reason) });
  await until(() => ended.length > 0 || performance.now() - began > 1.5 * interval, 'the interval');
  t.same(ended, [], 'a short failure ends nothing');
}); // prettier-ignore

t.test('those who wait for the end of a credential wait for what it still does', async (t) => {
  const subject = { credential: 'token', user: { id: 'U1' }, token: { id: 'T1', digest: 'D1' } } as never;
  const rows: [readonly string[] | null, boolean][] = [
    [['token:T1'], true],
    [['changed:5:T1'], true],
    [['user:5:U1'], true],
    [null, true],
    [['token:T2'], false],
    [[], false],
  ];
  for (const [names, waits] of rows) {
    const revalidator = new StreamRevalidator(() => 60_000, () => undefined, (error) => t.fail(String(error)));
    t.teardown(() => revalidator.close());
    let finish = () => {};
    const acting = revalidator.act(subject, () => new Promise<void>((resolve) => (finish = resolve)));
    revalidator.ended(names && endedByName(names));
    let isSettled = false;
    const settled = revalidator.settled().then(() => (isSettled = true));
    await new Promise((resolve) => setImmediate(resolve));
    t.equal(isSettled, !waits, String(names));
    finish();
    await Promise.all([acting, settled]);
  }
}); // prettier-ignore

t.test('writes a revocation to the audit log before anyone waits for the fleet', async (t) => {
  const events: string[] = [];
  const { request, token } = await startInProcess(t, {}, {
    opened: ({ store, audit }) => ({
      store: { ...store, fleet: { ...store.fleet, list: async () => (events.push('waits'), []) } },
      audit: { ...audit, record: ({ event }) => void events.push(String(event)) },
    }),
  });
  const headers = { 'Service-Key': await token('user') };
  events.length = 0;
  const reply = await request('/tokens/self?wait=fleet', { method: 'DELETE', headers });
  t.match(reply, { status: 200, json: { slowest_ms: null } });
  t.same(events, ['token.revoked', 'waits']);
}); // prettier-ignore
/** Records the spans of requests instead of sending them. */
class Traces implements Tracing {
  readonly begun: Parameters<Tracing['begin']>[1][] = [];
  readonly told: unknown[] = [];

  begin(_startedAt: number, request: Parameters<Tracing['begin']>[1]): RequestTrace {
    this.begun.push(request);
    return {
      traceId: 'f'.repeat(32),
      run: (work) => work(),
      stored: () => undefined,
      decided: (_at, values) => void this.told.push(['decided', values]),
      call: (call) => (this.told.push(['call', call]), 'of the call'),
      end: (end, status) => void this.told.push(['end', { ...end, upstreamStatus: status }]),
    };
  }

  async close(): Promise<void> {}
}

/**
 * Starts a server with every optional feature enabled, and returns a JWT from an issuer whose keys
 * it knows.
 */
async function startWithAll(t: T) {
  const folder = temporaryFolder(t);
  const [pair, other] = [await newPair('one'), await newPair('one')];
  for (const file of ['keys.json', 'lost.json']) writeFileSync(join(folder, file), JSON.stringify({ keys: [pair.jwk] }));
  const issuer = (name: string, file: string) => ({
    name,
    issuer: `https://${name}.example`,
    audience: 'latchkey',
    jwks: { file: join(folder, file) },
    subjects: [{ claims: { sub: 'ci' }, customer_id: 'C1', role: 'engineer' }],
  });
  const traces = new Traces();
  const config = {
    upstream: undefined,
    upstreams: { api: { url: 'http://127.0.0.1:1/v2' }, two: { urls: ['http://127.0.0.1:1/v3', 'http://127.0.0.1:2/v3'] } },
    interface: { bearer: true, ui: { host: 'page.example' } },
    tokens: { warn_before: '7d' },
    cors: { origins: ['https://app.example'], headers: ['Service-Key'] },
    jwt_issuers: [issuer('ci', 'keys.json'), issuer('gone', 'lost.json')],
    identity: { assertion: { enabled: true, issuer: 'https://auth.example', audience: 'api', bind: 'request' } },
    routes: [
      { path: '/open', auth: 'none' },
      { path: '/api/*', action: 'api', strip_prefix: '/api' },
      { path: '/two/*', auth: 'none', upstream: 'two' },
      { path: '/private/*', action: 'api', cors: false },
    ],
    default_route: { action: 'api', upstream: 'api' },
  };
  const server = await startInProcess(t, config, { services: () => ({ tracing: traces }) });
  rmSync(join(folder, 'lost.json'));
  const jwt = (by = 'ci', key = pair, aud = 'latchkey') =>
    new SignJWT({ sub: 'ci' })
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .setIssuer(`https://${by}.example`)
      .setAudience(aud)
      .setIssuedAt()
      .setExpirationTime('1m')
      .sign(key.privateKey);
  const simulator = new Simulator(server.loaded, server.opened.store);
  return { ...server, traces, simulator, jwt, forged: () => jwt('ci', other), misled: () => jwt('ci', pair, 'other') };
} // prettier-ignore

t.test('with every feature enabled', async (t) => {
  const all = await startWithAll(t);
  const { request, token, create, login, simulator, traces } = all;
  const soon = new Date(Date.now() + 3_600_000).toISOString();
  const key = await token('engineer', { expires_at: soon });
  const jwt = await all.jwt();
  const bearer = (value: string): Headers => ({ Authorization: `Bearer ${value}` });
  const ORIGIN = { Origin: 'https://app.example' };

  await t.test('a bearer credential is a token or a JWT, and the only credential', async (t) => {
    const rows: [string, Headers, string, number, string][] = [
      ['a token', bearer(key), '/', 200, 'forwarded'],
      ['a token that never existed', bearer(`${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`), '/', 401, 'unauthenticated'],
      ['a JWT', bearer(jwt), '/', 200, 'forwarded'],
      ['a JWT signed by another issuer', bearer(await all.forged()), '/', 401, 'unauthenticated'],
      ['a JWT for another audience', bearer(await all.misled()), '/', 401, 'unauthenticated'],
      ['a JWT whose keys cannot be fetched', bearer(await all.jwt('gone')), '/', 503, 'key_set_unavailable'],
      ['a JWT that the store must know', bearer(jwt), '/tokens', 403, 'wrong_credential_kind'],
      ['both fields', { ...bearer(key), 'Service-Key': key }, '/', 200, 'forwarded'],
      ['both fields, different', { ...bearer(key), 'Service-Key': 'other' }, '/', 400, 'several_credentials'],
      ['a JWT and a token', { ...bearer(jwt), 'Service-Key': key }, '/', 400, 'several_credentials'],
      ['the same field twice', { Authorization: [`Bearer ${key}`, `Bearer ${jwt}`] }, '/', 400, 'several_credentials'],
      ['credentials of another scheme', bearer('opaque'), '/', 401, 'unauthenticated'],
    ];
    for (const [what, headers, target, status, outcome] of rows) {
      const { status: got, headers: fields, log, forwarded } = await request(target, { headers });
      t.equal(got, status, what);
      t.match(log.at(-1), { outcome }, what);
      if (status === 401) t.match(fields['www-authenticate'], /Bearer/, what);
      t.equal(forwarded?.fields['authorization'], undefined, `${what}: not forwarded to the upstream`);
    }
    const { forwarded, log } = await request('/', { headers: bearer(jwt) });
    t.match(forwarded?.fields, { 'x-auth-credential': 'jwt', 'x-auth-role': 'engineer', 'x-auth-token-id': undefined });
    t.match(log.at(-1), { credential: 'jwt', issuer: 'ci', subject: 'ci' });
    const { audit } = await request('/tokens', { headers: bearer(jwt) });
    t.match(audit, [{ event: 'access.denied', actor: { credential: 'jwt', issuer: 'ci', subject: 'ci' } }]);
  });

  await t.test('explain checks no JWT', async (t) => {
    const imagined = { method: 'GET', target: '/', fields: ['Authorization', `Bearer ${jwt}`], as: 'anonymous' } as const;
    t.match(await simulator.simulate(imagined, Date.now()), { verdict: { outcome: 'unauthenticated' }, note: /JWT/ });
  });

  await t.test('a response names the expiry of its token when it is near', async (t) => {
    const later = await token('engineer', { expires_at: new Date(Date.now() + 30 * 86_400_000).toISOString() });
    const forever = await token('engineer');
    const expiry = async (headers: Headers) => (await request('/', { headers })).headers['service-token-expiration'];
    t.equal(Date.parse(String(await expiry({ 'Service-Key': key }))), Math.floor(Date.parse(soon) / 1000) * 1000);
    const denied = await request('/tokens/none', { headers: { 'Service-Key': key } });
    t.match(denied, { status: 403, headers: { 'service-token-expiration': String } }, 'a refusal does, too');
    for (const headers of [{ 'Service-Key': later }, { 'Service-Key': forever }, { Cookie: await login('engineer') }, bearer(jwt), {}])
      t.equal(await expiry(headers), undefined, Object.keys(headers).join());
  });

  await t.test('an assertion is bound to the request as the upstream receives it', async (t) => {
    const { forwarded, headers } = await request('/api/a?b=c', { headers: { 'Service-Key': key } });
    const claims = JSON.parse(Buffer.from(forwarded?.fields['x-auth-assertion']?.split('.')[1] ?? '', 'base64url').toString());
    const htu = createHash('sha256').update('/v2/a?b=c').digest('base64url');
    t.match(claims, { sub: 'engineer', htm: 'GET', htu, rid: headers['x-request-id'] });
    t.ok(claims.exp - claims.iat <= 10);
  });

  await t.test('CORS: allowed origins may read every response, refusals included', async (t) => {
    const allowed = { 'access-control-allow-origin': ORIGIN.Origin };
    const rows: [string, string, Sent, number, object][] = [
      ['an answer', '/', { headers: { ...ORIGIN, ...bearer(key) } }, 200, {}],
      ['a refusal', '/', { headers: ORIGIN }, 401, allowed],
      ['a refused head', '/%zz', { headers: ORIGIN }, 400, allowed],
      ['a head with two origins', '/', { headers: { Origin: [ORIGIN.Origin, ORIGIN.Origin] } }, 400, { 'access-control-allow-origin': undefined }],
      ['a refused path', '/open/', { headers: ORIGIN }, 400, allowed],
      ['a route without CORS', '/private/a', { headers: ORIGIN }, 401, { 'access-control-allow-origin': undefined }],
      ['a preflight for it', '/private/a', { method: 'OPTIONS', headers: { ...ORIGIN, 'Access-Control-Request-Method': 'PUT' } }, 401, { 'access-control-allow-origin': undefined }],
      ['another origin', '/', { headers: { Origin: 'https://evil.example' } }, 401, { 'access-control-allow-origin': undefined }],
    ];
    for (const [what, target, sent, status, fields] of rows) {
      const reply = await request(target, sent);
      t.equal(reply.status, status, what);
      t.match(reply.headers, fields, what);
    }
    const preflight = { ...ORIGIN, 'Access-Control-Request-Method': 'PUT', 'Access-Control-Request-Headers': 'service-key' };
    for (const [headers, outcome] of [[preflight, 'preflight'], [{ ...preflight, Origin: 'https://evil.example' }, 'preflight_refused']] as const) {
      const reply = await request('/api/a', { method: 'OPTIONS', headers });
      t.equal(reply.status, 204);
      t.match(reply.log.at(-1), { outcome });
      t.equal(reply.headers['access-control-allow-origin'], outcome === 'preflight' ? ORIGIN.Origin : undefined);
      const told = await simulator.simulate({ method: 'OPTIONS', target: '/api/a', fields: ['Host', 'a', ...Object.entries(headers).flat()], as: 'anonymous' }, 0);
      t.match(told, { route: { path: '/api/*' }, verdict: { outcome, status: 204, allowed: outcome === 'preflight' } });
    }
    const unasked = [ORIGIN, { 'Access-Control-Request-Method': 'PUT' }];
    for (const headers of unasked) t.equal((await request('/api/a', { method: 'OPTIONS', headers })).status, 401, 'OPTIONS without a preflight');
  });

  await t.test('the page has its own host, without the routes of upstreams', async (t) => {
    const at = (Host: string, target: string) => request(target, { headers: { Host, Accept: 'text/html' } });
    t.match(await at('Page.Example', '/'), { status: 302, headers: { location: '/_latchkey/' } });
    t.equal((await at('page.example', '/_latchkey/')).status, 200);
    t.equal((await at('page.example', '/open')).status, 404);
    t.equal((await at('api.example', '/open')).status, 200);
    t.equal((await at('api.example', '/_latchkey/')).status, 401);
    t.equal((await at('api.example', '/')).status, 401);
  });

  await t.test('each request has its spans, and clients cannot decide whether they are sampled', async (t) => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    traces.begun.splice(0);
    traces.told.splice(0);
    const served = await request('/api/a?b=c', { headers: { 'Service-Key': key, traceparent } });
    t.equal(served.forwarded?.fields['traceparent'], 'of the call');
    t.match(served.log.at(-1), { trace_id: 'f'.repeat(32) });
    t.match(traces.begun, [{ method: 'GET', path: '/api/a', host: 'api.example', parent: { traceId: 'a'.repeat(32), sampled: undefined } }]);
    t.match(traces.told, [
      ['decided', { 'latchkey.decision': 'allowed' }],
      ['call', { upstream: 'api', origin: 'http://127.0.0.1:1', method: 'GET', path: '/v2/a' }],
      ['end', { route: '/api/*', status: 200, outcome: 'forwarded', values: { 'user.id': 'engineer', 'latchkey.token_id': String }, upstreamStatus: 200 }],
    ]);
    traces.told.splice(0);
    await request('/two/a');
    t.match(traces.told[1], ['call', { upstream: 'two', origin: null, path: '/two/a' }], 'with several addresses, none is named');
    traces.told.splice(0);
    await request('/', { headers: bearer(jwt) });
    t.match(traces.told.at(-1), ['end', { values: { 'latchkey.credential': 'jwt', 'latchkey.token_id': undefined } }]);
    traces.told.splice(0);
    await request('/');
    await request('/%zz');
    t.equal(traces.begun.at(-1), null, 'a refused head is not described');
    t.match(traces.told, [
      ['decided', { 'latchkey.decision': 'refused' }],
      ['end', { status: 401, outcome: 'unauthenticated' }],
      ['end', { status: 400, outcome: 'malformed' }],
    ]);
    t.equal((await create('user')).status, 200);
  });
}); // prettier-ignore

t.test('explain: the limits of a token, and why one is invalid', async (t) => {
  const { request, create, loaded, opened } = await startInProcess(t, {
    interface: { bearer: false },
    tokens: { owner_login_within: '1d' },
    routes: [{ path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' }],
  });
  const simulator = new Simulator(loaded, opened.store);
  const limits = { rate: '10/1m', addresses: ['10.0.0.0/8'], expires_at: '2100-01-01T00:00:00Z' };
  const { id, access_token: key } = (await create('superuser', limits as never)).json;
  const ask = (method: string, target: string, address = '10.0.0.1') =>
    simulator.simulate({ method, target, address, as: { key } }, Date.now());
  t.match(await ask('GET', '/tokens/self'), {
    verdict: { allowed: true, outcome: 'answer', status: 200, upstream: null, endpoint: 'show_own_token' },
    credential: { token_id: id, rate: '10/1m', addresses: ['10.0.0.0/8'], expires_at: '2100-01-01T00:00:00+00:00' },
  });
  t.match(await ask('GET', '/tokens/self', '192.0.2.1'), { verdict: { outcome: 'address' } });

  const user = await opened.store.directory.getUserByLogin('superuser@example.com');
  const found = await opened.store.tokens.get(id);
  if (user === undefined || found === undefined) throw new Error('they are not there');
  const restrictions = { ...found.token.restrictions, suspended: true } as const;
  await opened.store.directory.change({ removeTokens: [id] }, Date.now());
  await opened.store.directory.change({ tokens: [{ ...found.token, restrictions }] }, Date.now());
  t.match(await ask('GET', '/'), { verdict: { outcome: 'unauthenticated' }, note: `the token ${id} is suspended` });
  await opened.store.directory.change({ removeTokens: [id] }, Date.now());
  const expired = { ...found.token, restrictions: undefined, expiresAt: Date.now() - 1_000 };
  await opened.store.directory.change({ tokens: [expired] }, Date.now());
  for (const [headers, outcome] of [[{ 'Service-Key': key }, 'token_expired'], [{}, 'unauthenticated']] as const) {
    const reply = await request('/', { headers });
    t.match(reply.log.at(-1), { outcome });
    t.notMatch(reply.headers['www-authenticate'], /bearer/i, 'no Bearer challenge if bearer tokens are off');
  }
  await opened.store.directory.change({ removeTokens: [id] }, Date.now());
  const provider = { name: 'id', issuer: 'https://id.example', subject: 'x', loginAt: Date.now() - 2 * 86_400_000 };
  await opened.store.directory.change({ tokens: [found.token], users: [{ ...user, provider }] }, Date.now());
  t.match(await ask('GET', '/'), { verdict: { outcome: 'unauthenticated' }, note: /has not logged in for too long/ });

  const imagined = new Simulator(loaded, null);
  const as = { subject: syntheticSession({ ...user, locked: false }) };
  const outcome = async (method: string, target: string, who: typeof as | 'anonymous' = as) =>
    (await imagined.simulate({ method, target, as: who }, 0)).verdict.outcome;
  t.same([await outcome('POST', '/tokens'), await outcome('POST', '/tokens', 'anonymous')], ['answer', 'answer'], 'endpoints that take a password in the body');
  t.equal(await outcome('GET', '/tokens/of-somebody'), 'answer', "the owner is unknown, so the token counts as the user's own");
  t.equal(await outcome('DELETE', '/user/U9'), 'forward', 'no user has tokens');
}); // prettier-ignore

t.test('redirects a refused browser request for / to the page, unless a route matches /', async (t) => {
  for (const [routes, status] of [
    [[], 302],
    [[{ path: '/', action: 'api' }], 401],
  ] as const) {
    const { request } = await startInProcess(t, { routes });
    t.equal((await request('/', { headers: { Accept: 'text/html' } })).status, status);
  }
});

t.test('requests without a body are served while too many bodies of others arrive', async (t) => {
  const { request } = await startInProcess(t);
  const shares = Array.from({ length: 1_024 }, (_, i) =>
    anonymousBodies.begin(`network ${i}`, () => undefined),
  );
  t.teardown(() => shares.forEach((share) => share?.end()));
  const body = new URLSearchParams({ user: 'user@example.com', password: PASSWORD });
  t.equal((await request('/login', { body })).status, 503);
  for (const path of ['/_latchkey/openapi.json', '/.well-known/jwks.json', '/'])
    t.not((await request(path)).status, 503, path);
});

t.test('a handshake that the upstream does not accept names the expiry of its token, too', async (t) => {
  const refusal = { refusal: 'upstream_unreachable', detail: 'down' } as const;
  const upgrade: Services['upgrade'] = ({ refuse, done }) => {
    refuse(refusal);
    done({ status: null, upstreamAddress: undefined });
    return { abort: () => undefined };
  };
  const { token, handshake } = await startInProcess(t, { tokens: { warn_before: '30d' } }, { services: () => ({ upgrade }) });
  const soon = await token('superuser', { expires_at: new Date(Date.now() + 86_400_000).toISOString() });
  const reply = await handshake('/', { headers: { ...HANDSHAKE, 'Service-Key': soon } });
  t.match(reply, { status: 502, headers: { 'service-token-expiration': String } });
}); // prettier-ignore
