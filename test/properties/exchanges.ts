import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';

/*
 * Random configurations and requests. In a request, `<name>` stands for a secret that exists only
 * once its server does.
 */

const maybe = <T>(...values: T[]) => fc.constantFrom(undefined, undefined, ...values);
const CORS = {
  origins: ['https://app.example'],
  headers: ['Service-Key', 'X-Svc'],
  expose: ['X-Request-Id'],
  credentials: true,
};
const extras = fc.record({
  body_on_read: maybe('allow'),
  service_worker: maybe('allow'),
  on_unauthenticated: maybe('login'),
  cors: maybe<unknown>(CORS, false, { origins: '*', methods: ['POST'] }),
});

interface RouteShape {
  readonly path: string;
  readonly methods?: readonly string[];
}

const ROUTES: readonly (RouteShape & Record<string, unknown>)[] = [
  { path: '/open', auth: 'none' },
  { path: '/open/*', auth: 'none', strip_prefix: '/open' },
  { path: '/service/:service_id', action: 'service', service: 'service_id' },
  { path: '/service/:service_id/*', action: 'service', service: 'service_id', strip_prefix: '/service' },
  { path: '/service/:service_id/purge', methods: ['POST'], action: 'purge:select', service: 'service_id' },
  { path: '/by-field', action: 'service', service: 'header:X-Svc' },
  { path: '/by-query', action: 'service', service: 'query:svc' },
  { path: '/hidden', auth: 'deny' },
  { path: '/users/:id', methods: ['DELETE'], action: 'user', refuse_if_active_tokens: 'id' },
  { path: '/users/:id', action: 'user' },
  { path: '/bill', action: 'billing' },
  { path: '/bill', methods: ['POST'], auth: 'none' },
  { path: '/h2', action: 'x', upstream: 'h2' },
  { path: '/h2', methods: ['GET'], action: 'x' },
  { path: '/', action: 'home' },
  { path: '/*', methods: ['PURGE'], action: 'purge:select' },
];
const route = fc.tuple(fc.constantFrom(...ROUTES), extras).map(([shape, { body_on_read, ...more }]) => ({
  ...shape,
  ...more,
  ...(shape.methods?.includes('GET') === false ? {} : { body_on_read }),
}));
const assertion = { enabled: true, issuer: 'https://latchkey.example', audience: 'api' };
const parts = fc.record({
  routes: fc.uniqueArray(route, {
    maxLength: 9,
    selector: ({ path, methods }) => `${path} ${String(methods)}`,
  }),
  default_route: fc.record({
    action: fc.constantFrom('api', 'billing'),
    auth: fc.constantFrom('required', 'required', 'required', 'none', 'deny'),
    upstream: fc.constant('api'),
    body_on_read: maybe('allow'),
    on_unauthenticated: maybe('login'),
    cors: maybe(CORS),
  }),
  interface: fc.record({
    session_cookie: fc.constantFrom(null, null, 'sid', '__Host-session'),
    token_endpoints: fc.constantFrom('session', 'session_or_token'),
    bearer: fc.boolean(),
    account_endpoints: fc.boolean(),
    ui: fc.constantFrom({}, {}, { enabled: false }, { host: 'page.example' }),
  }),
  identity: fc.record({
    preset: fc.constantFrom('latchkey', 'latchkey', 'oauth2-proxy', 'kong', 'remote-user'),
    forward_credentials: fc.boolean(),
    assertion: fc.constantFrom({}, assertion, { ...assertion, bind: 'request' }),
  }),
  limits: fc.constantFrom({}, {}, { rate: '100000/1h' }, { addresses: ['203.0.113.0/24', '127.0.0.0/8'] }),
  trusted: fc.boolean(),
  warns: fc.boolean(),
  writes: fc.constantFrom(null, 100_000),
  jwt: fc.boolean(),
  cors: maybe(CORS),
});

/** Random configurations. @param issuer of JWTs, for some of them */
export function configs(issuer: object): Arbitrary<object> {
  return parts.map(({ trusted, limits, warns, writes, jwt, ...sections }) => {
    // Browsers cannot be sent to a page that is off, or on another host.
    const hasPage = Object.keys(sections.interface.ui).length === 0;
    const left = (name: string, value: unknown) =>
      name === 'on_unauthenticated' && !hasPage ? undefined : value;
    return {
      ...(JSON.parse(JSON.stringify(sections, left)) as object),
      upstream: undefined,
      upstreams: {
        api: { url: 'http://127.0.0.1:1/base' },
        h2: { url: 'http://127.0.0.1:1', protocol: 'h2c' },
      },
      listen: { host: '127.0.0.1', port: 0, trusted_proxies: trusted ? ['127.0.0.1'] : [] },
      tokens: { limits, ...(warns ? { warn_before: '30d' } : {}) },
      rate_limit: { writes_per_hour: writes },
      jwt_issuers: jwt ? [issuer] : [],
    };
  });
}

/** The tokens of a server: parameters of their creation, for the user of their owner. */
export const TOKENS: Readonly<Record<string, readonly [user: string, params?: Record<string, string>]>> = {
  good: ['superuser'],
  limited: ['superuser', { service_id: 'SVC1' }],
  reader: ['superuser', { scope: 'global:read' }],
  purger: ['superuser', { scope: 'purge_select', service_id: 'SVC1' }],
  local: ['superuser', { addresses: '127.0.0.1' }],
  away: ['superuser', { addresses: '203.0.113.9' }],
  soon: ['superuser', { expires_at: new Date(Date.now() + 86_400_000).toISOString() }],
  engineer: ['engineer'],
};

type Field = readonly [name: string, value: string];

const names = Object.keys(TOKENS).map((name) => `<${name}>`);
const key = fc.constantFrom(...names, '<good>', '<good>', 'bad', '', 'my-old/key 1:2', '<jwt>');
const AUTHORIZATIONS = [
  'Bearer <good>', 'bearer  <limited>', 'Bearer <jwt>', 'Bearer <foreign>', 'Bearer <strange>', 'Bearer bad', 'Basic dTpw', 'Digest a=<good>',
]; // prettier-ignore
const COOKIES = [
  '<cookie>', '<cookie>', 'a=b; <cookie>', '<cookie>; <cookie>', 'a=b', 'x<cookie>', 'latchkey-login-a=x; a=b', '',
]; // prettier-ignore
const credential: Arbitrary<Field> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(fc.constantFrom('service-key', 'service-key', 'service_key'), key) },
  {
    weight: 3,
    arbitrary: fc.tuple(fc.constant('authorization'), fc.constantFrom(...AUTHORIZATIONS)),
  },
  { weight: 3, arbitrary: fc.tuple(fc.constant('cookie'), fc.constantFrom(...COOKIES)) },
);
const usual = fc.constantFrom<readonly Field[]>(
  [['service-key', '<good>']],
  [['cookie', '<cookie>']],
  [['authorization', 'Bearer <good>']],
  [['service-key', '<limited>']],
);

const VALUES: Readonly<Record<string, readonly string[]>> = {
  'content-type': ['application/json', 'x', 'application/grpc'],
  origin: ['https://app.example', 'http://api.example', 'null', 'https://evil.example'],
  'sec-fetch-site': ['same-origin', 'cross-site', 'none', 'same-site'],
  'sec-fetch-dest': ['serviceworker', 'document', 'empty'],
  'sec-fetch-mode': ['navigate', 'cors'],
  'service-worker': ['script'],
  accept: ['text/html', 'text/html, application/json', '*/*'],
  'x-requested-with': ['XMLHttpRequest'],
  'access-control-request-method': ['GET', 'POST', 'DELETE', 'FOO'],
  'access-control-request-headers': ['service-key', 'x-other'],
  'user-agent': ['agent', '', 'a, b'],
  expect: ['100-continue', '100-Continue', 'x'],
  upgrade: ['h2c', 'websocket', 'WebSocket', 'websocket, h2c'],
  connection: ['a b', '', 'close', 'keep-alive', 'x-svc', 'Upgrade', 'x-auth-role', 'service-key', 'cookie, x-request-id'],
  te: ['trailers'],
  trailer: ['x-auth-role'],
  'keep-alive': ['timeout=5'],
  'proxy-connection': ['keep-alive'],
  'content-length': ['3', '0', '03', '+3', '3, 3', 'x', ''],
  'transfer-encoding': ['chunked', 'Chunked', 'gzip, chunked', ''],
  'x-svc': ['SVC1', 'SVC2', 'SVC1,SVC2', ''],
  x_svc: ['SVC2'],
  'x-auth-role': ['superuser'],
  x_auth_role: ['superuser'],
  'x-auth-services': ['SVC2'],
  'x-auth-assertion': ['x'],
  'remote-user': ['root'],
  'x-consumer-id': ['1'],
  'x-forwarded-user': ['root'],
  'x-forwarded-for': ['203.0.113.9', '203.0.113.9, 127.0.0.1', 'unknown', ''],
  'x-forwarded-proto': ['https', 'http', 'wss', 'x'],
  'x-forwarded-host': ['api.example', 'page.example', 'a b'],
  'x-forwarded-other': ['x'],
  'x-http-method-override': ['DELETE'],
  'x-original-url': ['/open'],
  x_original_url: ['/open'],
  'x-request-id': ['mine'],
  forwarded: ['for=1.2.3.4'],
  traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'x'],
  'service-otp': ['123456'],
  'sec-websocket-key': ['dGhlIHNhbXBsZSBub25jZQ=='],
  'sec-websocket-version': ['13'],
  'x-note': ['a\tb', 'a\u0001b', '\u00c3\u00a9', 'padded ', 'a'.repeat(9_000)],
  'x y': ['a'],
  'x(y)': ['a'],
  host: ['page.example', 'PAGE.example', 'api.example:80', 'a b', '[::1]:9', ''],
}; // prettier-ignore
const field = fc.constantFrom(
  ...Object.entries(VALUES).flatMap(([name, values]) => values.map((value): Field => [name, value])),
);

/** Fields that a page makes its browser send together. */
const page = fc.constantFrom<readonly Field[]>(
  [],
  [],
  [],
  [['accept', 'text/html']],
  [['accept', 'text/html'], ['sec-fetch-mode', 'navigate'], ['sec-fetch-dest', 'document']],
  [['origin', 'https://app.example'], ['access-control-request-method', 'GET']],
  [['origin', 'https://app.example'], ['access-control-request-method', 'POST'], ['access-control-request-headers', 'service-key']],
  [['origin', 'https://evil.example'], ['access-control-request-method', 'GET']],
  [['origin', 'https://app.example']],
  [['origin', 'http://api.example']],
); // prettier-ignore

const USUAL = [
  '/open',
  '/x',
  '/x?a=b',
  '/',
  '/service/SVC1',
  '/service/SVC2',
  '/by-field',
  '/by-query?svc=SVC1',
  '/users/superuser',
  '/bill',
  '/h2',
  '/service/SVC1/purge',
];
const UNUSUAL = [
  '/open/a', '/open/', '/service/SVC1/a/', '/service/SVC1%2Fpurge', '/service//x', '/by-query', '/by-query?svc=SVC2', '/by-query?svc=SVC1&svc[]=SVC2',
  '/by-query?svc=%53VC1', '/by-query?a;svc=SVC1', '/hidden', '/users/billing', '/bill/', '/tokens', '/tokens/self', '/tokens/nothing', '/tokens/', '/login',
  '/current_user', '/customer/C1/tokens', '/customer/C2/tokens', '/_latchkey/', '/_latchkey/x', '/.well-known/jwks.json', '/interface', '//x', '/a/../open', '/open/..', '/%6fpen',
  '/a%2fb', '/%2e', '/a#b', '/a%00', '/caf%C3%A9', '/%EF%BD%8Fpen', '/open;x', '/*', '*', '/a b', '/\u00c3\u00a9', '/x?\u00e9', '/x?a=<', '/x"y', '/[x]', '/x|y', `/${'a'.repeat(8_300)}`,
]; // prettier-ignore

export const requests = fc
  .record({
    method: fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'OPTIONS', 'DELETE', 'TRACE', 'PURGE'),
    target: fc.oneof(fc.constantFrom(...USUAL), fc.constantFrom(...UNUSUAL)),
    credentials: fc.oneof({ weight: 2, arbitrary: usual }, { weight: 1, arbitrary: fc.array(credential, { maxLength: 2 }) }),
    page,
    others: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 3, arbitrary: fc.array(field, { minLength: 1, maxLength: 2 }) }),
    body: fc.constantFrom(undefined, undefined, undefined, 'length' as const, 'chunked' as const),
    /** Whether it is a WebSocket handshake. */
    upgrades: fc.constantFrom(false, false, false, true),
    /** Whether names are in lower case. */
    lower: fc.boolean(),
  })
  // It would end the credential of later requests.
  .filter(({ method, target }) => method !== 'DELETE' || target !== '/tokens/self'); // prettier-ignore

export type Asked = typeof requests extends Arbitrary<infer T> ? T : never;
