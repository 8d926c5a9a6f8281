import t from 'tap';
import { checkBytes, type GrpcAsked } from '../helpers/grpc.js';
import { startInProcess } from '../helpers/in-process.js';

const listen = { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] };
const routes = [
  { path: '/open', auth: 'none' },
  { path: '/*', action: 'x' },
];
const { decideByGrpc, token, login, request } = await startInProcess(t, { listen, routes });
const ask = (asked: Partial<GrpcAsked>) =>
  decideByGrpc(checkBytes({ method: 'GET', target: '/open', ...asked }));

t.test('refuses an ambiguous check, with a message for the operator', async (t) => {
  const field = (key: string, value: string, rawValue?: string) =>
    ({ key, value, ...(rawValue === undefined ? {} : { rawValue: Buffer.from(rawValue) }) });
  const raw = (...headers: object[]) => ({ headerMap: { headers } });
  const rows: [object, string, RegExp][] = [
    [{ method: '' }, 'malformed_check', /method is missing/],
    [{ method: 'G ET' }, 'malformed_check', /method is not a method/],
    [{ method: 'get' }, 'malformed_check', /:method and attributes.request.http.method differ/],
    [{ path: '' }, 'malformed_check', /path is missing/],
    [{ path: '/x' }, 'malformed_check', /:path and attributes.request.http.path differ/],
    [{ host: 'other.example' }, 'malformed_check', /:authority and/],
    [{ scheme: 'https' }, 'malformed_check', /:scheme and/],
    [{ query: 'a=b' }, 'malformed_check', /query is set/],
    [{ fragment: 'a' }, 'malformed_check', /fragment is set/],
    [{ headers: [{ key: 'a', value: 'b' }] }, 'malformed_check', /both headers and header_map/],
    [raw(field('a', 'b', 'c')), 'malformed_check', /a value and a different raw_value/],
    [raw(field(':protocol', 'websocket')), 'malformed_check', /begins with ":"/],
    [raw(field('__proto__:', 'x')), 'malformed', /not well-formed/],
    [raw(field('', 'x')), 'malformed', /not well-formed/],
    [raw(field('a b', 'x')), 'malformed', /not well-formed/],
    [raw(field('a', 'x\ny')), 'malformed', /not well-formed/],
    [raw(field('a', 'x\0y')), 'malformed', /not well-formed/],
    [raw(field('a', '', 'x\u007fy')), 'malformed', /not well-formed/],
    [raw(field('host', 'other.example')), 'malformed', /Host|host/],
    [raw(field('host', 'api.example.com'), field('Host', 'api.example.com')), 'malformed', /Host|host/],
    [{ host: '', ...raw() }, 'malformed', /Host header is missing/],
    [{ host: '', ...raw(field('host', 'a.example'), field('host', 'b.example')) }, 'malformed', /Host|host/],
    [raw(field('a', 'x'.repeat(20_000))), 'fields_too_large', /together are too long/],
    [raw(...Array.from({ length: 101 }, (_, i) => field(`a${i}`, 'x'))), 'fields_too_large', /more than 100 header fields/],
  ];
  for (const [http, outcome, detail] of rows) {
    const reply = await ask({ http });
    t.match(reply, { status: 403, code: 7, json: { detail } }, JSON.stringify(http).slice(0, 100));
    t.equal(reply.log.find(({ msg }) => msg === 'request')?.['outcome'], outcome);
  }
  for (const target of ['*', 'x', 'http://a/open', 'a:443', '//open', '/open#x', '/a b', '/\u00e9'])
    t.equal((await ask({ target })).status, 403, target);
  t.equal((await ask({ method: 'CONNECT', target: 'a:443' })).status, 403);
  t.equal((await ask({ http: raw(field('host', 'api.example.com')) })).status, 200, 'the same host twice is unambiguous');
}); // prettier-ignore

t.test('limits the size of all fields, Host included, as over HTTP', async (t) => {
  const limit = 16_384;
  for (const host of ['a.example', `${'a'.repeat(200)}.example`])
    for (const repeated of [[], [{ key: 'Host', value: host }]])
      for (const [excess, status] of [[0, 200], [1, 403]] as const) {
        const length = limit + excess - `Host: ${host}\r\na: \r\n`.length;
        const headers = [...repeated, { key: 'a', value: 'x'.repeat(length) }];
        const reply = await ask({ http: { host, headerMap: { headers } } });
        t.equal(reply.status, status, `${host.length} ${repeated.length} ${excess}`);
      }
}); // prettier-ignore

t.test("detects a body by its length, by Envoy's copy of it, or by its framing", async (t) => {
  const rows: [string, object, Record<string, string>, number][] = [
    ['GET', { size: 0 }, {}, 200], ['GET', { size: -1 }, {}, 200], ['GET', { size: 1 }, {}, 403], ['GET', { size: '9007199254740993' }, {}, 403],
    ['GET', { body: 'x' }, {}, 403], ['GET', { rawBody: Buffer.from('x') }, {}, 403], ['GET', {}, { 'content-length': '1' }, 403],
    ['GET', {}, { 'transfer-encoding': 'chunked' }, 403], ['GET', {}, { 'content-length': '0' }, 200], ['POST', { size: 1 }, {}, 200],
    ['POST', { size: 5 }, { 'content-length': '5' }, 200], ['POST', { size: 5 }, { 'transfer-encoding': 'chunked' }, 200],
  ];
  for (const [method, http, headers, status] of rows)
    t.equal((await ask({ method, http, headers })).status, status, `${method} ${JSON.stringify({ http, headers })}`);
}); // prettier-ignore

t.test("the client is from X-Forwarded-For or, without it, Envoy's peer address", async (t) => {
  const clientOf = async (asked: Partial<GrpcAsked>) =>
    (await ask(asked)).log.find(({ msg }) => msg === 'request')?.['client'];
  t.equal(await clientOf({ source: '203.0.113.9' }), '203.0.113.9');
  t.equal(await clientOf({ source: '2001:db8::9' }), '2001:db8::9');
  const headers = { 'x-forwarded-for': '198.51.100.7' };
  t.equal(await clientOf({ source: '203.0.113.9', headers }), '198.51.100.7');
  for (const source of ['', '/run/envoy.sock', 'x, 203.0.113.9'])
    t.equal(await clientOf({ source }), '127.0.0.1', source);
  const untrusting = await startInProcess(t, { routes });
  const { log } = await untrusting.decideByGrpc(
    checkBytes({ method: 'GET', target: '/open', source: '203.0.113.9' }),
  );
  t.equal(
    log.find(({ msg }) => msg === 'request')?.['client'],
    '127.0.0.1',
    'ignored from an untrusted peer',
  );
});

t.test('refuses joined fields if several fields would have been refused', async (t) => {
  const good = await token('superuser');
  const session = await login('superuser');
  const rows: [Record<string, string | string[]>, number, RegExp?][] = [
    [{ 'service-key': [good, good] }, 403, /service-key was sent more than once/],
    [{ 'service-key': `${good},x` }, 403, /service-key was sent more than once/],
    [{ 'service-otp': ['1', '2'], 'service-key': good }, 403, /service-otp was sent more than once/],
    [{ authorization: [`Bearer ${good}`, 'Basic dTpw'] }, 403, /authorization was sent more than once/i],
    [{ authorization: ['Digest a="b,c"', `Bearer ${good}`] }, 403, /authorization was sent more than once/i],
    [{ authorization: 'Digest username="a,b", realm="c"', 'service-key': good }, 200],
    [{ cookie: ['a=b', session] }, 403, /encode_raw_headers/],
    [{ cookie: [session, 'a=b'] }, 403, /encode_raw_headers/],
    [{ cookie: [`a=b; ${session}`, `c=d`] }, 403, /encode_raw_headers/],
    [{ cookie: `__Host-${session},x`, 'service-key': good }, 403, /encode_raw_headers/],
    [{ cookie: `a=b,c; ${session}; d=e,f` }, 200],
    [{ origin: ['http://a', 'http://b'], 'service-key': good }, 403, /origin/],
    [{ 'content-type': ['text/plain', 'application/json'], 'service-key': good }, 403, /content-type/],
    [{ 'content-type': 'multipart/mixed; boundary="a,b"', 'service-key': good }, 200],
    [{ 'sec-fetch-dest': ['document', 'serviceworker'], 'service-key': good }, 403, /service worker/i],
    [{ upgrade: ['websocket', 'h2c'], 'service-key': good }, 403],
    [{ accept: ['a', 'b'], 'user-agent': 'x (KHTML, like y)', 'service-key': good }, 200],
  ];
  for (const [headers, status, detail] of rows) {
    const reply = await ask({ target: '/x', headers, joined: true });
    t.equal(reply.status, status, JSON.stringify(headers));
    if (detail !== undefined) t.match(reply.json.detail, detail);
  }
  t.equal((await ask({ target: '/x', headers: { cookie: ['a=b', session] } })).status, 200, 'separate fields are parsed separately');
}); // prettier-ignore

t.test('refuses a field that cannot be sent to Envoy, if the API needs it', async (t) => {
  const good = await token('superuser');
  const asked = { target: '/x', headers: { 'service-key': good, cookie: 'a=\u00e9' } };
  t.match(await ask(asked), { status: 403, json: { detail: 'the header Cookie is not UTF-8 and cannot be sent to Envoy over gRPC' } });
  const utf8 = Buffer.from('a=é').toString('latin1');
  t.equal((await ask({ ...asked, headers: { ...asked.headers, cookie: utf8 } })).headers.cookie, 'a=é');
}); // prettier-ignore

t.test('what the client sent for a set field is replaced, for any other protected field removed', async (t) => {
  const identity = { headers: { user_id: 'X-Forwarded-User', services: 'X-Auth-Services' } };
  const server = await startInProcess(t, { listen, routes, identity });
  const [good, session] = [await server.token('superuser'), await server.login('superuser')];
  const key = { 'service-key': good };
  const rows: [Record<string, string>, set: Record<string, string>, removed: string[]][] = [
    [{ ...key, 'x-forwarded-user': 'evil', 'x-auth-services': 'evil', 'x-forwarded-other': 'evil' }, { 'x-forwarded-user': 'superuser' }, ['x-auth-services', 'x-forwarded-other']],
    [{ ...key, cookie: `a=b; ${session}` }, { cookie: 'a=b' }, []],
    [{ ...key, cookie: session }, {}, ['cookie']],
    [{ cookie: session }, {}, ['cookie']],
    [{ ...key, authorization: 'Basic dTpw' }, { authorization: 'Basic dTpw' }, []],
    [{ authorization: `Bearer ${good}` }, {}, ['authorization']],
    [key, {}, ['cookie', 'service-otp', 'x-real-ip', 'x-http-method-override']],
  ];
  for (const [headers, set, gone] of rows) {
    const { removed, ...reply } = await server.decideByGrpc(checkBytes({ method: 'GET', target: '/x', headers }));
    t.match(reply, { status: 200, headers: set });
    t.strictSame([...gone, 'service-key'].filter((name) => !removed.includes(name)), [], 'removed');
    t.strictSame(removed.filter((name) => name in reply.headers), [], 'Envoy removes after it sets');
  }
}); // prettier-ignore

t.test('denies the request on a fault', async (t) => {
  for (const broken of ['readHead', 'splitJoined', 'decisionHeaders'] as const) {
    const faulty = await startInProcess(t, { routes }, {
      services: () => ({ [broken]: () => { throw new Error('planned'); } }),
    });
    const bytes = checkBytes({ method: 'GET', target: '/open', headers: { a: 'b' }, joined: true });
    const reply = await faulty.decideByGrpc(bytes);
    t.match(reply, { status: 500, code: 13, json: { msg: 'Internal error' } }, broken);
  }
  t.equal((await request('/open')).status, 200);
}); // prettier-ignore
