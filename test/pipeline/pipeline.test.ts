import t, { type Test as T } from 'tap';
import { syntheticSession } from '../../src/commands/synthetic-subject.js';
import type { Refusal } from '../../src/domain/refusal.js';
import { Unavailable } from '../../src/domain/unavailable.js';
import { Simulator } from '../../src/pipeline/simulate.js';
import { type Recheck, StreamRevalidator } from '../../src/pipeline/streams.js';
import { endedByName } from '../../src/store/endings.js';
import { OutcomeUnknown, StoreUnavailable } from '../../src/store/faults.js';
import type { Store } from '../../src/store/store.js';
import { PASSWORD } from '../helpers/fixture.js';
import type { Sent } from '../helpers/http.js';
import { startInProcess } from '../helpers/in-process.js';
import { until } from '../helpers/until.js';

type Headers = NonNullable<Sent['headers']>;
const REVOKE = { event: 'token.revoked' };

/** A store of which operations fail while a test wants them to. */
async function startFailing(t: T, config: object = {}) {
  const faults = new Map<string, () => unknown>();
  const failing = (of: string, part: object) =>
    new Proxy(part, {
      get: (target, name: string) => {
        const run = (target as Record<string, (...args: unknown[]) => unknown>)[name];
        return (...args: unknown[]) => (faults.get(`${of}.${name}`) ?? (() => run?.apply(target, args)))();
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

t.test('a fault denies: which answer, what the log says, and what the client learns', async (t) => {
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
    // What is down is told once in a while.
    if (outcome === 'fault') t.match(reply.log[0], { err: { message: 'inside' }, request_id: reply.headers['x-request-id'] }, `${what}: the log does`);
  }
  t.equal((await request('/', { headers: key })).status, 200, 'and then it goes on');
}); // prettier-ignore

t.test('a change that is not confirmed is told as such, and may have been made', async (t) => {
  const { request, login, create, faults } = await startFailing(t);
  const headers = { Cookie: await login('superuser') };
  const { id } = (await create('user')).json;
  faults.set('tokens.revoke', () => Promise.reject(new OutcomeUnknown('no answer')));
  const reply = await request(`/tokens/${id}`, { method: 'DELETE', headers });
  t.match(reply, { status: 503, json: { detail: /may have been applied/ } });
  t.match(reply.audit, [{ ...REVOKE, outcome: 'unknown', target: { token_id: id } }]);
});

t.test('where entries of the audit log are required, what cannot be written down is not done', async (t) => {
  const unwritable = new Unavailable({ refusal: 'audit_unavailable' }, 'the disk is full');
  let broken = false;
  const check = () => {
    if (broken) throw unwritable;
  };
  const audit = { record: check, note: () => undefined, ensureWritable: check, reopen: () => undefined, close: () => undefined };
  const { request, token, create } = await startInProcess(t, {}, { opened: () => ({ audit }) });
  const headers = { 'Service-Key': await token('user') };
  broken = true;
  t.match(await create('user'), { status: 503, json: { detail: /audit log cannot be written/ } });
  t.equal((await request('/tokens/self', { method: 'DELETE', headers })).status, 503);
  t.equal((await request('/tokens/self', { headers })).status, 200, 'a read goes on, and the token is there');
  broken = false;
  t.equal((await request('/tokens/self', { method: 'DELETE', headers })).status, 204);
}); // prettier-ignore

t.test('an identity that cannot be signed goes nowhere', async (t) => {
  const cannot = new Unavailable({ refusal: 'signing_unavailable' }, 'no key');
  for (const identify of [() => Promise.reject(cannot), () => { throw cannot; }]) {
    const { request, token } = await startInProcess(t, {}, { services: () => ({ identify }) });
    const reply = await request('/', { headers: { 'Service-Key': await token('user') } });
    t.same([reply.status, reply.forwarded], [503, undefined]);
    t.match(reply.log.at(-1), { outcome: 'signing_unavailable' });
  }
}); // prettier-ignore

t.test('a request that is refused before the gate: its head, its body', async (t) => {
  const { request } = await startInProcess(t, { limits: { body_size: '8KiB', target_size: '2KiB', head_fields: 20 } });
  const form = { body: new URLSearchParams({ user: 'user@example.com', password: PASSWORD }) };
  const many = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`X-${i}`, 'x']));
  const rows: [string, string, Sent, number, string][] = [
    ['a body of another type', '/login', { method: 'POST', body: 'x', headers: { 'Content-Type': 'text/plain' } }, 400, 'malformed'],
    ['broken JSON', '/login', { method: 'POST', body: '{', headers: { 'Content-Type': 'application/json' } }, 400, 'malformed'],
    ['a compressed body', '/login', { ...form, headers: { 'Content-Encoding': 'gzip' } }, 400, 'malformed'],
    ['a long body', '/login', { method: 'POST', body: 'x'.repeat(9000) }, 413, 'body_too_large'],
    ['another method', '/login', { method: 'PUT', body: 'x' }, 404, 'not_found'],
    ['a method that is not served', '/', { method: 'TRACE' }, 405, 'method_not_allowed'],
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
  }
}); // prettier-ignore

t.test('which requests get a record in the log', async (t) => {
  const logged = async (log: object, headers: Headers) => {
    const { request } = await startInProcess(t, { log, routes: [{ path: '/open', auth: 'none' }] });
    const lines = async (target: string) => (await request(target, { headers })).log.filter(({ msg }) => msg === 'request').length;
    return [await lines('/open?secret=1'), await lines('/closed')];
  };
  t.same(await logged({ requests: 'all' }, {}), [1, 1]);
  t.same(await logged({ requests: 'refused' }, {}), [0, 1]);
  t.same(await logged({ requests: 'none' }, {}), [0, 0]);
  t.same(await logged({ requests: 'all', sample: 0 }, {}), [0, 1], 'the sample is of those that were served');
}); // prettier-ignore

t.test('what a record says of the client, and of the query no value', async (t) => {
  const fields = ['path', 'query', 'client', 'host', 'user_agent', 'timings'];
  const { request } = await startInProcess(t, { log: { requests: 'all', fields }, listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] } });
  const headers = { 'User-Agent': 'probe', 'X-Forwarded-For': '203.0.113.9', traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` };
  const { log } = await request('/a?token=hidden-value&page=1', { headers });
  t.match(log, [{ path: '/a', query: 'token&page', client: '203.0.113.9', host: 'api.example', user_agent: 'probe', trace_id: 'a'.repeat(32) }]);
  t.notMatch(JSON.stringify(log), 'hidden-value');
}); // prettier-ignore

t.test('explained without a store: a subject stands for a credential, and owns the tokens that it names', async (t) => {
  const { loaded, opened } = await startInProcess(t);
  const user = await opened.store.directory.getUserByLogin('engineer@example.com');
  if (user === undefined) throw new Error('the user is not there');
  const ask = (of: Simulator, locked: boolean, method: string, target: string) =>
    of.ask({ method, target, as: { subject: syntheticSession({ ...user, locked }) } }, Date.now());
  for (const [store, simulator] of [['none', new Simulator(loaded, null)], ['one', new Simulator(loaded, opened.store)]] as const) {
    t.match(await ask(simulator, false, 'PUT', '/a'), { verdict: { outcome: 'forward' }, credential: { user_id: 'engineer' }, note: null }, store);
    t.match(await ask(simulator, true, 'GET', '/a'), { verdict: { outcome: 'unauthenticated' }, note: /engineer@example.com is locked/ }, store);
    t.match(await ask(simulator, false, 'GET', '/tokens'), { verdict: { endpoint: null, outcome: 'role', status: 403 } }, store);
  }
}); // prettier-ignore

t.test('a session is over after logout, and a token after its revocation', async (t) => {
  const { request, login, token } = await startInProcess(t);
  const Cookie = await login('user');
  const out = await request('/logout', { method: 'POST', headers: { Cookie, 'Latchkey-Page': '1' } });
  t.match(out.headers, { 'set-cookie': [/^service\.session=; .*Max-Age=0/], 'clear-site-data': '"cache", "storage"' });
  t.equal((await request('/_latchkey/session', { headers: { Cookie } })).status, 401);
  const headers = { 'Service-Key': await token('user') };
  t.equal((await request('/tokens/self', { method: 'DELETE', headers })).status, 204);
  t.equal((await request('/tokens/self', { headers })).status, 401);
}); // prettier-ignore

t.test('streams: one that would not be let in any more ends, and so does one that cannot be asked about', async (t) => {
  const interval = 200;
  const watch = (recheck: Recheck) => {
    const faults: unknown[] = [];
    const revalidator = new StreamRevalidator(() => interval, recheck, (error) => faults.push(error));
    t.teardown(() => revalidator.close());
    const ended: Refusal[] = [];
    const began = performance.now();
    const stream = { head: {} as never, subject: null, startedAt: 0, abort: (reason: Refusal) => void ended.push(reason) };
    const watched = revalidator.watch(stream);
    return { revalidator, watched, ended, faults, stream, age: () => performance.now() - began };
  };
  const refused = watch(() => ({ refusal: 'unauthenticated' }));
  await until(() => refused.ended.length > 0, 'it ends');
  t.same(refused.ended, [{ refusal: 'unauthenticated' }]);
  t.ok(refused.age() >= interval / 2, 'not before half of the interval');
  for (const unanswered of [() => Promise.reject(new Error('down')), () => { throw new Error('down'); }, () => new Promise<undefined>(() => undefined)]) {
    const silent = watch(unanswered);
    await until(() => silent.ended.length > 0, 'it ends');
    t.same(silent.ended, [{ refusal: 'store_unavailable' }]);
    t.ok(silent.age() >= interval, 'not before the interval is over');
  }
  let asked = 0;
  const kept = watch(async () => void (asked += 1));
  await until(() => asked >= 2 && kept.age() > 2 * interval, 'it is asked about again');
  t.same(kept.ended, [], 'one that is let in still lasts');
  kept.revalidator.end(kept.watched);
  const broken = watch(() => ({ refusal: 'unauthenticated' }));
  broken.stream.abort = () => { throw new Error('in abort'); };
  const other = { head: {} as never, subject: null, startedAt: 0, abort: () => void broken.ended.push({ refusal: 'fault' }) };
  broken.revalidator.watch(other);
  await until(() => broken.ended.length > 0 && broken.faults.length > 0, 'the other one ends all the same');
  t.match(broken.faults, [{ message: 'in abort' }]);
}); // prettier-ignore

t.test('streams of what ended end at once: of each kind of credential, and of nobody else', async (t) => {
  const user = { id: 'U1' };
  const subjects = {
    token: { credential: 'token', user, token: { id: 'T1', digest: 'D1' } },
    other: { credential: 'token', user: { id: 'U2' }, token: { id: 'T2', digest: 'D2' } },
    legacy: { credential: 'legacy_key', user: { id: 'U3' }, token: { id: 'T3', digest: 'D3' } },
    session: { credential: 'session', user, session: { digest: 'S1' } },
    jwt: { credential: 'jwt', user, token: { id: 'T1', digest: 'D1' } },
    nobody: null,
  };
  /** Which of them end, and how often it is asked about one, when these names are told. */
  const endedBy = async (names: readonly string[] | null, holds: boolean, lateStart?: number) => {
    let asked = 0;
    const recheck = (): Refusal | undefined => {
      asked += 1;
      return holds ? undefined : { refusal: 'unauthenticated' };
    };
    const revalidator = new StreamRevalidator(() => 60_000, recheck, (error) => t.fail(String(error)));
    t.teardown(() => revalidator.close());
    const ended: string[] = [];
    const watch = (startedAt: number) => {
      for (const [name, subject] of Object.entries(subjects))
        revalidator.watch({ head: {} as never, subject: subject as never, startedAt, abort: () => void ended.push(name) });
    };
    const before = performance.now();
    if (lateStart === undefined) watch(before);
    revalidator.ended(names && endedByName(names), true);
    if (lateStart !== undefined) watch(before + lateStart);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    return { ended, asked };
  };
  t.same(await endedBy(['token:T1'], true), { ended: ['token'], asked: 0 }, 'revoked: nobody has to be asked');
  for (const name of ['legacy:D3', 'token:T3']) {
    t.same(await endedBy([name], false), { ended: ['legacy'], asked: 1 }, name);
    t.same(await endedBy([name], true), { ended: [], asked: 1 }, `${name}, a legacy key that is there again`);
  }
  t.same(await endedBy(['session:S1'], true), { ended: ['session'], asked: 0 });
  for (const name of ['suspended:5:T1', 'changed:5:T1', 'ends:5:T1']) {
    t.same(await endedBy([name], false), { ended: ['token'], asked: 1 }, name);
    t.same(await endedBy([name], true), { ended: [], asked: 1 }, `${name}, which holds`);
  }
  t.same(await endedBy(['user:5:U1'], false), { ended: ['token', 'session'], asked: 2 });
  t.same(await endedBy(['token:T1', 'changed:5:T1'], true), { ended: ['token'], asked: 0 }, 'what is over counts');
  t.same(await endedBy(null, false), { ended: ['token', 'other', 'legacy', 'session', 'jwt', 'nobody'], asked: 6 }, 'anything may have ended');
  t.same(await endedBy(['token:T1'], false, -10), { ended: ['token'], asked: 1 }, 'let in before, a stream only after');
  t.same(await endedBy(['token:T1'], false, 1_000), { ended: [], asked: 0 }, 'what began after it was let in after it');
}); // prettier-ignore

t.test('a revocation is in the audit log before anybody waits for the fleet', async (t) => {
  const events: string[] = [];
  const { request, token } = await startInProcess(t, {}, {
    opened: ({ store, audit }) => ({
      store: { ...store, fleet: { ...store.fleet, list: () => (events.push('waits'), []) } },
      audit: { ...audit, record: ({ event }) => void events.push(String(event)) },
    }),
  });
  const headers = { 'Service-Key': await token('user') };
  events.length = 0;
  const reply = await request('/tokens/self?wait=fleet', { method: 'DELETE', headers });
  t.match(reply, { status: 200, json: { slowest_ms: null } });
  t.same(events, ['token.revoked', 'waits']);
}); // prettier-ignore
