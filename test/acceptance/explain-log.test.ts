import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { parse, stringify } from 'yaml';
import { type LoggedRequest, readLogLine } from '../../src/commands/access-log.js';
import { explainLogged, type LoggedExplanation } from '../../src/commands/explain-log.js';
import { findLoggedRequest } from '../../src/commands/find-logged-request.js';
import { logExplanationObject, renderLogExplanation } from '../../src/commands/render-log-explanation.js';
import { configHash } from '../../src/config/mask.js';
import { loadConfig } from '../../src/config/load.js';
import { blocksOf } from '../docs/markdown.js';
import { PROXIES } from '../helpers/checks.js';
import { HANDSHAKE } from '../helpers/entrances.js';
import { LEGACY_KEY, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send, sendRaw, startUpstream } from '../helpers/http.js';
import { KeyServer, newPair } from '../helpers/key-server.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

const ROUTES = [
  { path: '/status', auth: 'none' },
  { path: '/service/:service_id/purge_all', methods: ['POST'], action: 'purge:all', service: 'service_id' },
  { path: '/service/:service_id/*', action: 'service', service: 'service_id' },
  { path: '/service/:service_id', action: 'service', service: 'service_id' },
  { path: '/billing/*', action: 'billing' },
  { path: '/user/:user_id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'user_id' },
  { path: '/orders', action: 'order', service: 'header:X-Shop' },
  { path: '/by-query', action: 'order', service: 'query:shop' },
  { path: '/closed', auth: 'deny' },
  { path: '/down', auth: 'none', upstream: 'down' },
  { path: '/shared', auth: 'none', cors: { origins: ['https://app.example'] } },
];
const issuer = await KeyServer.start(t, await newPair('one'));
const subjects = [
  { claims: { sub: 'repo:root' }, customer_id: 'C1', role: 'superuser', scope: ['global'] },
  { claims: { sub: 'repo:*', job: 'deploy' }, customer_id: 'C1', role: 'superuser', scope: ['global'] },
  { claims: { sub: 'repo:*' }, customer_id: 'C1', role: 'engineer', scope: ['global:read'] },
];
const fixture = await startFixture(t, {
  upstream: undefined,
  upstreams: { api: { url: (await startUpstream(t)).url }, down: { url: 'http://127.0.0.1:9' } },
  listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] },
  decision: { host: '127.0.0.1', port: 0 },
  rate_limit: { writes_per_hour: 3 },
  jwt_issuers: [{ name: 'ci', issuer: issuer.url, audience: 'latchkey', subjects }],
  routes: ROUTES,
  default_route: { action: 'api', upstream: 'api' },
});
const { url, server, token, login, create, configFile, folder } = fixture;
const logFile = join(folder, 'latchkey.log');
const SECRETS: string[] = [];

/** Sends requests with every outcome that a client can cause, and writes their log to a file. */
async function makeLog(): Promise<void> {
  const keep = async (secret: Promise<string>) => {
    SECRETS.push(await secret);
    return secret;
  };
  const by = async (user: string, params: Record<string, string> | URLSearchParams = {}) => ({ 'Service-Key': await keep(token(user, params)) });
  const get = (path: string, headers: Record<string, string | string[]> = {}, method = 'GET') => send(url, path, { headers, method });
  const soon = new Date(Date.now() + 4_000).toISOString();
  const expiring = await by('engineer', { expires_at: soon });
  const global = await by('engineer');
  const read = await by('engineer', { scope: 'global:read' });
  const limited = await by('superuser', new URLSearchParams('services[]=SVC1'));
  const purger = await by('user', { scope: 'purge_all' });
  const cookie = { Cookie: await keep(login('engineer')) };
  const users = { Cookie: await keep(login('user')) };
  const far = await by('engineer', new URLSearchParams([['addresses[]', '10.0.0.0/8']]));
  const slow = await by('engineer', { rate: '1/1h' });
  const suspended = (await create('engineer')).json;
  const gone = (await create('user')).json;
  SECRETS.push(suspended.access_token as string, gone.access_token as string);

  const callers = [global, read, limited, purger, cookie, users, { 'Service-Key': LEGACY_KEY }, {}, { 'Service-Key': 'bad' }, { 'Service-Key': 'lkxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }] as Record<string, string>[];
  const ask = async (headers: Record<string, string>) => {
    for (const path of ['/', '/status', '/service/SVC1', '/service/SVC2/version?a=secretvalue', '/billing/x', '/closed', '/service//SVC1', '/tokens', '/customer/C1/tokens', '/customer/C2/tokens', '/tokens/none', '/orders', '/by-query?shop=SVC1'])
      await get(path, headers);
    await get('/service/SVC1/purge_all', headers, 'POST');
    await get('/user/superuser', headers, 'DELETE');
    await get('/orders', { ...headers, 'X-Shop': 'SVC1' });
    await sendRaw(url, `GET /service/SVC1 HTTP/1.1\r\nHost: a\r\n${Object.entries({ ...headers, ...HANDSHAKE }).map((pair) => pair.join(': ')).join('\r\n')}\r\n\r\n`);
    for (const target of ['/service/SVC1', '/billing/x', '/tokens']) await PROXIES.nginx(server.decision, { method: 'POST', target, headers });
  };
  await Promise.all(callers.map(ask));
  await get('/customer/C2/tokens', { Cookie: await keep(login('superuser')) });
  await send(server.decision, '/auth-request', { headers: global });
  for (const claims of [{}, { job: 'deploy' }, { sub: 'repo:root' }]) {
    const jwt = { Authorization: `Bearer ${await issuer.sign(claims)}` };
    for (const path of ['/service/SVC1', '/billing/x', '/tokens']) for (const method of ['GET', 'POST']) await get(path, jwt, method);
  }
  await get('/service/SVC1', { Authorization: 'Bearer a.b.c' });

  const away = { 'X-Forwarded-For': '10.1.2.3' };
  for (const headers of [far, { ...far, ...away }, slow, slow]) await get('/service/SVC1', headers);
  for (let i = 0; i < 5; i++) await get('/service/SVC1', global, 'PUT');
  await get('/service/SVC1', { 'Service-Key': suspended.access_token as string });
  await run(['token', 'suspend', suspended.id as string, '--config', configFile]);
  await until(async () => (await get('/service/SVC1', { 'Service-Key': suspended.access_token as string })).status === 401, 'the suspension');
  await get('/service/SVC1', { 'Service-Key': gone.access_token as string });
  await get(`/tokens/${gone.id}`, users, 'DELETE');
  await get('/service/SVC1', { ...cookie, Origin: 'https://evil.example' }, 'POST');
  await get('/service/SVC1', { ...global, Cookie: cookie.Cookie, Authorization: `Bearer ${global['Service-Key']}` });
  await get('/status', { Expect: 'nothing' });
  await get('/status', { 'Service-Worker': 'script' });
  await get('/status', {}, 'TRACE');
  await get(`/${'a'.repeat(9_000)}`);
  await get(`/status/${'b'.repeat(600)}`, global);
  await get('/down');
  await get('/shared', { Origin: 'https://app.example', 'Access-Control-Request-Method': 'PUT' }, 'OPTIONS');
  await get('/shared', { Origin: 'https://evil.example', 'Access-Control-Request-Method': 'PUT' }, 'OPTIONS');
  await get(`/service/${global['Service-Key']}`, global);
  for (const path of ['/status', '/service/SVC1']) await send(url, path, { method: 'GET', headers: global, body: 'body' });
  await send(url, '/login', { body: new URLSearchParams({ user: 'user@example.com', password: 'wrong' }) });
  await send(url, '/tokens', { body: new URLSearchParams({ username: 'user@example.com', password: PASSWORD, scope: 'nonsense' }) });
  await until(async () => (await get('/service/SVC1', expiring)).status === 401, 'the token expires');
  const last = String((await get('/the-last-one')).headers['x-request-id']);
  await until(() => server.stdout().includes(last), 'all are logged');
  writeFileSync(logFile, server.stdout());
} // prettier-ignore

await makeLog();
const ENTRIES = readFileSync(logFile, 'utf8').split('\n').map(readLogLine).filter((entry): entry is LoggedRequest => typeof entry === 'object'); // prettier-ignore

/** Explains requests of the log with a configuration. */
async function explainAll(file: string, entries = ENTRIES): Promise<LoggedExplanation[]> {
  const loaded = loadConfig(file);
  const all = [];
  for (const { requestId } of entries) {
    const found = await findLoggedRequest(logFile, { field: 'request_id', id: requestId });
    all.push(await explainLogged(loaded, found, { target: undefined, fields: [], address: undefined }));
  }
  return all;
}

const ALL = await explainAll(configFile);

/** A modified copy of the configuration in the same folder. */
function changed(name: string, change: (config: Record<string, unknown>) => void): string {
  const config = parse(readFileSync(configFile, 'utf8')) as Record<string, unknown>;
  change(config);
  const file = join(folder, name);
  writeFileSync(file, stringify(config));
  return file;
}

/** Outcomes that the log alone cannot explain. */
const UNDETERMINED = new Set([
  'malformed', 'malformed_check', 'own_endpoint', 'several_credentials', 'expectation_failed', 'service_worker', 'method_not_allowed',
  'target_too_long', 'cross_origin', 'preflight', 'preflight_refused', 'grant', 'rate_limited', 'token_rate',
]); // prettier-ignore

t.test('every logged request is explained with its logged outcome by the original configuration', async (t) => {
  const outcomes = new Map<string, number>();
  for (const explained of ALL) {
    const { entry, comparison, isOriginalConfig, hasVerdict, explanation, changes } = explained;
    const name = `${entry.method} ${entry.path} of ${entry.caller?.credential}: ${entry.status} ${entry.outcome}`;
    outcomes.set(entry.outcome, (outcomes.get(entry.outcome) ?? 0) + 1);
    if (isOriginalConfig !== true) t.fail(`${name}: another configuration`);
    if (comparison.result === 'differs' && !isSuspendedNow(explained)) t.fail(`${name}: ${explanation?.verdict.outcome} now`);
    if (comparison.result !== 'undetermined' || UNDETERMINED.has(entry.outcome)) continue;
    if (!isUnknown(explained)) t.fail(`${name}: undetermined: ${comparison.reason}`);
    if (hasVerdict && changes !== null) t.fail(`${name}: changes suggested for an undetermined outcome`);
    if (hasVerdict && entry.caller === null && explanation?.verdict.outcome === 'unauthenticated') t.fail(`${name}: explained as having no credential`);
  }
  for (const outcome of [
    'forwarded', 'answered', 'allowed', 'unauthenticated', 'token_expired', 'role', 'scope', 'service', 'service_limited', 'wrong_credential_kind',
    'other_customer', 'active_tokens', 'not_found', 'address', 'upstream_unreachable', ...UNDETERMINED,
  ])
    t.ok((outcomes.get(outcome) ?? 0) > 0, `${outcome}: ${outcomes.get(outcome)}`);
  t.ok(ENTRIES.length > 240, `${ENTRIES.length} requests`);
}); // prettier-ignore

/** True if the token was suspended after the request. */
function isSuspendedNow({ notes, explanation }: LoggedExplanation): boolean {
  return (
    notes.some((note) => note.includes('was changed after')) && /is suspended/.test(explanation?.note ?? '')
  );
}

/** True if the log lacks information that the decision needs. */
function isUnknown({ entry, comparison }: LoggedExplanation): boolean {
  const { reason } = comparison;
  if (entry.path !== null && (entry.path.length >= 512 || entry.path.includes('lk***'))) return true;
  return [
    [/^who sent the request$/, /SVC1/],
    [/^the service, which the (parameter|header field) (shop|X-Shop) names$/, /^\/(orders|by-query)$/],
    [/a record that its path names/, /^\/tokens\/\w+$/],
  ].some(([why, path]) => why?.test(reason ?? '') === true && path?.test(entry.path ?? '') === true);
}

t.test('among several subjects of an issuer, a JWT gets the one whose decision was logged', async (t) => {
  const roles = ALL.filter(({ entry }) => entry.caller?.credential === 'jwt' && entry.path === '/service/SVC1').map(
    ({ entry, explanation, notes }) => [entry.method, entry.outcome, explanation?.credential?.role, notes.join('; ')],
  );
  const several = '2 subjects of the issuer ci match what the log contains of the JWT: its claim sub';
  const one = `${several}; evaluated as the subject whose decision matches the logged one`;
  const alike = `${several}; 2 subjects get the same decision; the first one is shown`;
  t.same(roles, [
    ['GET', 'forwarded', 'superuser', alike],
    ['POST', 'scope', 'engineer', one],
    ['GET', 'forwarded', 'superuser', alike],
    ['POST', 'forwarded', 'superuser', one],
    ['GET', 'forwarded', 'superuser', ''],
    ['POST', 'forwarded', 'superuser', ''],
  ]);
}); // prettier-ignore

t.test('with another configuration, each difference comes from the configuration', async (t) => {
  const closed = changed('closed.yaml', (config) => {
    config['policy'] = { roles: { engineer: {}, superuser: { allow: ['*'] }, billing: {}, user: { allow: ['*'] } } };
  });
  const engineers = ENTRIES.filter(({ caller }) => caller?.userId === 'engineer');
  let differing = 0;
  for (const { entry, comparison, isOriginalConfig, hasVerdict, explanation } of await explainAll(closed, engineers)) {
    t.equal(isOriginalConfig, false);
    const role = explanation?.credential?.role;
    if (!hasVerdict || role !== 'engineer' || comparison.result === 'undetermined' || explanation?.action === null) continue;
    const wasAllowed = entry.decision === 'allowed';
    if (wasAllowed) differing += 1;
    if (wasAllowed) t.match([comparison.result, explanation?.verdict.outcome], ['differs', 'role'], `${entry.method} ${entry.path}`);
  }
  t.ok(differing > 10, `${differing} allowed requests of an engineer`);
}); // prettier-ignore

t.test('no explanation contains a secret or a query value', async (t) => {
  const shown = ALL.map((each) => `${renderLogExplanation(each)}${JSON.stringify(logExplanationObject(each))}`).join('\n');
  for (const secret of [...SECRETS.map((each) => each.replace(/^.*=/, '')), LEGACY_KEY, PASSWORD, 'secretvalue'])
    t.notOk(shown.includes(secret), 'a secret');
  t.ok(shown.length > 100_000);
}); // prettier-ignore

const idOf = (holds: (entry: LoggedRequest) => boolean) => ENTRIES.find(holds)?.requestId ?? '';
const explain = (...args: string[]) => run(['explain', '--config', configFile, ...args]);

t.test('a suggested change has the predicted effect', async (t) => {
  const byScope = idOf(({ outcome, path, method }) => outcome === 'scope' && method === 'POST' && path === '/service/SVC1/purge_all'); // prettier-ignore
  const { stdout } = await explain('--request-id', byScope, '--log', logFile);
  t.match(stdout, /logged +403 scope, 20/);
  t.match(stdout, /config +[0-9a-f]{12} \(.*\), the one that decided/);
  t.match(stdout, /compared +the same as logged: 403 scope/);
  t.match(stdout, /It would be allowed if one of these were true:/);
  const [, words = ''] = /the token also has the scope (.*)/.exec(stdout) ?? [];
  const scopes = words.split(' or ');
  t.ok(scopes.includes('purge_all') && !scopes.includes('purge_select'), words);
  for (const scope of ['purge_all', 'purge_select', 'global']) {
    const key = await token('engineer', { scope: `global:read ${scope}` });
    const { status } = await send(url, '/service/SVC1/purge_all', { method: 'POST', headers: { 'Service-Key': key } }); // prettier-ignore
    t.equal(status === 403, !scopes.includes(scope), `${scope}: ${status}`);
  }
});

t.test('explains a token by its id, and suggests pairs where no single change is enough', async (t) => {
  const made = (await create('user', new URLSearchParams('scope=purge_select&services[]=SVC2'))).json;
  const ask = (...args: string[]) => explain('--token-id', made.id as string, ...args);
  const { stdout } = await ask('--path', '/service/SVC1', '--method', 'PUT');
  t.match(stdout, /owner +user@example\.com \(user, customer C1\)/);
  t.match(stdout, /state +never expires/);
  t.match(stdout, /services +SVC2/);
  t.match(stdout, /verdict +403 scope/);
  const json = JSON.parse((await ask('--path', '/service/SVC2', '--method', 'PUT', '--json')).stdout) as {
    token: object;
    verdict: object;
    changes: { single: { change: string }[]; pairs: { change: string; value: string | null }[][] };
  };
  t.match(json, { token: { id: made.id, role: 'user', suspended: false, expired: false, owner_locked: false }, verdict: { outcome: 'scope' }, changes: { answer: 'allowed', complete: true } });
  t.ok(json.changes.single.every(({ change }) => change.startsWith('the route')), 'only by removing the credential requirement');
  const pairs = json.changes.pairs.map((pair) => pair.map(({ change, value }) => `${change} ${value}`).join(', '));
  t.ok(pairs.includes('the user has the role superuser, the token also has the scope global'), pairs.join('\n'));
  t.notOk(JSON.stringify(json).includes(made.access_token as string));
  for (const [args, shown] of [
    [['token', 'suspend', made.id as string], /state +suspended[\s\S]*verdict +401 unauthenticated[\s\S]*is suspended/],
    [['token', 'resume', made.id as string], /verdict +403 scope/],
    [['user', 'lock', 'user@example.com'], /locked[\s\S]*verdict +401 unauthenticated[\s\S]*is locked/],
    [['user', 'unlock', 'user@example.com'], /verdict +403 scope/],
  ] as const) {
    await run([...args, '--config', configFile]);
    t.match((await ask('--path', '/service/SVC2', '--method', 'PUT')).stdout, shown, args.join(' '));
  }
  t.match(await explain('--token-id', 'none', '--path', '/'), { code: 1, stderr: /no token has the id none \(latchkey token list shows them\)/ });
}); // prettier-ignore

t.test('explains the latest request with a token', async (t) => {
  const tokenIdOf = ({ caller }: LoggedRequest) => (caller !== null && 'tokenId' in caller ? caller.tokenId : null);
  const refused = ENTRIES.find((entry) => entry.outcome === 'service' && tokenIdOf(entry) !== null) as LoggedRequest;
  const id = tokenIdOf(refused) ?? '';
  const last = ENTRIES.findLast((entry) => tokenIdOf(entry) === id) as LoggedRequest;
  t.not(last.requestId, refused.requestId);
  const { stdout } = await explain('--token-id', id, '--log', logFile, '--json');
  t.match(JSON.parse(stdout), { request_id: last.requestId, logged: { token_id: id }, others: [], comparison: { result: 'same' } });
  t.match(await explain('--token-id', 'none', '--log', logFile), { code: 1, stderr: /has no request entry with the token_id none/ });
  t.match(await explain('--token-id', id, '--log', logFile, '--method', 'PUT'), { code: 2, stderr: /the log contains the method/ });
  t.match(await explain('--anonymous', '--path', '/', '--log', logFile), { code: 2, stderr: /or --token-id ID and --log FILE/ });
}); // prettier-ignore

t.test('errors say where and how to fix', async (t) => {
  const zipped = join(folder, 'latchkey.log.gz');
  writeFileSync(zipped, gzipSync(readFileSync(logFile)));
  const logs = join(folder, 'logs');
  mkdirSync(logs);
  const wrapped = join(folder, 'wrapped.log');
  const id = idOf(({ outcome }) => outcome === 'forwarded');
  const lines = readFileSync(logFile, 'utf8').split('\n');
  const line = lines.find((each) => each.includes(id) && each.includes('"msg":"request"')) ?? '';
  writeFileSync(wrapped, `2026-01-01T00:00:00Z stdout F ${line}\n`);
  const at = (file: string) => explain('--request-id', id, '--log', file);
  t.match(await at(zipped), { code: 1, stderr: /is compressed; run "gunzip -c / });
  t.match(await at(logs), { code: 1, stderr: /is a folder; pass a file in it/ });
  t.match(await at(join(folder, 'none.log')), { code: 1, stderr: /none\.log cannot be read: .*no such file/i });
  t.match(await at(wrapped), { code: 1, stderr: /remove what your log collector added/ });
  t.match(await explain('--request-id', 'nothing', '--log', logFile), { code: 1, stderr: /has no request entry with the request_id nothing: \d+ lines, \d+ requests from 20\S+Z to 20\S+Z/ });
  t.match(await explain('--request-id', id), { code: 2, stderr: /--request-id ID and --log FILE go together/ });
  t.match(await explain('--token-id', 'x'), { code: 2, stderr: /--path TARGET, or --request-id ID --log FILE/ });

  const { config_hash: hash, ...older } = JSON.parse(line) as Record<string, unknown>;
  const input = (...all: object[]) => ({ input: all.map((each) => `${JSON.stringify(each)}\n`).join('') });
  const piped = (...all: object[]) => run(['explain', '--config', configFile, '--request-id', id, '--log', '-'], input(...all));
  const spaced = { input: `${JSON.stringify(older).replaceAll('":"', '": "')}\n` };
  t.equal((await run(['explain', '--config', configFile, '--request-id', id, '--log', '-'], spaced)).code, 0, 'as reformatted by a log collector');
  t.match((await piped(older)).stdout, /config +[0-9a-f]{12} [\s\S]*written by an older Latchkey/);
  t.match((await piped({ ...older, path: undefined })).stdout, /note +the entry has no path \(log\.fields\)/);
  const other = { ...older, config_hash: '000000000000', outcome: 'role', status: 403, decision: 'refused' };
  const two = (await piped(JSON.parse(line) as object, other)).stdout;
  t.match(two, /2 entries have this request_id; the last one is explained/);
  t.match(two, /config +[0-9a-f]{12} \([^\n]*\), not the one that decided[\s\S]*the log names 000000000000: pass the file of that time, .*--config OLD/);
  t.match(two, /compared +not as logged: 403 role then, forward now/);
  t.type(hash, 'string');
}); // prettier-ignore

t.test('docs/commands.md shows the actual output of the command', async (t) => {
  const blocks = blocksOf('docs/commands.md');
  const [config, directory] = blocks;
  const [asked, printed] = blocks.filter(({ runBy }) => runBy === 'test/acceptance/explain-log.test.ts');
  const place = temporaryFolder(t);
  const file = join(place, 'latchkey.yaml');
  writeFileSync(file, config?.text ?? '');
  writeFileSync(join(place, 'directory.yaml'), directory?.text ?? '', { mode: 0o600 });
  t.equal((await run(['apply', '--config', file])).code, 0);
  const rule = 'policy.roles.engineer.deny.0, line 7';
  const entry = { time: '2126-03-04T10:20:30.123Z', request_id: 'Yk3fQ0b1c2d3-1fZpA7w', method: 'POST', path: '/billing/plan', status: 403, outcome: 'role', route: '/billing/*', action: 'billing:write', decision: 'refused', detail: 'The role engineer is not allowed to perform billing:write', rule, client: '127.0.0.1', user_id: 'U2', customer_id: 'C1', credential: 'session', session_id: 'S', ms: 1, config_hash: configHash(loadConfig(file)), msg: 'request' };
  writeFileSync(join(place, 'latchkey.log'), `${JSON.stringify(entry)}\n`);
  const args = (asked?.text ?? '').trim().split(' ').slice(1).map((each) => (each.startsWith('latchkey.') ? join(place, each) : each));
  const { stdout } = await run(args);
  const shown = (printed?.text ?? '').trim().split('...').map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('[\\s\\S]*?');
  t.match(stdout.trim(), new RegExp(`^${shown}$`));
}); // prettier-ignore

t.test('explains from the log alone if there is no store', async (t: Test) => {
  const empty = changed('empty.yaml', (config) => (config['store'] = { type: 'lmdb', path: './nothing' }));
  const id = idOf(({ outcome }) => outcome === 'scope');
  const { stdout, code } = await run(['explain', '--config', empty, '--request-id', id, '--log', logFile]);
  t.equal(code, 0);
  t.match(stdout, /there is no store yet/);
  t.match(stdout, /not by the rules alone: 403 scope was decided by\n +who sent the request/);
  t.notMatch(stdout, /verdict|It would be/);
});

t.test('explains from the log alone if Redis is unreachable', async (t) => {
  const away = changed('away.yaml', (config) => (config['store'] = { type: 'redis', url: 'redis://127.0.0.1:1' }));
  const id = idOf(({ outcome }) => outcome === 'scope');
  const { stdout, code } = await run(['explain', '--config', away, '--request-id', id, '--log', logFile]);
  t.equal(code, 0);
  t.match(stdout, /note +the store cannot be read: Redis is unavailable .*check that Redis is running/);
  t.match(stdout, /route +\S+ [\s\S]*not by the rules alone: 403 scope was decided by\n +who sent the request/);
  t.notMatch(stdout, /verdict|It would be/);
  const byToken = await run(['explain', '--config', away, '--token-id', 'T', '--path', '/']);
  t.match(byToken, { code: 1, stdout: '', stderr: /Redis is unavailable/ });
}); // prettier-ignore
