import { request } from 'node:https';
import t from 'tap';
import { syntheticSession, syntheticToken } from '../../src/gate/what-if.js';
import { loadConfig } from '../../src/config/load.js';
import { type SimulatedRequest, Simulator } from '../../src/pipeline/simulate.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { selfSigned } from '../helpers/certificates.js';
import { PROXIES } from '../helpers/checks.js';
import { startFixture } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';
import { SEPARATORS } from './protected-names.js';

/** The last request that reached the upstream. */
let arrived: { target: string; fields: readonly string[] } | undefined;
const note = (req: { url?: string | undefined; rawHeaders: string[] }) =>
  void (arrived = { target: req.url ?? '', fields: req.rawHeaders });
const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req, res) => {
  note(req);
  res.end('ok');
});
upstream.on('upgrade', (req, socket) => {
  note(req);
  socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n');
}); // prettier-ignore
const { cert, key } = selfSigned(temporaryFolder(t), 'latchkey');
const fixture = await startFixture(t, {
  upstream: upstreamUrl,
  listen: { host: '127.0.0.1', port: 0, tls: { cert, key }, trusted_proxies: ['127.0.0.1'] },
  decision: { host: '127.0.0.1', port: 0 },
  routes: [
    { path: '/field', action: 'service', service: 'header:Service-Id' },
    { path: '/query', action: 'service', service: 'query:service_id' },
    { path: '/open', auth: 'none' },
  ],
});
const { url, server } = fixture;
const http2 = await openHttp2(t, url);
const store = openLmdbStore(`${fixture.folder}/data`);
t.teardown(() => store.maintenance.close());
const simulator = new Simulator(loadConfig(fixture.configFile), store);

type Headers = Record<string, string | string[]>;
type Call = (path: string, headers: Headers, as: SimulatedRequest['as']) => Promise<number>;
const HANDSHAKE = {
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
};

const handshake: Call = (path, { Connection, ...headers }) =>
  new Promise((resolve, reject) => {
    const sent = { ...headers, ...HANDSHAKE, Connection: ['Upgrade', Connection ?? []].flat().join(', ') };
    const req = request(`${url}${path}`, { headers: sent, rejectUnauthorized: false, agent: false });
    req.on('upgrade', (_, socket) => {
      socket.destroy();
      resolve(200);
    });
    req.on('response', (res) => {
      res.resume();
      resolve(res.statusCode ?? 0);
    });
    req.on('error', reject).end();
  });
const question: Call = async (target, headers, as) => {
  const fields = Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().flatMap((value) => [name, value]),
  );
  const { verdict } = await simulator.simulate({ method: 'GET', target, fields, as }, Date.now());
  return verdict.outcome === 'forward' ? 200 : (verdict.status ?? 0);
};

/**
 * Each returns the status that Latchkey's own port would use; a proxy that asks receives 403 for
 * every refusal.
 */
const ENTRANCES: Readonly<Record<string, Call>> = {
  'HTTP/1.1': async (path, headers) => (await send(url, path, { headers })).status,
  'HTTP/2': async (path, headers) => (await sendHttp2(http2, path, { headers })).status,
  WebSocket: handshake,
  explain: question,
  ...Object.fromEntries(
    Object.entries(PROXIES).map(([proxy, ask]): [string, Call] => [
      proxy,
      async (target, headers) => {
        const reply = await ask(server.decision, { method: 'GET', target, headers });
        return reply.json?.msg === 'Bad request' ? 400 : reply.status;
      },
    ]),
  ),
}; // prettier-ignore
const FORWARDING = ['HTTP/1.1', 'HTTP/2', 'WebSocket'];

const user = (await store.directory.getUser('superuser')) as never;
const limited = { 'Service-Key': await fixture.token('superuser', { services: 'SVC1' }) };
const CREDENTIALS: readonly [who: string, headers: Headers, as: SimulatedRequest['as']][] = [
  ['limited token', limited, { subject: syntheticToken(user, 'global', ['SVC1']) }],
  ['unlimited token', { 'Service-Key': await fixture.token('superuser') }, { subject: syntheticToken(user, 'global', []) }],
  ['session', { Cookie: await fixture.login('superuser') }, { subject: syntheticSession(user) }],
]; // prettier-ignore

interface Row {
  readonly path: string;
  readonly headers?: Headers;
  /** The request names no service, so only a limited token is refused. */
  readonly none?: true;
  /** HTTP/2 has no such field. */
  readonly http1?: true;
}

async function statusesOf({ path, headers = {}, http1 }: Row, [, credential, as]: (typeof CREDENTIALS)[number]) {
  const statuses: Record<string, number> = {};
  for (const [entrance, call] of Object.entries(ENTRANCES)) {
    if (http1 && entrance === 'HTTP/2') continue;
    arrived = undefined;
    statuses[entrance] = await call(path, { ...headers, ...(entrance === 'explain' ? {} : credential) }, as);
    if (statuses[entrance] === 200 && FORWARDING.includes(entrance)) checkArrived(path, headers);
  }
  return statuses;
} // prettier-ignore

/** Checks that the request arrived unchanged, with the service named once. */
function checkArrived(path: string, headers: Headers): void {
  const { target = '', fields = [] } = arrived ?? {};
  if (target !== path) throw new Error(`${target} came for ${path}`);
  if (!path.startsWith('/field')) return;
  const values = fields.filter((_, i) => i % 2 === 1 && /^service.id$/i.test(fields[i - 1] ?? ''));
  const wanted = headers['Service-Id'] === undefined ? [] : [headers['Service-Id']];
  if (values.join() !== wanted.join()) throw new Error(`the upstream got ${values.join()} as Service-Id`);
}

const all = (status: number, http1 = false) =>
  Object.fromEntries(Object.keys(ENTRANCES).filter((name) => !http1 || name !== 'HTTP/2').map((name) => [name, status])); // prettier-ignore

const S1 = { 'Service-Id': 'SVC1' };
const AMBIGUOUS: readonly Row[] = [
  ...SEPARATORS.replace('-', '').split('').flatMap((char) => [
    { path: '/field', headers: { ...S1, [`Service${char}Id`]: 'SVC2' } },
    { path: '/field', headers: { [`service${char}ID`]: 'SVC2' } },
  ]),
  { path: '/field', headers: { 'Service-Id': ['SVC1', 'SVC2'] } },
  { path: '/field', headers: { 'Service-Id': ['SVC1', 'SVC1'] } },
  ...['', 'SVC1, SVC2', 'SVC1;SVC2', '"SVC1"', 'SVC%31', 'SVC1 x', 'S+1', 'SVC1\u00e9'].map((value) => ({ path: '/field', headers: { 'Service-Id': value } })),
  ...['Service-Id', 'close, service-id', 'SERVICE-ID', 'Service_Id'].map((Connection) => ({ path: '/field', headers: { ...S1, Connection }, http1: true as const })),
  { path: '/field', headers: { Connection: 'Service-Id' }, http1: true },
  ...[
    'service_id=SVC1&service_id=SVC2', 'service_id=SVC1&service_id=SVC1', 'service_id=SVC1&service.id=SVC2', 'service-id=SVC2&service_id=SVC1',
    'service_id=SVC1&service_id[]=SVC2', 'service_id[a]=SVC2', '%20service_id=SVC2', '+service_id=SVC2', 'service_id%00=SVC2', 'service_id%00x=SVC2',
    'Service_Id=SVC2', 'SERVICE_ID=SVC2&service_id=SVC1', 'service%5Fid=SVC2', 'service%5fid=SVC1&service_id=SVC1', '%73ervice_id=SVC1',
    'service_id=SVC1;service_id=SVC2', 'a=b;service_id=SVC2', 'a=b;service_id=SVC2&service_id=SVC1', 'service_id=SVC1;x', 'service[id=SVC2', 'service_id]=SVC2',
    '[service_id]=SVC2', 'service~id=SVC2', 'service+id=SVC2', 'service%2525id=SVC2', '%25service_id=SVC2', 'service_id%=SVC2', 'service_id', 'service_id=',
    'service_id=SVC1+', 'service_id=%20SVC1', 'service_id=SVC1%00', 'service_id=SVC1%0a', 'service_id=SVC1%', 'service_id=SVC%2531', 'service_id=SVC1,SVC2', 'service_id=SVC1%26', 'service_id=SVC1=',
    'service_id=%C3%A9', `${'a&'.repeat(1_001)}service_id=SVC1`,
  ].map((query) => ({ path: `/query?${query}` })),
]; // prettier-ignore
const PLAIN: readonly Row[] = [
  { path: '/field', headers: S1 },
  { path: '/field', headers: { ...S1, 'X-Service-Id': 'SVC2', ServiceId: 'SVC2' } },
  { path: '/field', headers: { ...S1, Connection: 'close, X-Service-Id' }, http1: true },
  { path: '/field?service_id=SVC2', headers: S1 },
  { path: '/query?service_id=SVC1' },
  { path: '/query?a=b;c&service_id=SVC1&filter[x]=1&q=a+b%20c&next=%2F%3Fservice_id%3DSVC2' },
  { path: '/query?service_id=%53VC1', headers: { Service_Id: 'SVC2' } },
  { path: '/field', none: true },
  { path: '/query', none: true },
  { path: '/query?a=b', none: true },
];

t.test('refuses a service that an upstream could read differently, for every credential', async (t) => {
  for (const row of AMBIGUOUS)
    for (const credential of CREDENTIALS)
      t.same(await statusesOf(row, credential), all(400, row.http1), `${JSON.stringify(row)} by ${credential[0]}`);
}); // prettier-ignore

t.test('forwards an unambiguous service as it was judged', async (t) => {
  for (const row of PLAIN)
    for (const credential of CREDENTIALS) {
      const status = row.none === true && credential[0] === 'limited token' ? 403 : 200;
      t.same(await statusesOf(row, credential), all(status, row.http1), `${JSON.stringify(row)} by ${credential[0]}`);
    }
}); // prettier-ignore

t.test('still refuses other services; routes without a service ignore these spellings', async (t) => {
  const [token] = CREDENTIALS;
  if (token === undefined) throw new Error('no credential');
  for (const row of [{ path: '/field', headers: { 'Service-Id': 'SVC2' } }, { path: '/query?service_id=SVC2' }])
    t.same(await statusesOf(row, token), all(403), JSON.stringify(row));
  for (const row of [{ path: '/open?service_id=SVC1&service_id[]=SVC2' }, { path: '/open', headers: { Service_Id: 'x' } }])
    t.same(await statusesOf(row, token), all(200), JSON.stringify(row));
}); // prettier-ignore

t.test('the refusal names the field or parameter', async (t) => {
  const rows: [string, Headers, string][] = [
    ['/query?service.id=SVC1', {}, 'the parameter service.id can be mistaken for service_id, which names the service; send only service_id'],
    ['/query?service_id=SVC1&service_id=SVC1', {}, 'the parameter service_id, which names the service, was sent more than once'],
    ['/query?service_id=a;b', {}, 'the parameter service_id, which names the service, may contain only letters, digits and "-._~:@/"'],
    ['/field', { Service_Id: 'SVC1' }, 'the header Service_Id can be mistaken for service-id, which names the service; send only service-id'],
    ['/field', { ...S1, Connection: 'Service-Id' }, 'Connection must not name the header service-id, which names the service'],
  ];
  const replies = await Promise.all(rows.map(([path, headers]) => send(url, path, { headers: { ...limited, ...headers } })));
  forEachRow([...rows.entries()], ([i, [, , detail]]) => t.same(replies[i]?.json, { msg: 'Bad request', detail }));
}); // prettier-ignore
