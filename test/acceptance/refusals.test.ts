import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { Refusal } from '../../src/domain/refusal.js';
import { selfSigned } from '../helpers/certificates.js';
import { DECIDES, entrancesOf, HANDSHAKE } from '../helpers/entrances.js';
import { directory, client } from '../helpers/fixture.js';
import { type Reply, freshMetrics, send, startUpstream } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { KeyServer, newPair } from '../helpers/key-server.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { until, untilHourLasts } from '../helpers/until.js';

/*
 * Every reason to refuse a request, at every entrance where it can occur: response, log record,
 * audit entry and metric are the same. Only the status differs on the decision port, where proxies
 * understand 401 and 403.
 */

const folder = temporaryFolder(t);
const upstream = await startUpstream(t);
const issuer = await KeyServer.start(t, await newPair('away'));
issuer.behaviour = 'error';
const configFile = writeConfig(
  folder,
  {
    upstreams: { api: { url: upstream.url }, away: { url: 'http://127.0.0.1:9' } },
    default_route: { upstream: 'api' },
    listen: { host: '127.0.0.1', port: 0, tls: selfSigned(folder, 'localhost') },
    decision: { host: '127.0.0.1', port: 0, grpc: { port: 0 } },
    audit: { to: './audit.jsonl' },
    rate_limit: { writes_per_hour: 1 },
    jwt_issuers: [
      {
        name: 'ci',
        issuer: issuer.url,
        audience: 'latchkey',
        subjects: [{ claims: { sub: '*' }, customer_id: 'C1', role: 'user' }],
      },
    ],
    routes: [
      { path: '/nothing', auth: 'deny' },
      { path: '/vault', action: 'billing' },
      { path: '/services/:service_id', action: 'service', service: 'service_id' },
      { path: '/users', action: 'user:write' },
      { path: '/away', upstream: 'away', action: 'away' },
      { path: '/users/:user_id', methods: ['DELETE'], action: 'account', refuse_if_active_tokens: 'user_id' },
    ],
  },
  await directory(),
);
const server = await start(t, configFile);
const { token, login } = client(server.url);
const session = await openHttp2(t, server.url);

const cookie = await login('user');
const limited = await token('superuser', { 'services[]': 'SVC1' });
const owner = await token('superuser');
const purge = await token('superuser', { scope: 'purge_all' });
const elsewhere = await token('superuser', { addresses: '192.0.2.0/24' });
const slow = await token('superuser', { rate: '1/1d' });
await send(server.url, '/a', { headers: { 'Service-Key': slow } });
// A new hour would allow another write.
await untilHourLasts(60_000);
const spent = await token('engineer');
await send(server.url, '/a', { method: 'POST', headers: { 'Service-Key': spent } });
const expiresAt = Math.ceil(Date.now() / 1000) * 1000 + 3_000;
const short = await token('superuser', { expires_at: new Date(expiresAt).toISOString() });
await until(() => Date.now() > expiresAt, 'the token expires');

interface Case {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string | string[]>;
  /** Set if `explain` cannot predict it, because it counts and fetches nothing. */
  readonly isUnexplained?: true;
  /** The entrances where it can occur; all if omitted. */
  readonly by?: ReadonlySet<string>;
}

/** The decision port does not decide on built-in endpoints, and these accept no handshake. */
const PROXY_PORT: ReadonlySet<string> = new Set(['HTTP/1.1', 'HTTP/2']);
const FORWARDS: ReadonlySet<string> = new Set(['HTTP/1.1', 'HTTP/2', 'WebSocket']);

/**
 * Every refusal by its tag: a request that causes it, or why it cannot occur at more than one
 * entrance.
 */
const REASONS: Record<Refusal['refusal'], Case | string> = {
  malformed: { path: '/a/%c0%ae' },
  method_not_allowed: { method: 'TRACE', path: '/a' },
  method_unknown: { method: 'BREW', path: '/a' },
  target_too_long: { path: `/${'a'.repeat(8_200)}` },
  fields_too_large: {
    path: '/a',
    headers: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`X-${i}`, 'x'])),
  },
  key_set_unavailable: {
    path: '/a',
    headers: { Authorization: `Bearer ${await issuer.sign({})}` },
    isUnexplained: true,
  },
  wrong_credential_kind: {
    path: '/customer/C1/tokens',
    headers: { 'Service-Key': owner },
    by: PROXY_PORT,
  },
  other_customer: {
    path: '/customer/C2/tokens',
    headers: { Cookie: await login('superuser') },
    by: PROXY_PORT,
  },
  upstream_unreachable: { path: '/away', headers: { 'Service-Key': owner }, by: FORWARDS },
  expectation_failed: 'Expect matters where a body is read: test/pipeline',
  body_too_large: 'only built-in endpoints read bodies: test/pipeline',
  too_slow: 'a body that never arrives: test/faults/clients.test.ts',
  malformed_check: 'a misconfigured proxy: test/acceptance/decision.test.ts',
  own_endpoint: 'only the decision port excludes built-in endpoints: test/acceptance/decision.test.ts',
  grant: 'about a body: test/acceptance/exactness.test.ts, and below',
  login_throttled: 'about a body: test/acceptance/exactness.test.ts',
  other_user: 'about a body: test/acceptance/account.test.ts',
  upstream_broken: 'invalid upstream responses: test/hostile/upstreams.test.ts',
  upstream_too_slow: 'upstream failures: test/acceptance/upstreams.test.ts',
  overloaded: 'limits of connections and of hashing: test/acceptance/upstreams.test.ts, hashing.test.ts',
  store_unavailable: 'a broken store: test/pipeline, test/faults/redis.test.ts',
  outcome_unknown: 'a change without a response: test/pipeline',
  account_source_unavailable: 'about a login: test/acceptance/exactness.test.ts',
  audit_unavailable: 'about a change: test/pipeline',
  signing_unavailable: 'a broken key: test/pipeline',
  fault: 'an internal error: test/pipeline',
  several_credentials: { path: '/a', headers: { 'service-key': [limited, limited] } },
  unauthenticated: { path: '/a' },
  token_expired: { path: '/a', headers: { 'Service-Key': short } },
  role: { path: '/vault', headers: { Cookie: cookie } },
  scope: { path: '/vault', headers: { 'Service-Key': purge } },
  service: { path: '/services/SVC2', headers: { 'Service-Key': limited } },
  service_limited: { path: '/users', headers: { 'Service-Key': limited } },
  cross_origin: { method: 'POST', path: '/a', headers: { Cookie: cookie, 'Sec-Fetch-Site': 'cross-site' } },
  service_worker: { path: '/a', headers: { 'Service-Worker': 'script' } },
  not_found: { path: '/nothing' },
  active_tokens: {
    method: 'DELETE',
    path: '/users/superuser',
    headers: { Cookie: await login('superuser') },
  },
  address: { path: '/a', headers: { 'Service-Key': elsewhere } },
  token_rate: { path: '/a', headers: { 'Service-Key': slow }, isUnexplained: true },
  rate_limited: {
    method: 'POST',
    path: '/a',
    headers: { 'Service-Key': spent },
    isUnexplained: true,
  },
};

const CASES = Object.entries(REASONS).filter((each): each is [string, Case] => typeof each[1] === 'object');

const ENTRANCES = entrancesOf(server, session);

const linesOf = (text: string) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);

/** A record without fields that differ for every request, such as time and connection. */
function kept(record: Record<string, unknown> | undefined, without: readonly string[]) {
  return Object.fromEntries(Object.entries(record ?? {}).filter(([name]) => !without.includes(name)));
}

/** What a response left behind: its log record and its audit entries. */
async function traceOf(reply: Reply) {
  const id = reply.headers['x-request-id'];
  const record = () => linesOf(server.stdout()).find((line) => line['msg'] === 'request' && line['request_id'] === id);
  await until(() => record() !== undefined, `the record of ${String(id)}`);
  const audit = linesOf(readFileSync(join(folder, 'audit.jsonl'), 'utf8'));
  return {
    log: kept(record(), ['time', 'request_id', 'ms', 'decision_ms', 'host', 'status', 'client', 'protocol', 'bytes_sent']),
    audit: audit.filter((entry) => entry['request_id'] === id).map((entry) => kept(entry, ['time', 'request_id', 'pid', 'node'])),
  };
} // prettier-ignore

/** The number of requests by route and outcome, as label sets. */
async function counted(): Promise<Map<string, number>> {
  const lines = (await freshMetrics(server.admin)).matchAll(/^latchkey_requests_total\{([^}]*)\} (\d+)$/gm);
  return new Map([...lines].map(([, labels = '', count]) => [labels, Number(count)]));
}

t.test('a refusal is the same at every entrance', async (t) => {
  const before = await counted();
  const requests = new Map<string, number>();
  for (const [tag, asked] of CASES) {
    const { method = 'GET', path, headers = {} } = asked;
    const given = { method, path, headers };
    const model = await ENTRANCES['HTTP/1.1'](given);
    const left = await traceOf(model);
    t.equal(left.log['outcome'], tag, `${tag} is the outcome`);
    t.equal(left.log['decision'] === 'allowed', asked.by === FORWARDS, `${tag}: decision`);
    requests.set(tag, 1);
    for (const [name, ask] of Object.entries(ENTRANCES)) {
      // A handshake is always a GET.
      if (name === 'HTTP/1.1' || (name === 'WebSocket' && method !== 'GET')) continue;
      if (asked.by?.has(name) === false) continue;
      const reply = await ask(given);
      const decides =
        DECIDES.has(name) && model.status !== 401 && (model.status < 500 || model.status === 501);
      t.equal(reply.status, decides ? 403 : model.status, `${tag} by ${name}: status`);
      t.same(reply.json, model.json, `${tag} by ${name}: body`);
      t.equal(reply.headers['www-authenticate'], model.headers['www-authenticate'], `${tag} by ${name}`);
      t.same(await traceOf(reply), left, `${tag} by ${name}: log record and audit entry`);
      requests.set(tag, (requests.get(tag) ?? 0) + 1);
    }
  }
  const after = await counted();
  for (const [tag, count] of requests) {
    const grown = [...after]
      .map(([labels, now]) => ({ labels, by: now - (before.get(labels) ?? 0) }))
      .filter(({ labels, by }) => by > 0 && labels.includes(`outcome="${tag}"`));
    t.equal(grown.reduce((sum, { by }) => sum + by, 0), count, `${tag}: each is counted once`); // prettier-ignore
    const routes = new Set(grown.map(({ labels }) => /route="[^"]*"/.exec(labels)?.[0]));
    t.equal(routes.size, 1, `${tag}: the same route`);
  }
});

t.test('explain shows the same reason, status and message', async (t) => {
  for (const [tag, asked] of CASES) {
    const { method = 'GET', path, headers = {}, isUnexplained, by } = asked;
    if (isUnexplained || by === FORWARDS) continue;
    const model = await ENTRANCES['HTTP/1.1']({ method, path, headers });
    const fields = Object.entries(headers).flatMap(([name, values]) =>
      [values].flat().flatMap((value) => ['--header', `${name}: ${value}`]),
    );
    const args = ['explain', '--config', configFile, '--method', method, '--path', path, '--json', ...fields];
    const { stdout, stderr } = await run([...args, '--anonymous']);
    t.equal(stderr, '');
    const { verdict } = JSON.parse(stdout);
    t.match(verdict, { allowed: false, outcome: tag, status: model.status }, tag);
    t.equal(verdict.detail, model.json.detail ?? model.json.msg, `${tag}: message`);
  }
});

t.test('a request that a built-in endpoint refuses is not logged as allowed', async (t) => {
  const body = new URLSearchParams({ username: 'superuser@example.com', password: 'wrong' });
  const refused = await send(server.url, '/tokens', { body });
  t.equal(refused.status, 400);
  t.match((await traceOf(refused)).log, { outcome: 'grant', decision: 'refused', route: '/tokens' });
  const handshake = await send(server.url, '/tokens', { headers: { ...HANDSHAKE, Cookie: await login('superuser') } });
  t.equal(handshake.status, 400);
  t.match((await traceOf(handshake)).log, { outcome: 'malformed', decision: 'refused', detail: String, route: '/tokens' });
}); // prettier-ignore
