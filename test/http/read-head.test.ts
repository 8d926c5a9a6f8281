import t from 'tap';
import type { Refusal } from '../../src/domain/refusal.js';
import { parseBody } from '../../src/http/body.js';
import { createClientReader } from '../../src/http/client-address.js';
import type { ParsedRequest } from '../../src/http/exchange.js';
import { createHeadReader } from '../../src/http/read-head.js';
import { refusalReply } from '../../src/http/replies.js';

const LIMITS = { head_size: 200, head_fields: 8, target_size: 100 };
const NAMES = {
  key: 'service-key',
  keyHeaders: ['x-api-key'],
  otp: 'service-otp',
  sessionCookie: 'service.session',
  basic: true,
  bearer: true,
  jwt: true,
  jwtFields: [],
  jwtCookies: [],
};
const readHead = createHeadReader(NAMES, LIMITS, createClientReader([]));
const TRACE = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

/**
 * Reads a head with a Host of its own, unless `Host` is among the fields. An empty list omits a
 * field.
 */
function read(fields: Record<string, string | string[]>, more: Partial<ParsedRequest> = {}) {
  const rawHeaders = Object.entries({ Host: 'a', ...fields }).flatMap(([name, value]) =>
    [value].flat().flatMap((each) => [name, each]),
  );
  const socket = { remoteAddress: '127.0.0.1' };
  return readHead({ method: 'POST', url: '/', httpVersion: '1.1', socket, rawHeaders, ...more });
}

/** Reads a head from a trusted proxy. */
function behindProxy(fields: Record<string, string>) {
  const readBehind = createHeadReader(NAMES, LIMITS, createClientReader(['127.0.0.1']));
  const rawHeaders = Object.entries({ Host: 'a', ...fields }).flat();
  return readBehind({
    method: 'GET',
    url: '/',
    httpVersion: '1.1',
    socket: { remoteAddress: '127.0.0.1' },
    rawHeaders,
  });
}

const HTTP2 = { httpVersion: '2.0', stream: {}, readableEnded: true };
/** HTTP/2 has these instead of Host. */
const pseudo = (...fields: string[]) => ({
  ...HTTP2,
  rawHeaders: [':method', 'POST', ':path', '/', ':scheme', 'https', ...fields],
});

t.test('refuses invalid heads', async (t) => {
  const rows: [string, ReturnType<typeof read>, Refusal['refusal'], RegExp][] = [
    ['another version', read({}, { httpVersion: '0.9' }), 'malformed', /only HTTP\/1\.0/],
    ['a request line that says 2.0', read({}, { httpVersion: '2.0' }), 'malformed', /only HTTP\/1\.0/],
    ['no method', read({}, { method: undefined }), 'method_unknown', /the method {2}is not registered/],
    ['an invalid target', read({}, { url: 'a' }), 'malformed', /./],
    ['no target', read({}, { url: undefined }), 'malformed', /./],
    ['a long target', read({}, { url: `/${'a'.repeat(100)}` }), 'target_too_long', /over 100 bytes/],
    ['many fields', read({ A: Array<string>(8).fill('b') }), 'fields_too_large', /more than 8/],
    ['two keys', read({ 'Service-Key': ['a', 'b'] }), 'several_credentials', /Service-Key was sent more than once/],
    ['two one-time passwords', read({ 'Service-OTP': ['1', '2'] }), 'several_credentials', /Service-OTP/],
    ['two cookies', read({ Cookie: ['service.session=a', 'service.session=b'] }), 'several_credentials', /service\.session/],
    ['two lengths', read({ 'Content-Length': ['1', '1'] }), 'malformed', /Content-Length was sent more than once/],
    ['two hosts', read({ Host: ['a', 'a'] }), 'malformed', /Host was sent more than once/],
    ['no host', read({}, { rawHeaders: [] }), 'malformed', /Host header is missing/],
    ['an invalid host', read({ Host: 'a/b' }), 'malformed', /not a host name/],
    ['chunked in HTTP/1.0', read({ 'Transfer-Encoding': 'chunked' }, { httpVersion: '1.0' }), 'malformed', /not allowed in HTTP\/1\.0/],
    ['both framings', read({ 'Transfer-Encoding': 'chunked', 'Content-Length': '1' }), 'malformed', /both/],
    ['another coding', read({ 'Transfer-Encoding': 'gzip' }), 'malformed', /only Transfer-Encoding/],
    ['an invalid length', read({ 'Content-Length': '1e3' }), 'malformed', /not a number of bytes/],
    ['another expectation', read({ Expect: 'x' }), 'expectation_failed', /100-continue/],
    ['many Connection options', read({ Connection: 'x'.repeat(101).split('').join(', ') }), 'malformed', /more than 100 options/],
    ['an invalid header from a trusted proxy', behindProxy({ 'X-Forwarded-Proto': 'gopher' }), 'malformed', /X-Forwarded-Proto/],
    ['HTTP/2: Connection', read({}, pseudo(':authority', 'a', 'connection', 'x')), 'malformed', /not allowed in HTTP\/2/],
    ['HTTP/2: TE', read({}, pseudo(':authority', 'a', 'te', 'gzip')), 'malformed', /only "trailers"/],
    ['HTTP/2: two hosts', read({}, pseudo('host', 'a', 'host', 'a')), 'malformed', /more than once/],
    ['HTTP/2: another host', read({}, pseudo(':authority', 'a', 'host', 'b')), 'malformed', /different hosts/],
    ['HTTP/2: another scheme', read({}, pseudo(':scheme', 'ftp')), 'malformed', /neither https nor http/],
    ['HTTP/2: many bytes', read({}, pseudo(':authority', 'a', 'x', 'x'.repeat(200))), 'fields_too_large', /together are too long/],
  ];
  for (const [what, head, refusal, detail] of rows) t.match(head, { refusal, detail }, what);
}); // prettier-ignore

t.test('reads valid heads', async (t) => {
  const rows: [string, ReturnType<typeof read>, object][] = [
    ['HTTP/1.0 without a host', read({}, { httpVersion: '1.0', rawHeaders: [] }), { client: { host: '' } }],
    ['credentials', read({ 'service-KEY': 'k', 'Service-Otp': '1', Cookie: 'a=b; service.session=s' }), { key: 'k', otp: '1', session: 's' }],
    ['its body', read({ 'Content-Length': '5', 'Content-Type': 'a/b' }), { contentLength: 5, hasBody: true, contentType: 'a/b' }],
    ['an empty body', read({ 'Content-Length': '0' }), { contentLength: 0, hasBody: false }],
    ['its chunks', read({ 'Transfer-Encoding': 'Chunked' }), { contentLength: undefined, hasBody: true }],
    ['several Connection', read({ Connection: ['a', 'b'] }), { connection: 'a, b' }],
    ['an expectation', read({ Expect: '100-Continue' }), { expectsContinue: true }],
    ['an expectation, ignored in HTTP/1.0', read({ Expect: '100-continue' }, { httpVersion: '1.0' }), { expectsContinue: false }],
    ['a handshake', read({ Upgrade: 'WebSocket' }), { webSocket: true }],
    ['another upgrade', read({ Upgrade: 'h2c' }), { webSocket: false }],
    ['an empty User-Agent', read({ 'User-Agent': '' }), { userAgent: undefined }],
    ['its trace', read({ traceparent: TRACE }), { trace: { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), sampled: true } }],
    ['two traces', read({ traceparent: [TRACE, TRACE] }), { trace: undefined }],
    ['a trace of version 00 with extra members', read({ traceparent: `${TRACE}-x` }), { trace: undefined }],
    ['a trace of a later version', read({ traceparent: `01${TRACE.slice(2)}-x` }), { trace: { sampled: true } }],
    ['a long trace', read({ traceparent: `01${TRACE.slice(2)}-${'x'.repeat(300)}` }), { trace: undefined }],
    ['a service worker', read({ 'Service-Worker': 'script' }), { serviceWorker: true }],
    ['a service worker, by another header', read({ 'Sec-Fetch-Dest': 'ServiceWorker' }), { serviceWorker: true }],
    ['HTTP/2', read({}, pseudo(':authority', 'a', 'cookie', 'b=c', 'cookie', 'service.session=s', 'te', 'trailers')), { session: 's', hasBody: false, client: { host: 'a' } }],
    ['HTTP/2 with a body', read({}, { ...pseudo('host', 'a'), readableEnded: false }), { hasBody: true, client: { host: 'a' } }],
  ];
  for (const [what, head, expected] of rows) t.match(head, expected, what);
}); // prettier-ignore

t.test('parses bodies, and refuses invalid ones', async (t) => {
  const many = Array.from({ length: 2_001 }, (_, i) => `a${i}=1`).join('&');
  const names = JSON.stringify(Object.fromEntries(Array.from({ length: 2_001 }, (_, i) => [`a${i}`, 1])));
  const FORM = 'application/x-www-form-urlencoded';
  for (const [body, type] of [[many, FORM], [names, 'application/json'], ['{', 'application/json'], ['x', undefined], ['x', 'text/plain']] as const)
    t.match(parseBody(Buffer.from(body), type), { refusal: 'malformed', detail: String }, `${type} ${body.slice(0, 10)}`);
  const json = parseBody(Buffer.from('{"a":["b",1],"c":"d"}'), 'application/vnd.api+json; charset=utf-8');
  if ('refusal' in json) throw new Error('it is refused');
  t.same([json.params.all('a'), json.params.one('c'), json.params.one('none')], [[''], 'd', undefined]);
}); // prettier-ignore

t.test('each refusal has its status, and temporary ones have a Retry-After', async (t) => {
  const detail = 'why';
  const rows: [Refusal, number, RegExp][] = [
    [{ refusal: 'malformed_check', detail }, 403, /incomplete/],
    [{ refusal: 'own_endpoint', detail }, 403, /not decided here/],
    [{ refusal: 'too_slow', detail }, 408, /timeout/],
    [{ refusal: 'upstream_unreachable', detail }, 502, /Bad gateway/],
    [{ refusal: 'upstream_broken', detail }, 502, /Bad gateway/],
    [{ refusal: 'upstream_too_slow', detail }, 504, /Gateway timeout/],
    [{ refusal: 'account_source_unavailable' }, 503, /account source/],
    [{ refusal: 'overloaded', detail }, 503, /why/],
  ];
  for (const [refusal, status, text] of rows) {
    const reply = refusalReply(refusal);
    t.equal(reply.status, status, refusal.refusal);
    t.match(JSON.stringify(reply.json), text, refusal.refusal);
    t.same(reply.headers, status === 503 ? ['Retry-After', '1'] : undefined, refusal.refusal);
  }
});
