import t, { type Test as T } from 'tap';
import { exchange, type WireReply } from '../helpers/exchange.js';
import { PASSWORD, startFixture } from '../helpers/fixture.js';

/*
 * Variations that real clients send, and what is still refused. Every row is sent as exact bytes.
 */
const fixture = await startFixture(t, {
  interface: { vendor: 'Acme', token_endpoints: 'session_or_token' },
  login: { max_failures: 100 },
});
const { url, upstream } = fixture;
const FORM = 'application/x-www-form-urlencoded';
const LOGIN = `username=superuser%40example.com&password=${encodeURIComponent(PASSWORD)}`;
const YEAR = new Date().getUTCFullYear() + 1;

let turn: Promise<unknown> = Promise.resolve();

/** Runs one at a time, because only a few logins of an account may be pending. */
const post = async (path: string, body: string, fields: string) => {
  const reply = turn.then(() =>
    exchange(
      url,
      `POST ${path} HTTP/1.1\r\nHost: a\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    ),
  );
  turn = reply.catch(() => undefined);
  return reply;
};
const form = (more: string) => post('/tokens', `${LOGIN}${more}`, `Content-Type: ${FORM}\r\n`);
const json = (more: string) =>
  post(
    '/tokens',
    `{"username":"superuser@example.com","password":"${PASSWORD}"${more}}`,
    'Content-Type: application/json\r\n',
  );

const made = await form('&name=tolerance');
const key = made.json.access_token as string;

/** The limits of the new token, or the status of the refusal. */
const restriction = ({ status, json }: WireReply) =>
  status === 200 ? [json.services, json.service_id] : status;

t.test('lists of services, as clients write them', async (t) => {
  const both = [['SVC1', 'SVC2'], 'SVC2'];
  const one = [['SVC1'], 'SVC1'];
  const rows: [string, Promise<WireReply>, unknown][] = [
    ['curl -d', form('&services[]=SVC1&services[]=SVC2'), both],
    ['percent-encoded', form('&services%5B%5D=SVC1&services%5b%5d=SVC2'), both],
    ['without brackets', form('&services=SVC1&services=SVC2'), both],
    ['numbered, as qs and PHP do', form('&services[0]=SVC1&services[1]=SVC2'), both],
    ['numbered and percent-encoded', form('&services%5B0%5D=SVC1&services%5B1%5D=SVC2'), both],
    ['both names', form('&services[]=SVC1&service_id=SVC2'), both],
    ['the legacy name', form('&service_id=SVC1'), one],
    ['JSON', json(',"services":["SVC1","SVC2"]'), both],
    ["JSON with the form's name", json(',"services[]":["SVC1","SVC2"]'), both],
    ['JSON, a single string', json(',"services":"SVC1"'), one],
    ['JSON, the legacy name', json(',"service_id":"SVC1"'), one],
    ['JSON null is absent', json(',"services":null,"service_id":null,"scope":null,"expires_at":null,"name":null'), [[], null]],
    ['absent', form(''), [[], null]],
    // An empty list restricts nothing, which can only be a mistake.
    ['empty', form('&services[]='), 422],
    ['empty without brackets', form('&services='), 422],
    ['empty and numbered', form('&services[0]='), 422],
    ['empty, the legacy name', form('&service_id='), 422],
    ['one empty value of two', form('&services[]=SVC1&services[]='), 422],
    ['an empty JSON list', json(',"services":[]'), 422],
    ['a JSON object', json(',"services":{"0":"SVC1"}'), 422],
    ['a list in a JSON list', json(',"services":[["SVC1"]]'), 422],
    ['null in a JSON list', json(',"services":[null]'), 422],
    ['two in one value', form('&services=SVC1,SVC2'), 422],
  ];
  for (const [name, reply, wanted] of rows) t.same(restriction(await reply), wanted, name);
}); // prettier-ignore

t.test('scope, expiry and name', async (t) => {
  const rows: [string, Promise<WireReply>, object][] = [
    ['two scopes with +', form('&scope=purge_select+purge_all'), { scope: 'purge_select purge_all' }],
    ['two scopes with %20', form('&scope=purge_select%20purge_all'), { scope: 'purge_select purge_all' }],
    ['a list of scopes', form('&scope[]=purge_select&scope[]=purge_all'), { scope: 'purge_select purge_all' }],
    ['a JSON list of scopes', json(',"scope":["purge_select","purge_all"]'), { scope: 'purge_select purge_all' }],
    ['an empty scope', form('&scope='), { code: 'invalid_scope' }],
    ['an empty list of scopes', json(',"scope":[]'), { code: 'invalid_scope' }],
    ['an object for a scope', json(',"scope":{"purge_select":true}'), { code: 'invalid_scope' }],
    ['an unencoded +', form(`&expires_at=${YEAR}-01-31T12:00:00+00:00`), { expires_at: `${YEAR}-01-31T12:00:00+00:00` }],
    ['an encoded +', form(`&expires_at=${YEAR}-01-31T12%3A00%3A00%2B01%3A00`), { expires_at: `${YEAR}-01-31T11:00:00+00:00` }],
    ['a + in JSON', json(`,"expires_at":"${YEAR}-01-31T12:00:00+00:00"`), { expires_at: `${YEAR}-01-31T12:00:00+00:00` }],
    ['Z', form(`&expires_at=${YEAR}-01-31T12:00:00.000Z`), { expires_at: `${YEAR}-01-31T12:00:00+00:00` }],
    ['an empty expiry', form('&expires_at='), { code: 'Unprocessable Entity' }],
    ['an object for an expiry', json(',"expires_at":{}'), { code: 'Unprocessable Entity' }],
    ['an empty name', form('&name='), { code: 'Unprocessable Entity' }],
    ['an empty name in JSON', json(',"name":""'), { code: 'Unprocessable Entity' }],
    ['an object for a name', json(',"name":{}'), { code: 'Unprocessable Entity' }],
    ['a list for a name', json(',"name":["a"]'), { code: 'Unprocessable Entity' }],
    ['an empty list for a name', json(',"name":[]'), { code: 'Unprocessable Entity' }],
    ['a number for a name', json(',"name":1'), { code: 'Unprocessable Entity' }],
    ['a flag for a name', json(',"name":false'), { code: 'Unprocessable Entity' }],
    ['null for a name', json(',"name":null'), { name: '' }],
    ['no name', form(''), { name: '' }],
    ['several names', form('&name=a&name=b'), { name: 'b' }],
    ['an empty name after another', form('&name=a&name='), { code: 'Unprocessable Entity' }],
    ['a name outside ASCII', form('&name=caf%C3%A9'), { name: 'café' }],
    ['unknown parameters', form('&grant_type=password&utf8=%E2%9C%93&user[name]=x'), { scope: 'global', services: [] }],
  ];
  for (const [name, reply, wanted] of rows) t.match((await reply).json, wanted, name);
}); // prettier-ignore

t.test('media types of a body', async (t) => {
  const body = `${LOGIN}&name=x`;
  const object = JSON.stringify({ username: 'superuser@example.com', password: PASSWORD });
  const rows: [type: string, body: string, status: number][] = [
    [FORM, body, 200],
    [`${FORM}; charset=utf-8`, body, 200],
    [`${FORM};charset=UTF-8`, body, 200],
    ['Application/X-WWW-Form-URLEncoded', body, 200],
    ['application/json', object, 200],
    ['application/json; charset=utf-8', object, 200],
    ['APPLICATION/JSON;charset=utf-8', object, 200],
    ['application/vnd.api+json', object, 200],
    ['application/vnd.api+json; ext=bulk', object, 200],
    // Another type does not say how to read the bytes.
    ['text/plain', body, 400],
    ['multipart/form-data; boundary=x', '--x--', 400],
    ['application/json', body, 400],
    [FORM, object, 400],
  ];
  for (const [type, sent, status] of rows) {
    const reply = await post('/tokens', sent, `Content-Type: ${type}\r\n`);
    t.equal(reply.status, status, `${type}: ${sent.slice(0, 10)}`);
  }
  t.equal((await post('/tokens', body, '')).status, 400, 'no media type');
});

/** Valid fields that clients send together with the key. */
const HARMLESS: readonly (readonly [name: string, fields: string, version?: string])[] = [
  ['only the key, no User-Agent', `Acme-Key: ${key}\r\nHost: a\r\n`],
  ['an empty User-Agent', `Acme-Key: ${key}\r\nHost: a\r\nUser-Agent:\r\n`],
  ['Accept: */*', `Acme-Key: ${key}\r\nHost: a\r\nAccept: */*\r\n`],
  ['a JSON:API media type', `Acme-Key: ${key}\r\nHost: a\r\nAccept: application/vnd.api+json; ext=bulk\r\n`],
  ['several media types', `Acme-Key: ${key}\r\nHost: a\r\nAccept: application/json, text/plain, */*\r\nAccept-Encoding: gzip, deflate\r\n`],
  ['a form media type without a body', `Acme-Key: ${key}\r\nHost: a\r\nContent-Type: ${FORM}\r\n`],
  ['a JSON media type and an empty body', `Acme-Key: ${key}\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 0\r\n`],
  ['a media type with a charset and an empty body', `Acme-Key: ${key}\r\nHost: a\r\nContent-Type: application/json;charset=utf-8\r\nContent-Length: 0\r\n`],
  ['a listed TE', `Acme-Key: ${key}\r\nHost: a\r\nConnection: TE, close\r\nTE: deflate,gzip;q=0.3\r\n`],
  ['TE: trailers', `Acme-Key: ${key}\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n`],
  ['lower-case names', `host: a\r\nacme-key: ${key}\r\naccept: application/json\r\nuser-agent: node\r\n`],
  ['upper-case names', `HOST: a\r\nACME-KEY: ${key}\r\nACCEPT: application/json\r\n`],
  ['no space after the colon', `Host:a\r\nAcme-Key:${key}\r\n`],
  ['additional whitespace around the key', `Host: a\r\nAcme-Key: \t${key}  \r\n`],
  ['a Bearer token', `Host: a\r\nAuthorization: Bearer ${key}\r\n`],
  ['Basic together with the key', `Acme-Key: ${key}\r\nHost: a\r\nAuthorization: Basic YTpi\r\n`],
  ['unrelated cookies', `Acme-Key: ${key}\r\nHost: a\r\nCookie: a=1; service.session=x; xacme.session=y\r\n`],
  ['keep-alive of old clients', `Acme-Key: ${key}\r\nHost: a\r\nConnection: Keep-Alive\r\nKeep-Alive: 300\r\n`],
  ['Pragma and Cache-Control', `Acme-Key: ${key}\r\nHost: a\r\nPragma: no-cache\r\nCache-Control: no-cache\r\n`],
  ['HTTP/1.0 with Host', `Acme-Key: ${key}\r\nHost: a\r\n`, '1.0'],
  ['HTTP/1.0 without Host', `Acme-Key: ${key}\r\n`, '1.0'],
]; // prettier-ignore

t.test('harmless fields, at a built-in endpoint and when forwarded', async (t) => {
  for (const [name, fields, version = '1.1'] of HARMLESS) {
    const own = await exchange(url, `GET /tokens/self HTTP/${version}\r\n${fields}\r\n`);
    t.match([own.status, own.json?.name], [200, 'tolerance'], `${name}: GET /tokens/self`);
    if (!/^user-agent: \S/im.test(fields)) t.equal(own.json.user_agent, null, `${name}: null, not ""`);
    t.equal((await exchange(url, `GET /tokens HTTP/${version}\r\n${fields}\r\n`)).status, 200, `${name}: GET /tokens`);
    const there = await exchange(url, `DELETE /tokens/none HTTP/${version}\r\n${fields}\r\n`);
    t.match([there.status, there.json?.msg], [404, 'Record not found'], `${name}: DELETE /tokens/:id`);
    const before = upstream.received.length;
    for (const line of ['GET /service/SVC1', 'POST /service/SVC1/purge/a%20b/c', 'PURGE /a?x', 'DELETE /service/SVC1/x'])
      t.equal((await exchange(url, `${line} HTTP/${version}\r\n${fields}\r\n`)).status, 200, `${name}: ${line}`);
    t.equal(upstream.received.length, before + 4, `${name}: each once`);
    for (const { headers } of upstream.received.slice(before))
      t.same([headers['te'], headers['acme-key'], headers['connection']], [undefined, undefined, 'keep-alive'], name);
  }
}); // prettier-ignore

t.test('targets that clients send', async (t) => {
  const get = (line: string, more = '') =>
    exchange(url, `${line} HTTP/1.1\r\nHost: a\r\nAcme-Key: ${key}\r\n${more}\r\n`, line.startsWith('HEAD'));
  for (const target of ['/tokens?', '/tokens?_=1700000000000', '/tokens/self?', '/tokens/self?_=1&x=%2F', `/tokens/${made.json.id}?a`])
    t.equal((await get(`GET ${target}`)).status, 200, target);
  const whole = await get('GET /tokens/self');
  const head = await get('HEAD /tokens/self');
  t.same([head.status, head.body, head.all('content-type'), head.all('cache-control')], [200, '', ['application/json'], ['no-store']], 'HEAD');
  t.same(head.all('content-length'), whole.all('content-length'), 'HEAD has the length of the same GET');
  const unknown = await get('HEAD /tokens/none');
  t.same([unknown.status, unknown.body], [404, '']);
  for (const target of ['/tokens', '/tokens/self', '/login', '/customer/C1/tokens']) {
    t.equal((await get(`OPTIONS ${target}`)).json.method, 'OPTIONS', `OPTIONS ${target} is forwarded`);
  }
  t.equal((await get('OPTIONS /service/SVC1')).json.method, 'OPTIONS', 'other OPTIONS are forwarded');
  for (const target of ['/purge/http://www.example.com/a?x=1', '/purge/https://www.example.com', '/purge/www.example.com/a', '/service/SVC1/purge/a%2Fb/c%20d'])
    t.equal((await get(`POST ${target}`, 'Content-Length: 0\r\n')).json.target, target, 'byte for byte');
}); // prettier-ignore

t.test('Expect: 100-continue, at a built-in endpoint and when forwarded', async (t) => {
  const fields = `Content-Type: ${FORM}\r\nExpect: 100-continue\r\n`;
  t.equal((await post('/tokens', `${LOGIN}&name=expects`, fields)).json.name, 'expects');
  t.equal((await post('/tokens', `${LOGIN}&name=expects`, fields.toUpperCase())).json.name, 'expects');
  const echoed = await post('/x', 'a=1', `${fields}Acme-Key: ${key}\r\n`);
  t.match(echoed.json, { body: 'a=1', headers: { expect: undefined } });
});

t.test('the session cookie as clients send it back', async (t) => {
  const login = await post('/login', `user=superuser%40example.com&password=${encodeURIComponent(PASSWORD)}`, `Content-Type: ${FORM}\r\nAccept: */*\r\n`);
  const [text = ''] = login.all('set-cookie');
  const [pair = ''] = text.split(';', 1);
  t.match(pair, /^acme\.session=/, 'named after the vendor');
  const status = async (cookie: string, line = 'GET /tokens') =>
    (await exchange(url, `${line} HTTP/1.1\r\nHost: a\r\n${cookie}\r\n`)).status;
  const rows: [string, string, number][] = [
    ['the pair', `Cookie: ${pair}\r\n`, 200],
    ['the whole text of Set-Cookie', `Cookie: ${text}\r\n`, 200],
    ['the whole text and a semicolon', `Cookie: ${text};\r\n`, 200],
    ['without spaces', `Cookie: a=1;${pair};b=2\r\n`, 200],
    ['RFC 2965', `Cookie: $Version=1; ${pair}; $Path=/\r\n`, 200],
    ['two fields', `Cookie: a=1\r\nCookie: ${pair}\r\n`, 200],
    ['repeated', `Cookie: ${pair}; ${pair}\r\n`, 400],
    ['repeated in two fields', `Cookie: ${pair}\r\nCookie: ${pair}\r\n`, 400],
    ['the name in another case', `Cookie: ${pair.replace('acme', 'Acme')}\r\n`, 401],
    ['another name with the same ending', `Cookie: x${pair}\r\n`, 401],
    ['together with a bad key', `Cookie: ${pair}\r\nAcme-Key: x\r\n`, 401],
  ];
  for (const [name, cookie, wanted] of rows) t.equal(await status(cookie), wanted, name);
  t.equal(await status(`Cookie: ${text}\r\n`, 'DELETE /tokens/none'), 404, 'for a request that changes something');
}); // prettier-ignore

t.test('bulk revocation, as each client sends it', async (t) => {
  const bulk = async (fields: (body: string) => string, more = '') => {
    const ids = [(await form('')).json.id, (await form('')).json.id];
    const body = `{"data":[${ids.map((id) => `{"type":"token","id":"${id}"${more}}`).join(',')}]}`;
    return exchange(url, `DELETE /tokens HTTP/1.1\r\nHost: a\r\nAcme-Key: ${key}\r\n${fields(body)}`);
  };
  const framed = (type: string) => (body: string) => `Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const rows: [string, Promise<WireReply>, number][] = [
    ['JSON:API bulk', bulk(framed('application/vnd.api+json; ext=bulk')), 204],
    ['JSON:API bulk, asking for a JSON:API response', bulk((body) => `Accept: application/vnd.api+json; ext=bulk\r\n${framed('application/vnd.api+json; ext=bulk')(body)}`), 204],
    ['JSON:API', bulk(framed('application/vnd.api+json')), 204],
    ['JSON', bulk(framed('application/json')), 204],
    ['attributes in addition to ids', bulk(framed('application/json; charset=utf-8'), ',"attributes":{"name":"x"}'), 204],
    ['chunked', bulk((body) => `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`), 204],
    ['no body', bulk(() => '\r\n'), 400],
    ['no media type', bulk((body) => `Content-Length: ${body.length}\r\n\r\n${body}`), 400],
  ];
  for (const [name, reply, status] of rows) t.equal((await reply).status, status, name);
}); // prettier-ignore

t.test('refuses what is ambiguous', async (t) => {
  const head = `Host: a\r\nAcme-Key: ${key}\r\n`;
  const rows: [string, string, number][] = [
    ['two keys', `GET /tokens/self HTTP/1.1\r\n${head}acme-key: ${key}\r\n\r\n`, 400],
    ['two media types', `POST /tokens HTTP/1.1\r\n${head}Content-Type: ${FORM}\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n`, 400],
    ['two hosts', `GET /tokens/self HTTP/1.1\r\n${head}Host: b\r\n\r\n`, 400],
    ['two lengths', `POST /x HTTP/1.1\r\n${head}Content-Length: 0\r\nContent-Length: 0\r\n\r\n`, 400],
    ['a length and chunks', `POST /x HTTP/1.1\r\n${head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
    ['another transfer coding', `POST /x HTTP/1.1\r\n${head}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, 400],
    ['a length with a sign', `POST /x HTTP/1.1\r\n${head}Content-Length: +0\r\n\r\n`, 400],
    ['chunked with HTTP/1.0', `POST /x HTTP/1.0\r\n${head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 400],
    ['no Host in HTTP/1.1', `GET /tokens/self HTTP/1.1\r\nAcme-Key: ${key}\r\n\r\n`, 400],
    ['an absolute target', `GET http://a/tokens/self HTTP/1.1\r\n${head}\r\n`, 400],
    ['a fragment', `GET /tokens/self#x HTTP/1.1\r\n${head}\r\n`, 400],
    ['a built-in endpoint after an empty segment', `GET //tokens/self HTTP/1.1\r\n${head}\r\n`, 400],
    ['another expectation', `POST /x HTTP/1.1\r\n${head}Expect: 200-ok\r\nContent-Length: 0\r\n\r\n`, 417],
    ['a name with an underscore', `GET /tokens/self HTTP/1.1\r\nHost: a\r\nAcme_Key: ${key}\r\n\r\n`, 401],
    ['the default name', `GET /tokens/self HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n\r\n`, 401],
    ['a Bearer token of another form', `GET /tokens/self HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}x\r\n\r\n`, 401],
    ['the key in the query', `GET /tokens/self?acme-key=${key} HTTP/1.1\r\nHost: a\r\n\r\n`, 401],
    ['name and password in the query', `POST /tokens?${LOGIN} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n`, 400],
    ['name and password as Basic', `POST /tokens HTTP/1.1\r\nHost: a\r\nAuthorization: Basic ${btoa(`superuser@example.com:${PASSWORD}`)}\r\nContent-Type: ${FORM}\r\nContent-Length: 0\r\n\r\n`, 400],
  ];
  const before = upstream.received.length;
  for (const [name, bytes, status] of rows) await refused(t, name, bytes, status);
  const twice = await post('/tokens', `${LOGIN}&password=x`, `Content-Type: ${FORM}\r\n`);
  t.equal(twice.json.code, 'invalid_request', 'two passwords');
  t.equal(upstream.received.length, before, 'nothing reached the upstream');
}); // prettier-ignore

async function refused(t: T, name: string, bytes: string, status: number): Promise<void> {
  const reply = await exchange(url, bytes);
  t.equal(reply.status, status, name);
  t.match([reply.all('content-type'), reply.json?.msg], [['application/json'], /./], `${name}: in JSON`);
}
