import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:http2';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { WebSocketServer } from 'ws';
import { parse, stringify } from 'yaml';
import { loadConfig } from '../../src/config/load.js';
import { blocksOf } from '../docs/markdown.js';
import { selfSigned } from '../helpers/certificates.js';
import { entrancesOf } from '../helpers/entrances.js';
import { type Fixture, OPEN_STATUS, startFixture } from '../helpers/fixture.js';
import { freshMetrics, listenOnLoopback, type Reply, send, sendRaw, serveHttp } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
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
  const metrics = async () => (await send(server.admin, '/metrics')).text;
  await until(async () => /^latchkey_requests_in_flight 1$/m.test(await metrics()), 'the request has arrived');
  req.destroy();
  const outcomes = () => linesOf(server.stdout(), 'request').map((line) => line['outcome']);
  await until(() => outcomes().includes('aborted'), 'an aborted request');
  const response = await sendRaw(url, 'no request at all\r\n\r\n');
  t.match(response, /^HTTP\/1.1 400/);
  await until(async () => /^latchkey_unreadable_requests_total\{reason="malformed"\} 1$/m.test(await metrics()), 'unreadable requests are counted');
  const [, id = ''] = /^X-Request-Id: (\S+)\r$/m.exec(response) ?? [];
  await until(() => server.stdout().includes(id), 'its entry');
  const records = linesOf(server.stdout(), 'request');
  const unreadable = records.find((line) => line['request_id'] === id) ?? {};
  t.match(unreadable, { status: 400, outcome: 'malformed', route: null, detail: /at byte/, peer: '127.0.0.1' });
  t.notOk('ms' in unreadable || 'method' in unreadable, 'there was no request');
  t.equal(new Set(records.map((line) => line['request_id'])).size, records.length, 'no duplicates');
  t.same(outcomes().slice(-7), ['grant', 'malformed', 'method_not_allowed', 'unauthenticated', 'unauthenticated', 'aborted', 'malformed']);
  await until(async () => /^latchkey_requests_in_flight 0$/m.test(await metrics()), 'none left in flight');
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

t.test('each entrance logs its protocol, the bytes of the body, and the address of the upstream', async (t) => {
  const texts: Record<string, string | Buffer> = { '/text': 'zwölf', '/empty': '', '/large': Buffer.alloc(300_000) };
  const upstream = await serveHttp(t, ({ url = '' }, res) => {
    if (url === '/pieces') void res.writeHead(200).write('one ');
    res.end(texts[url] ?? 'two');
  });
  new WebSocketServer({ server: upstream.server }).on('connection', (socket) => socket.terminate());
  const folder = temporaryFolder(t);
  const socket = join(folder, 'local.sock');
  await serveHttp(t, (_req, res) => void res.end('local'), {}, socket);
  const h2c = createServer((_req, res) => res.end('h2c'));
  t.teardown(() => void h2c.close());
  const h2cUrl = await listenOnLoopback(h2c);
  const { cert, key } = selfSigned(folder, 'server');
  const fixture = await startFixture(t, {
    upstream: undefined,
    upstreams: { api: { url: upstream.url }, local: { url: `unix://${socket}` }, h2c: { url: h2cUrl, protocol: 'h2c' } },
    routes: [{ path: '/local', auth: 'none', upstream: 'local' }, { path: '/h2c', auth: 'none', upstream: 'h2c' }],
    listen: { host: '127.0.0.1', port: 0, tls: { cert, key } },
    decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
    default_route: { auth: 'none', upstream: 'api' },
  });
  const session = await openHttp2(t, fixture.url);
  const { 'HTTP/1.1': http1, 'HTTP/2': http2, WebSocket: webSocket, ext_authz: check, gRPC: grpc } = entrancesOf(fixture.server, session);
  const upstream_address = new URL(upstream.url).host;
  const get = (path: string, headers = {}) => ({ method: 'GET', path, headers });
  for (const [path, bytes_sent] of [['/text', 6], ['/empty', 0], ['/large', 300_000], ['/pieces', 7]] as const) {
    t.match(await recordOf(fixture, await http1(get(path))), { protocol: 'HTTP/1.1', bytes_sent, upstream_address }, path);
    t.match(await recordOf(fixture, await http2(get(path))), { protocol: 'HTTP/2', bytes_sent, upstream_address }, path);
  }
  t.match(await recordOf(fixture, await http1(get('/local'))), { bytes_sent: 5, upstream_address: `unix://${socket}` });
  t.match(await recordOf(fixture, await http1(get('/h2c'))), { bytes_sent: 3, upstream_address: new URL(h2cUrl).host });
  t.match(await recordOf(fixture, await http1({ ...get('/text'), method: 'HEAD' })), { bytes_sent: 0, upstream_address });
  t.match(await recordOf(fixture, await webSocket(get('/'))), { protocol: 'HTTP/1.1', status: 101, upstream_address });

  for (const [name, ask] of Object.entries({ http1, http2, check })) {
    const reply = await ask(get('/tokens'));
    const record = await recordOf(fixture, reply);
    t.ok(reply.status >= 400 && reply.text !== '', `${name} refuses`);
    t.match(record, { bytes_sent: Buffer.byteLength(reply.text) }, name);
    t.notOk('upstream_address' in record, 'nothing was forwarded');
  }
  const record = await recordOf(fixture, await grpc(get('/')));
  t.match(record, { protocol: 'HTTP/2', outcome: 'allowed' });
  t.notOk('bytes_sent' in record, 'the answer is no body');
}); // prettier-ignore

t.test('lines state their level as text, or as a number after a reload', async (t) => {
  const fixture = await startFixture(t, { log: { level_format: 'text' }, audit: { to: 'stdout' }, routes: OPEN_STATUS });
  const { url, server, configFile } = fixture;
  const levels = (from = 0) => new Set(server.stdout().slice(from).split('\n').filter((line) => line.endsWith('}')).map((line) => (JSON.parse(line) as Line)['level']));
  await fixture.token('superuser');
  await recordOf(fixture, await send(url, '/status'));
  t.same(levels(), new Set(['info']), 'ready, audit log and requests');
  writeFileSync(configFile, stringify({ ...(parse(readFileSync(configFile, 'utf8')) as object), log: {} }));
  t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
  const reloaded = server.stdout().length;
  await fixture.token('superuser');
  await recordOf(fixture, await send(url, '/status'));
  t.same(levels(reloaded), new Set([30]));
}); // prettier-ignore

/** Gives a value at a path such as `a.b` to an object. */
function put(target: Line, path: string, value: unknown): void {
  const names = path.split('.');
  const last = names.pop() as string;
  let at = target;
  for (const name of names) at = (at[name] ??= {}) as Line;
  at[last] = value;
}

function take(from: Line, path: string): unknown {
  const [name = '', ...rest] = path.split('.');
  if (rest.length > 0) return take((from[name] ?? {}) as Line, rest.join('.'));
  const { [name]: value } = from;
  delete from[name];
  return value;
}

interface Step {
  readonly field: string;
  readonly target_field: string;
  readonly ignore_missing?: true;
  readonly if?: string;
  readonly [parameter: string]: unknown;
}

/** What an ingest pipeline of Elasticsearch makes of a line, for the processors of the page. */
function ingest(processors: readonly Record<string, Step>[], message: string): Line {
  const ctx: Line = { message };
  for (const [kind = '', step] of processors.flatMap((each) => Object.entries(each))) {
    const { field, target_field: target, ignore_missing: isOptional } = step;
    if (step.if !== undefined && runInNewContext(step.if, { ctx }) !== true) continue;
    if (kind === 'script') runInNewContext(step['source'] as string, { ctx });
    else if (kind === 'set') put(ctx, field, 'value' in step ? step['value'] : take(structuredClone(ctx), step['copy_from'] as string));
    else {
      const value = take(ctx, field);
      if (value === undefined && isOptional) continue;
      if (value === undefined) throw new Error(`${field} is missing`);
      if (kind === 'json') put(ctx, target, JSON.parse(value as string));
      else if (kind === 'date') put(ctx, '@timestamp', new Date(value as string).toISOString());
      else if (kind === 'rename') put(ctx, target, value);
      else if (kind === 'gsub') put(ctx, target, (value as string).replace(new RegExp(step['pattern'] as string, 'g'), step['replacement'] as string));
      else throw new Error(`unknown processor ${kind}`);
    }
  }
  return ctx;
} // prettier-ignore

t.test('the snippets for Loki, Datadog and Elastic fit what is written', async (t) => {
  const fixture = await startFixture(t, {
    log: { level_format: 'text', fields: ['path', 'query', 'client', 'host', 'user_agent', 'timings'] },
    routes: OPEN_STATUS,
  });
  const headers = { traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'User-Agent': 'probe' };
  const key = await fixture.token('engineer', { scope: 'purge_select' });
  const served = await recordOf(fixture, await send(fixture.url, '/status', { headers }));
  const refused = await recordOf(fixture, await send(fixture.url, '/service/SVC1', { headers: { ...headers, 'Service-Key': key } }));
  const written = new Set([...Object.keys(served), ...Object.keys(refused)]);
  const [loki, agent, datadog, elastic] = blocksOf('docs/observability.md', 'Logs').filter(({ runBy }) => runBy !== undefined).map(({ text }) => text);

  const maps = [...(loki ?? '').matchAll(/(?:expressions|values) = \{(.*)\}/g)].map(([, map = '']) => [...map.matchAll(/(\w+) = ""/g)].map(([, name = '']) => name));
  const [read = [], ...used] = maps;
  t.ok(read.length > 5 && read.every((name) => written.has(name)), 'fields that Alloy reads');
  t.same(new Set([...used.flat(), 'time']), new Set(read), 'it uses what it reads');

  const { logs } = parse(agent ?? '') as { logs: { log_processing_rules: { pattern: string; replace_placeholder: string }[] }[] };
  const [{ pattern, replace_placeholder: replacement } = { pattern: '', replace_placeholder: '' }] = logs[0]?.log_processing_rules ?? [];
  const renamed = JSON.parse(JSON.stringify(refused).replace(new RegExp(pattern, 'g'), replacement)) as Line;
  const { status, ...others } = refused;
  t.same(renamed, { ...others, status_code: status }, 'what the Agent sends');
  const { processors } = JSON.parse(datadog ?? '') as { processors: { sources?: string[]; expression?: string }[] };
  const sources = processors.flatMap(({ sources: names = [], expression = '' }) => [...names, ...(/^\w+/.exec(expression) ?? [])]);
  t.ok(sources.length > 8 && sources.every((name) => name in renamed), 'fields that the pipeline maps');

  const steps = (JSON.parse(elastic ?? '') as { processors: Record<string, Step>[] }).processors;
  const { ms, time, request_id } = refused;
  const found = ingest(steps, JSON.stringify(refused));
  const { latchkey, ...common } = found;
  t.same(common, {
    '@timestamp': time, message: 'request', log: { level: 'info' }, trace: { id: '4bf92f3577b34da6a3ce929d0e0e4736' },
    event: { kind: 'event', outcome: 'failure', duration: Math.round(Number(ms) * 1e6) },
    http: { version: '1.1', request: { method: 'GET', id: request_id }, response: { status_code: 403, body: { bytes: refused['bytes_sent'] } } },
    url: { path: '/service/SVC1' }, client: { ip: '127.0.0.1' }, user_agent: { original: 'probe' }, user: { id: 'engineer' },
  });
  t.match(latchkey, { outcome: 'scope', route: /./, decision: 'refused', token_id: /./, config_hash: /./ });
  t.match(ingest(steps, JSON.stringify(served)), { event: { outcome: 'success' }, http: { response: { status_code: 200 } } });
  t.match(ingest(steps, '{"level":"warn","time":"2026-03-04T10:20:30.123Z","msg":"other"}'), { message: 'other', log: { level: 'warn' } });
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
  const [whole, short] = [...PAGE.matchAll(/```yaml\n(log:[\s\S]*?)```/g)].map(([, text = '']) => read(text));
  t.same(whole, read(''));
  t.match(short, { sample: 0.01, fields: ['path', 'timings'] });
  for (const bad of [
    'level: loud',
    'level_format: json',
    'requests: some',
    'sample: 2',
    'fields: [password]',
  ])
    t.throws(() => read(`log: { ${bad} }`), { code: 'CONFIG_REFUSED' }, bad);
});
