import { readFileSync } from 'node:fs';
import t from 'tap';
import { refusalReply } from '../../src/http/replies.js';
import { otherProtocolRefusal, parseRefusal } from '../../src/pipeline/faults.js';
import {
  GAVE_WAY,
  InvalidUpstreamResponse,
  QUEUE_FULL,
  refusalOf,
  UpstreamFault,
  WAITED_TOO_LONG,
} from '../../src/upstream/faults.js';
import { startFixture } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { startInProcess } from '../helpers/in-process.js';

const PAGE = 'docs/troubleshooting.md';

/** The texts of a section, as patterns, by the status in its heading. */
const sections = readFileSync(PAGE, 'utf8')
  .split('\n## ')
  .slice(1)
  .map((section) => {
    const cells = [...section.matchAll(/^\| ((?:log: )?`[^|]*?)\s+\|/gm)].map(([, cell = '']) => cell);
    const texts = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text));
    return {
      heading: section.split('\n', 1)[0] ?? '',
      patterns: texts.filter((text) => text !== 'detail').map(patternOf),
    };
  });

function patternOf(text: string): RegExp {
  const parts = text.split('...').map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${parts.join('.*')}$`);
}

const SERVICE = { 'Service-Id': 'SVC2' };
const { request, handshake, token, login } = await startInProcess(t, {
  upstream: undefined,
  upstreams: { api: { url: 'http://127.0.0.1:1' }, grpc: { url: 'http://127.0.0.1:1', protocol: 'h2c' } },
  routes: [
    { path: '/read', action: 'read' },
    { path: '/billing', action: 'billing' },
    { path: '/files/*', action: 'files' },
    { path: '/items/:id', action: 'items' },
    { path: '/by-service', action: 'service', service: 'header:Service-Id' },
    { path: '/grpc', action: 'grpc', upstream: 'grpc' },
  ],
  default_route: { auth: 'deny', upstream: 'api' },
  rate_limit: { writes_per_hour: 1 },
  limits: { body_size: '1KiB' },
  login: { max_failures: 1 },
});
const all = await token('superuser');
const as = async (user: string, params: Record<string, string> = {}) => ({
  'Service-Key': await token(user, params),
});
const reader = await as('superuser', { scope: 'global:read' });
const purger = await as('superuser', { scope: 'purge_select' });
const limited = await as('superuser', { services: 'SVC1' });
const slow = await as('superuser', { rate: '1/1h' });
const elsewhere = await as('superuser', { addresses: '10.0.0.1' });
const key = { 'Service-Key': all };
const engineer = await as('engineer');
const session = { Cookie: await login('superuser') };
const cookie = { ...session, Origin: 'http://other.example' };
const WEBSOCKET = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
};
const wrong = { body: new URLSearchParams({ user: 'user@example.com', password: 'wrong' }) };
await request('/login', wrong);
await request('/read', { headers: slow });
await request('/files/a', { method: 'POST', headers: engineer });

const asked = [
  await request('/read', { headers: { ...key, Authorization: `Bearer ${reader['Service-Key']}` } }),
  await request('/items/a%2Fb', { headers: key }),
  await request('/files/%2e%2e/read', { headers: key }),
  await request('/read/', { headers: key }),
  await request('/read', { method: 'GET', headers: key, body: Buffer.from('x') }),
  await request('/read', { headers: { ...key, 'Sec-Fetch-Dest': 'serviceworker' } }),
  await handshake('/grpc', { headers: { ...key, ...WEBSOCKET } }),
  await request('/read', { headers: { Authorization: 'Bearer x' } }),
  await request('/read', { headers: { Authorization: 'Digest x' } }),
  await request('/read', { method: 'POST', headers: reader }),
  await request('/read', { headers: purger }),
  await request('/billing', { headers: engineer }),
  await request('/by-service', { headers: { ...limited, ...SERVICE } }),
  await request('/by-service', { headers: limited }),
  await request('/files/a', { method: 'POST', headers: cookie }),
  await request('/tokens', { headers: key }),
  await request('/read', { headers: elsewhere }),
  await request('/read', { headers: slow }),
  await request('/none', { headers: key }),
  await request('/tokens/x', { headers: session }),
  await request('/read', { method: 'TRACE', headers: key }),
  await request('/read', { method: 'FOO', headers: key }),
  await request('/tokens', { body: new URLSearchParams({ x: 'y'.repeat(2_000) }) }),
  await request('/login', wrong),
  await request('/files/a', { method: 'POST', headers: engineer }),
].map(({ status, json, log }) => ({ status, text: (json?.detail ?? log.at(-1)?.['detail']) as string })); // prettier-ignore

const coded = (code: string) => Object.assign(new Error('x'), { code });
/** Refusals that need a fault, which other tests cause. */
const caused = [
  parseRefusal('chunk_size', 1),
  otherProtocolRefusal('TLS'),
  { refusal: 'token_expired', tokenId: 'x', expiredAt: 0 } as const,
  refusalOf(coded('ECONNREFUSED'), false),
  refusalOf(coded('ECONNRESET'), true),
  refusalOf(new InvalidUpstreamResponse('x'), true),
  refusalOf(new UpstreamFault('x', 'UND_ERR_CONNECT_TIMEOUT'), false),
  QUEUE_FULL,
  WAITED_TOO_LONG,
  GAVE_WAY,
  { refusal: 'store_unavailable' } as const,
  { refusal: 'key_set_unavailable' } as const,
  { refusal: 'account_source_unavailable' } as const,
  { refusal: 'audit_unavailable' } as const,
].map((refusal) => {
  const { status, json } = refusalReply(refusal);
  const { msg, detail = msg } = json as { msg: string; detail?: string };
  return { status, text: detail };
});

t.test('the page has each text under its status, and no other', async (t) => {
  const { url } = await serveHttp(t, (req) => req.resume());
  const fixture = await startFixture(t, {
    upstream: undefined,
    upstreams: { api: { url, response_timeout: '1s' } },
    routes: [{ path: '/small', action: 'a', max_body: '1B' }],
  });
  const headers = { 'Service-Key': await fixture.token('superuser') };
  const slow = await send(fixture.url, '/', { headers });
  const large = await send(fixture.url, '/small', { method: 'POST', headers, body: Buffer.from('xx') });
  const forwarded = [slow, large].map(({ status, json }) => ({ status, text: json.detail as string }));
  const said = [...asked, ...caused, ...forwarded];
  for (const { status, text } of said) {
    const found = sections.find(({ heading }) => heading.includes(String(status)));
    t.ok(found?.patterns.some((pattern) => pattern.test(text)), `${status} ${text}`);
  }
  for (const { heading, patterns } of sections)
    for (const pattern of patterns)
      t.ok(said.some(({ text }) => pattern.test(text)), `${heading.slice(0, 3)} ${pattern.source}`);
  t.ok(sections.flatMap(({ patterns }) => patterns).length > 30);
}); // prettier-ignore
