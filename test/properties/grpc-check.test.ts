import { deepEqual, equal } from 'node:assert/strict';
import * as fc from 'fast-check';
import t, { type Test } from 'tap';
import { identityOf } from '../helpers/checks.js';
import { checkBytes } from '../helpers/grpc.js';
import { startInProcess } from '../helpers/in-process.js';
import { options, Share, told } from '../helpers/property.js';

/* A check over gRPC is decided like the same check over HTTP: Envoy may use either. */

const routes = [
  { path: '/open', auth: 'none' },
  { path: '/service/:service_id', action: 'service', service: 'service_id' },
  { path: '/by-field', action: 'service', service: 'header:X-Svc' },
  { path: '/hidden', auth: 'deny' },
  { path: '/*', action: 'x' },
];
const listen = { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] };
const server = await startInProcess(t, { listen, routes });
const good = await server.token('superuser');
const limited = await server.token('superuser', { service_id: 'SVC1' });
const session = await server.login('superuser');
const [, sessionId = ''] = session.split('=');

const key = fc.constantFrom(good, good, good, limited, 'bad', '', `${good},${limited}`, `${good},`);
const cookie = fc
  .array(
    fc.constantFrom(session, 'a=b', 'a=b,c', `a=b,${session}`, `${session},x`, `latchkey-login-a=x`, 'xservice.session=x', 'ü=é', 'a="b', ''),
    { maxLength: 3 },
  )
  .map((pairs) => pairs.join('; ')); // prettier-ignore
const authorization = fc.constantFrom(
  `Bearer ${good}`, `bearer  ${limited}`, 'Bearer bad', 'Basic dTpw', `Digest username="a,b", realm="c"`,
  `Basic dTpw,Bearer ${good}`, `Digest a=b,Bearer ${good}`, `Bearer ${good},x=y`,
); // prettier-ignore
const odd = fc.constantFrom('', 'x', 'a,b', 'a, b', ',', '"a,b"', '1', '0', 'é', '\u0080', 'chunked', 'websocket', 'h2c', 'close', 'serviceworker', 'same-origin', 'cross-site', 'https', 'SVC1', 'SVC1,SVC2', 'http://api.example.com', 'https://evil.example', 'trailers', '100-continue', 'application/json', '203.0.113.9', '203.0.113.9, 10.0.0.1', '13', 'dGhlIHNhbXBsZSBub25jZQ=='); // prettier-ignore
const name = fc.constantFrom('Content-Length', 'Content-Type', 'Origin', 'Upgrade', 'Transfer-Encoding', 'Expect', 'Sec-Fetch-Site', 'Sec-Fetch-Dest', 'Service-Worker', 'User-Agent', 'Connection', 'X-Svc', 'X_Svc', 'X-Auth-User-Id', 'X_Auth_User_Id', 'X-Auth-Else', 'X-Forwarded-For', 'X-Forwarded-Proto', 'X-Forwarded-Host', 'X-Forwarded-Other', 'X-HTTP-Method-Override', 'X_Forwarded_For', 'Sec-WebSocket-Key', 'Sec-WebSocket-Version', 'Traceparent', 'X~Y', 'Service-OTP', 'Accept'); // prettier-ignore
const field = fc.oneof(
  { weight: 3, arbitrary: fc.tuple(fc.constantFrom('Service-Key', 'service-key', 'Service_Key'), key) },
  { weight: 3, arbitrary: fc.tuple(fc.constant('Cookie'), cookie) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('Authorization'), authorization) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constant('Host'), fc.constantFrom('a', 'a:1', 'a,b', 'a b', '[::1]', '.')),
  },
  { weight: 4, arbitrary: fc.tuple(name, odd) },
);
const asked = fc.record({
  method: fc.constantFrom(
    'GET',
    'GET',
    'POST',
    'PUT',
    'OPTIONS',
    'DELETE',
    'TRACE',
    'FOO',
    'PURGE',
    'CONNECT',
  ),
  target: fc.constantFrom(
    '/open', '/open', '/open', '/x', '/x', '/x', '/', '/open', '/open?a=b', '/x', '/service/SVC1', '/service/SVC2', '/by-field', '/hidden', '/tokens', '/login', '//x',
    '/a/../open', '/a%2fb', '/%2e', '/a#b', '/a b', '/a%00', '/%6cogin', '/*',
  ), // prettier-ignore
  fields: fc.array(field, { maxLength: 4 }),
});

type Asked = typeof asked extends fc.Arbitrary<infer T> ? T : never;

/** Groups fields by name for senders, with several values of one name together. */
function headersOf(fields: readonly (readonly [string, string])[]): Record<string, string[]> {
  const headers: Record<string, string[]> = {};
  for (const [name, value] of fields) (headers[name.toLowerCase()] ??= []).push(value);
  // Envoy joins two Host fields before anyone sees them.
  headers['host'] = [headers['host']?.join() ?? 'api.example.com'];
  return headers;
}

const utf8 = (fields: object) =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, Buffer.from(String(value), 'latin1').toString()]),
  );
const record = (log: readonly Record<string, unknown>[]) => {
  const { time: _, request_id: __, ms: ___, decision_ms: ____, protocol: _____, bytes_sent: ______, ...rest } = log.find(({ msg }) => msg === 'request') ?? {};
  return rest;
}; // prettier-ignore
const statusOf = (status: number) => (status < 300 || status === 401 || status >= 500 ? status : 403);

/** Checks over HTTP, which does not join fields. */
async function byHttp({ method, target, fields }: Asked) {
  const { host, ...headers } = headersOf(fields);
  return server.decide(`/ext_authz${target}`, { method, headers: { Host: host ?? [], ...headers } });
}

async function checked(t: Test, check: (value: Asked) => Promise<void>): Promise<void> {
  const details = await fc.check(fc.asyncProperty(asked, check), options<[Asked]>(5_000));
  t.notOk(details.failed, told(details));
}

t.test('separate fields: the same response, the same fields, the same record', async (t) => {
  const allowed = new Share();
  await checked(t, async (value) => {
    const { method, target, fields } = value;
    const http = await byHttp(value);
    const grpc = await server.decideByGrpc(checkBytes({ method, target, headers: headersOf(fields) }));
    if (String(grpc.json?.detail).includes('is not UTF-8')) {
      equal(http.status, 200);
      return;
    }
    allowed.note(grpc.status === 200);
    equal(grpc.status, statusOf(http.status));
    deepEqual(identityOf(grpc.headers), utf8(identityOf(http.headers)));
    equal(grpc.removed.join(), http.headers['x-envoy-auth-headers-to-remove'] ?? '');
    // The codec refuses some before they become requests.
    if (http.log.length === 0) return;
    deepEqual(record(grpc.log), record(http.log));
    equal(grpc.text, http.text);
    equal(grpc.audit.length, http.audit.length);
  });
  t.ok(allowed.exceeds(0.05), `${allowed.part} allowed`);
});

t.test('joined fields: what is allowed is allowed over HTTP, for the same caller, with nothing dropped', async (t) => {
  const allowed = new Share();
  await checked(t, async (value) => {
    const { method, target, fields } = value;
    const http = await byHttp(value);
    const headers = headersOf(fields);
    const grpc = await server.decideByGrpc(checkBytes({ method, target, headers, joined: true }));
    allowed.note(grpc.status === 200);
    // Joined values of this field may be valid: browsers send commas in it.
    const isAgent = String(http.json?.detail).startsWith('the header user-agent');
    if (http.status !== 200 && !isAgent) equal(grpc.status >= 400, true, 'refused by HTTP');
    if (grpc.status !== 200 || isAgent) return;
    const { cookie, authorization, ...who } = identityOf(grpc.headers);
    const { cookie: _, authorization: __, ...wanted } = identityOf(http.headers);
    deepEqual(who, wanted);
    for (const text of [cookie, authorization]) {
      for (const secret of [good, limited, sessionId]) equal(String(text).includes(secret), false, 'the API receives no credential');
    }
  });
  t.ok(allowed.exceeds(0.05), `${allowed.part} allowed`);
}); // prettier-ignore
