import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { loadConfig } from '../../src/config/load.js';
import { type Fixture, OPEN_STATUS, startFixture } from '../helpers/fixture.js';
import { freshMetrics, type Reply, send, sendRaw } from '../helpers/http.js';
import { KeyServer, newPair } from '../helpers/key-server.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

type Line = Record<string, unknown>;

const PAGE = readFileSync('docs/observability.md', 'utf8');

function linesOf(stdout: string, msg: string): Line[] {
  const lines = stdout.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'));
  return lines.map((line) => JSON.parse(line) as Line).filter((line) => line['msg'] === msg);
}

/** The only log record of a request. */
async function recordOf({ server }: Fixture, reply: Reply): Promise<Line> {
  const id = reply.headers['x-request-id'];
  const found = () => linesOf(server.stdout(), 'request').filter((line) => line['request_id'] === id);
  await until(() => found().length > 0, 'its log record');
  return found()[0] ?? {};
}

t.test('writes one record per request, with exactly the fields in docs/observability.md', async (t) => {
  const issuer = await KeyServer.start(t, await newPair('one'));
  const subjects = [{ claims: { sub: 'repo:*' }, customer_id: 'C1', role: 'engineer' }];
  const fixture = await startFixture(t, {
    routes: OPEN_STATUS,
    log: { fields: ['path', 'query', 'client', 'host', 'user_agent', 'timings'] },
    jwt_issuers: [{ name: 'ci', issuer: issuer.url, audience: 'latchkey', subjects }],
  });
  const { url, server, token, login } = fixture;
  const get = (path: string, headers: Record<string, string> = {}) => send(url, path, { headers });
  t.match(server.stdout(), /"open_routes":\["\/status"\]/);
  const key = await token('engineer', { scope: 'purge_select' });
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const served = await get('/status?a=first%20secret&b&key=other', { traceparent, 'User-Agent': 'one\u00a0\u0085two' });
  const refused = await get('/service/SVC1', { 'Service-Key': key });
  const own = await get('/tokens', { Cookie: await login('superuser') });
  const first = await recordOf(fixture, served);
  t.match(first, {
    trace_id: '4bf92f3577b34da6a3ce929d0e0e4736', method: 'GET', path: '/status', query: 'a&b&key', status: 200,
    outcome: 'forwarded', route: '/status', action: null, decision: 'allowed', upstream: 'api', client: '127.0.0.1',
    host: new URL(url).host, user_agent: 'one\u00a0\\u0085two',
  });
  const times = ['decision_ms', 'upstream_ms', 'ms'].map((name) => Number(first[name]));
  t.ok(times.every((ms) => ms > 0) && Math.max(...times) === times[2], 'parts of the total time');
  const second = await recordOf(fixture, refused);
  t.match(second, {
    status: 403, outcome: 'scope', detail: /scope/, action: 'service:read', decision: 'refused', rule: /^scope "purge_select"|policy\.scopes/,
    user_id: 'engineer', customer_id: 'C1', credential: 'token', token_id: /^\w{22}$/,
  });
  const third = await recordOf(fixture, own);
  t.match(third, { outcome: 'answered', route: '/tokens', credential: 'session', session_id: /./ });
  const byJwt = await recordOf(fixture, await get('/service/SVC1', { Authorization: `Bearer ${await issuer.sign({})}` }));
  t.match(byJwt, { user_id: 'ci/repo:acme/x', credential: 'jwt', issuer: 'ci', subject: 'repo:acme/x' });
  const fields = /^\| field[\s\S]*?\n\n/m.exec(PAGE)?.[0] ?? '';
  const table = [...fields.matchAll(/^\| `([a-z_]+)` /gm)].map(([, name]) => name);
  const malformed = await recordOf(fixture, await get('/%zz'));
  t.match(malformed, { outcome: 'malformed', peer: '127.0.0.1', ms: Number });
  t.notOk('client' in malformed);
  t.same(new Set([first, second, third, byJwt, malformed].flatMap((line) => Object.keys(line))), new Set(table));
  t.notMatch(server.stdout(), /first%20secret|first secret/, 'no query values');

  // Each of these has a different outcome.
  await send(url, '/login', { body: new URLSearchParams({ user: 'a', password: 'b' }) });
  await send(url, '/%zz');
  await send(url, '/x', { method: 'TRACE' });
  await get('/x', { 'Service-Key': 'x' });
  await send(url, '/x', { headers: { Upgrade: 'websocket', Connection: 'Upgrade' } });
  const req = request(`${url}/login`, { method: 'POST', headers: { 'Content-Length': 10 } });
  req.on('error', () => undefined);
  req.write('a');
  await once(req, 'socket');
  setTimeout(() => req.destroy(), 100);
  const outcomes = () => linesOf(server.stdout(), 'request').map((line) => line['outcome']);
  await until(() => outcomes().includes('aborted'), 'an aborted request');
  const response = await sendRaw(url, 'no request at all\r\n\r\n');
  t.match(response, /^HTTP\/1.1 400/);
  await until(async () => /^latchkey_unreadable_requests_total\{reason="malformed"\} 1$/m.test((await send(server.admin, '/metrics')).text), 'unreadable requests are counted');
  const [, id = ''] = /^X-Request-Id: (\S+)\r$/m.exec(response) ?? [];
  await until(() => server.stdout().includes(id), 'its entry');
  const records = linesOf(server.stdout(), 'request');
  const unreadable = records.find((line) => line['request_id'] === id) ?? {};
  t.match(unreadable, { status: 400, outcome: 'malformed', route: null, detail: /at byte/, peer: '127.0.0.1' });
  t.notOk('ms' in unreadable || 'method' in unreadable, 'there was no request');
  t.equal(new Set(records.map((line) => line['request_id'])).size, records.length, 'no duplicates');
  t.same(outcomes().slice(-7), ['grant', 'malformed', 'method_not_allowed', 'unauthenticated', 'unauthenticated', 'aborted', 'malformed']);
  await until(async () => /^latchkey_requests_in_flight 0$/m.test((await send(server.admin, '/metrics')).text), 'none left in flight');
}); // prettier-ignore

t.test('a malformed body: the response has the id of its request, which is recorded as refused', async (t) => {
  const fixture = await startFixture(t);
  const { url, server } = fixture;
  const key = await fixture.token('engineer');
  for (const path of ['/x', '/login']) {
    const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const client = openRaw(url);
    client.write(`${head}1\r\na\r\nzz\r\n`);
    await until(() => client.ended, 'a response');
    t.match(client.text(), /^HTTP\/1\.1 400 [^]*not well-formed HTTP\/1\.1: chunk_size/);
    const [, id] = /^X-Request-Id: (\S+)\r$/m.exec(client.text()) ?? [];
    const line = () => linesOf(server.stdout(), 'request').find((each) => each['request_id'] === id);
    await until(() => line() !== undefined, 'its log record');
    t.match(line(), { path, outcome: 'malformed', status: 400, detail: /chunk_size at byte \d+/ });
    t.equal(linesOf(server.stdout(), 'request').filter((each) => each['path'] === path).length, 1);
  }
  t.notMatch(await freshMetrics(server.admin), /^latchkey_unreadable_requests_total\{.*\} [1-9]/m, 'counted once');
}); // prettier-ignore

t.test('a default record has the fields shown in docs/observability.md', async (t) => {
  const fixture = await startFixture(t);
  const key = await fixture.token('engineer', { scope: 'global:read' });
  const headers = { 'Service-Key': key, 'User-Agent': 'probe' };
  const reply = await send(fixture.url, '/service/SVC1/purge_all?a=b', { method: 'POST', headers });
  const [, shown = ''] = /```json\n([\s\S]*?)```/.exec(PAGE) ?? [];
  t.same(Object.keys(await recordOf(fixture, reply)), Object.keys(JSON.parse(shown) as Line));
});

t.test('every line has the hash of its configuration; a request that of its start', async (t) => {
  const fixture = await startFixture(t, { workers: 2, audit: { to: 'stdout' } });
  const { url, server, configFile } = fixture;
  const all = () => server.stdout().split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Line);
  const hashes = (lines: readonly Line[]) => [...new Set(lines.map((line) => line['config_hash']))];
  const fleet = async () => (JSON.parse((await run(['fleet', '--json', '--config', configFile])).stdout) as { sidecars: Line[] }).sidecars[0]?.['config_hash'];
  const inFlight = async (count: number) =>
    until(async () => new RegExp(`^latchkey_requests_in_flight ${count}$`, 'm').test((await send(server.admin, '/metrics')).text), `${count} in flight`);

  await recordOf(fixture, await send(url, '/x'));
  const key = await fixture.token('user', { scope: 'purge_all' });
  await send(url, '/service/SVC1', { headers: { 'Service-Key': key } });
  await until(() => linesOf(server.stdout(), 'audit').some((line) => line['event'] === 'access.denied'), 'a refusal in the audit log');
  const before = await fleet();
  t.match(before, /^[0-9a-f]{12}$/);
  t.same(hashes(all()), [before], 'records of requests, audit log and processes');
  t.same(new Set(all().map((line) => line['msg'])), new Set(['request', 'audit', 'ready']));

  const body = new URLSearchParams({ user: 'user@example.com', password: 'wrong' }).toString();
  const early = request(`${url}/login`, { method: 'POST', headers: { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': body.length } });
  early.write(body.slice(0, 5));
  await inFlight(1);
  const count = all().length;
  writeFileSync(configFile, stringify({ ...(parse(readFileSync(configFile, 'utf8')) as object), policy: { scopes: { more: { allow: ['*'] } } } }));
  t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
  await until(async () => (await fleet()) !== before, 'both workers run it');
  const after = await fleet();
  const answered = once(early, 'response');
  early.end(body.slice(5));
  const [reply] = (await answered) as [{ headers: Record<string, string> }];
  const served = () => new Set(all().slice(count).map((line) => (line['msg'] === 'request' ? line['pid'] : undefined)));
  await until(async () => {
    await recordOf(fixture, await send(url, '/x'));
    return served().size > 2;
  }, 'both workers served');
  const id = reply.headers['x-request-id'];
  const isEarly = (line: Line) => line['request_id'] === id;
  const late = all().slice(count);
  t.same(late.filter(isEarly).map((line) => [line['msg'], line['config_hash']]), [['audit', before], ['request', before]]);
  t.same(hashes(late.filter((line) => !isEarly(line))), [after]);
  t.ok(late.some((line) => line['msg'] === 'reloaded'), 'may be repeated by the file watcher');
}); // prettier-ignore

t.test('a reload changes level, sampling and fields', async (t) => {
  const fixture = await startFixture(t, { log: { level: 'warn' }, workers: 2, routes: OPEN_STATUS });
  const { url, server, configFile } = fixture;
  const reload = async (log: object) => {
    writeFileSync(configFile, stringify({ ...(parse(readFileSync(configFile, 'utf8')) as object), log }));
    t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
  };
  const logged = () => linesOf(server.stdout(), 'request').length;
  const serve = async (count: number) => {
    for (let i = 0; i < count; i++) await send(url, '/status');
  };
  /**
   * Lines are written in order: once a refusal is there, a missing earlier record was not logged.
   */
  const refuse = async () => recordOf(fixture, await send(url, '/x'));

  t.equal(linesOf(server.stdout(), 'ready').length, 1, 'logged at any level');
  await serve(3);
  await fixture.token('superuser');
  await until(() => linesOf(server.stdout(), 'audit').some((line) => line['event'] === 'token.created'), 'so is the audit log');
  t.equal(logged(), 0);

  await reload({ level: 'info' });
  await serve(4);
  await refuse();
  await until(() => logged() === 5, 'all requests, from both workers');

  await reload({ sample: 0 });
  await serve(4);
  for (let i = 0; i < 2; i++) await refuse();
  t.equal(logged(), 7, 'only the refused ones');

  await reload({ sample: 0.5, fields: [] });
  await serve(100);
  const bare = await refuse();
  t.ok(logged() > 7 + 15 && logged() < 8 + 85, `${logged() - 8} of 100, and the refused one`);
  for (const field of ['path', 'client', 'decision_ms']) t.notOk(field in bare, field);
  t.ok('ms' in bare);

  await reload({ requests: 'refused' });
  const before = logged();
  await serve(4);
  for (let i = 0; i < 2; i++) await refuse();
  t.equal(logged(), before + 2);

  await reload({ requests: 'none' });
  await serve(2);
  for (let i = 0; i < 2; i++) await send(url, '/x');
  await reload({ level: 'debug' });
  for (let i = 0; i < 2; i++) await refuse();
  t.equal(logged(), before + 4);
}); // prettier-ignore

t.test('the configurations in docs/observability.md are valid and show the defaults', async (t) => {
  const file = join(temporaryFolder(t), 'latchkey.yaml');
  const read = (text: string) => {
    writeFileSync(file, `upstream: http://127.0.0.1:3000\n${text}`);
    return loadConfig(file).config.log;
  };
  const [whole, short] = [...PAGE.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text = '']) => read(text));
  t.same(whole, read(''));
  t.match(short, { sample: 0.01, fields: ['path', 'timings'] });
  for (const bad of ['level: loud', 'requests: some', 'sample: 2', 'fields: [password]'])
    t.throws(() => read(`log: { ${bad} }`), { code: 'CONFIG_REFUSED' }, bad);
});
