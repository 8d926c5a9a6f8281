import t from 'tap';
import type { RouteDefinition } from '../../src/policy/route.js';
import { readings } from '../../src/domain/path.js';
import { Router } from '../../src/policy/routes.js';
import { forEachRow } from '../helpers/table.js';

const ENDPOINT = {
  credential: 'session',
  acceptsJwt: false,
  id: null,
  foreignRecordAction: null,
  scopeAction: null,
  success: 200,
  writes: false,
} as const;
const ROUTES: RouteDefinition[] = [
  { path: '/tokens/self', methods: ['GET'], endpoint: { ...ENDPOINT, name: 'show_own_token' } },
  { path: '/tokens/:id', methods: ['GET'], endpoint: { ...ENDPOINT, name: 'show_token' } },
  { path: '/tokens/*', auth: 'deny' },
  { path: '/service/:service_id/purge_all', methods: ['POST'], action: 'purge:all', service: 'service_id' },
  { path: '/service/:service_id/purge/*', methods: ['POST'], action: 'purge:select', service: 'service_id' },
  { path: '/purge/*', methods: ['POST'], action: 'purge:select' },
  { path: '/*', methods: ['PURGE'], action: 'purge:select' },
  { path: '/service/:service_id', action: 'service', service: 'service_id' },
  { path: '/service/:service_id/*', action: 'service', service: 'service_id' },
  { path: '/billing', action: 'billing' },
  { path: '/billing/*', action: 'billing' },
  { path: '/status', auth: 'none' },
];
const router = new Router(ROUTES, { action: 'api', upstream: 'api' });

/** Looks up a route for every reading of the path. */
function find(among: Router, method: string, path: string) {
  const ways = readings(path);
  return typeof ways === 'string' ? ways : among.find(method, path, ways);
}

/**
 * Returns the pattern of the matching route, `default`, or `refused`. No path takes the fast lookup
 * for plain paths.
 */
function routeOf(method: string, path: string): string {
  const match = find(router, method, path);
  if (typeof match === 'string') return 'refused';
  return match.route.readAction === 'api:read' ? 'default' : match.route.path;
}

t.test('the most specific path that accepts the method wins', async (t) => {
  forEachRow(
    [
      ['POST', '/service/S1/purge_all', '/service/:service_id/purge_all'],
      ['GET', '/service/S1/purge_all', '/service/:service_id/*'],
      ['POST', '/service/S1/purge/key', '/service/:service_id/purge/*'],
      ['POST', '/service/S1/purge/a/b', '/service/:service_id/purge/*'],
      ['DELETE', '/service/S1/purge/key', '/service/:service_id/*'],
      ['GET', '/service/S1', '/service/:service_id'],
      ['GET', '/service', 'default'],
      ['PURGE', '/anything', '/*'],
      ['PURGE', '/service/S1/x', '/service/:service_id/*'],
      ['GET', '/tokens/self', '/tokens/self'],
      ['GET', '/tokens/abc', '/tokens/:id'],
      ['PUT', '/tokens/abc', '/tokens/*'],
      ['GET', '/tokens/a/b', '/tokens/*'],
      ['GET', '/', 'default'],
      ['GET', '/status', '/status'],
      ['GET', '/status/x', 'default'],
      ['GET', '/__proto__/constructor', 'default'],
    ] as const,
    ([method, path, route]) => t.equal(routeOf(method, path), route, `${method} ${path}`),
  );
});

t.test('a route for GET also matches HEAD, unless a route for the same path names HEAD', async (t) => {
  const routes: RouteDefinition[] = [
    { path: '/open', methods: ['GET'], auth: 'none', action: 'open' },
    { path: '/a/:x', methods: ['GET'], action: 'get' },
    { path: '/a/:x', action: 'any' },
    { path: '/a/*', methods: ['HEAD'], action: 'below' },
    { path: '/b/:x', methods: ['GET', 'POST'], action: 'get' },
    { path: '/b/%3Ay', methods: ['HEAD'], action: 'fixed' },
    { path: '/b/:z', methods: ['HEAD'], action: 'named' },
    { path: '/b%2d/c', methods: ['GET'], action: 'get' },
    { path: '/b-/c', methods: ['HEAD'], action: 'named' },
    { path: '/c/*', methods: ['GET'], action: 'get' },
    { path: '/c/d', methods: ['POST'], action: 'post' },
  ];
  const found = (order: readonly RouteDefinition[], method: string, path: string) => {
    const match = new Router(order, { action: 'default' }).find(method, path, null);
    return typeof match === 'string' ? match : match.route.readAction;
  };
  forEachRow(
    [
      ['HEAD', '/open', 'open:read'],
      ['OPTIONS', '/open', 'default:read'],
      ['HEAD', '/a/1', 'get:read'],
      ['OPTIONS', '/a/1', 'any:read'],
      ['HEAD', '/a/1/2', 'below:read'],
      ['HEAD', '/b/1', 'named:read'],
      ['GET', '/b/1', 'get:read'],
      ['HEAD', '/b-/c', 'named:read'],
      ['HEAD', '/b/:y', 'fixed:read'],
      ['HEAD', '/c/x/y', 'get:read'],
      ['HEAD', '/c/d', 'get:read'],
    ] as const,
    ([method, path, action]) => {
      t.equal(found(routes, method, path), action, `${method} ${path}`);
      t.equal(found(routes.toReversed(), method, path), action, `${method} ${path}, in the other order`);
    },
  );
});

t.test('an escaped ":" or "*" in a route\'s path is literal', async (t) => {
  const router = new Router(
    [
      { path: '/a/%3Aid', auth: 'none' },
      { path: '/b/%2A', auth: 'none' },
    ],
    { action: 'default' },
  );
  const isOpen = (path: string) =>
    (find(router, 'GET', path) as { route: { auth: string } }).route.auth === 'none';
  t.same(['/a/:id', '/b/*'].map(isOpen), [true, true]);
  t.same(['/a/x', '/b/x', '/b/x/y'].map(isOpen), [false, false, false]);
});

t.test(
  'an escaped character in data equals the character; the part matched by a final * is data',
  async (t) => {
    forEachRow(
      [
        ['POST', '/service/S%31/purge_all', '/service/:service_id/purge_all'],
        ['POST', '/service/S1/purge_all%20', '/service/:service_id/*'],
        ['POST', '/purge/http://www.example.com/a', '/purge/*'],
        ['POST', '/service/S1/purge/a%2Fb', '/service/:service_id/purge/*'],
        ['POST', '/service/S1/purge/a%20b', '/service/:service_id/purge/*'],
        ['POST', '/service/S1/purge/http%3A%2F%2Fx', '/service/:service_id/purge/*'],
        ['POST', '/purge/x;y=1', '/purge/*'],
        ['GET', '/billing/', '/billing/*'],
        ['GET', '/service/S1/version//1', '/service/:service_id/*'],
      ] as const,
      ([method, path, route]) => t.equal(routeOf(method, path), route, `${method} ${path}`),
    );
  },
);

t.test('a lookalike character leads to the same rule, or the path is refused', async (t) => {
  const routes: RouteDefinition[] = [
    ...ROUTES,
    { path: '/admin', auth: 'deny' },
    { path: '/admin/*', auth: 'deny' },
    { path: '/caf%C3%A9', action: 'cafe' },
    { path: '/cafe', action: 'plain' },
    { path: '/%C5%81%C3%B3d%C5%BA/:x', action: 'lodz' },
    { path: '/nad%C4%9Bje', action: 'hope' },
    { path: '/nadeje', action: 'other' },
    { path: '/files/*', auth: 'none', strip_prefix: '/files' },
  ];
  const router = new Router(routes, { action: 'api' });
  const found = (method: string, text: string) => {
    const match = find(router, method, encodeURI(text));
    return typeof match === 'string'
      ? 'refused'
      : match.route.readAction === 'api:read'
        ? 'default'
        : match.route.path;
  };
  forEachRow(
    [
      ['GET', '/ａdmin', 'refused'],
      ['GET', '/ａｄｍｉｎ/x', 'refused'],
      ['GET', '/ādmin', 'refused'],
      ['GET', '/adm\u0131n', 'refused'],
      ['GET', '/ad\u0301min', 'refused'],
      ['GET', '/ad\u200bmin', 'refused'],
      ['GET', '/ad\u00admin', 'refused'],
      ['GET', '/admin？x', 'refused'],
      ['GET', '/admin＃x', 'refused'],
      ['GET', '/admin；x', 'refused'],
      ['GET', '/admin／x', 'refused'],
      ['GET', '/x／admin', 'default'],
      ['POST', '/service/S1/purge＿all', 'refused'],
      ['POST', '/service/S1/purge_all？', 'refused'],
      ['GET', '/service/Ｓ1', 'refused'],
      ['GET', '/service/S1／x', 'refused'],
      ['GET', '/toke\u0144s/self', 'refused'],
      ['GET', '/files/／evil.example/', 'refused'],
      ['GET', '/files/；evil', 'refused'],
      ['GET', '/files/なぜ？', '/files/*'],
      ['GET', '/files/a／b', '/files/*'],
      ['POST', '/purge/http://www.example.com/a／b？ｘ', '/purge/*'],
      ['POST', '/purge/http://www.example.com/日本/café', '/purge/*'],
      ['GET', '/日本/ｘ', 'default'],
      ['GET', '/café', '/caf%C3%A9'],
      ['GET', '/cafe', '/cafe'],
      // Another normalization of the same path: some upstreams match it to the route, some do
      // not.
      ['GET', '/cafe\u0301', 'refused'],
      ['GET', '/Łódź/1', '/%C5%81%C3%B3d%C5%BA/:x'],
      ['GET', '/Lódz/1', 'default'],
      ['GET', '/naděje', 'refused'],
      ['GET', '/nadeje', '/nadeje'],
      ['GET', '/service/S1/naděje\u0301', '/service/:service_id/*'],
    ] as const,
    ([method, text, route]) => t.equal(found(method, text), route, `${method} ${text}`),
  );
});

t.test('refuses a path with two readings if their routes differ in anything', async (t) => {
  const cors = { origins: ['https://a.example'], methods: null, headers: [], expose: [], credentials: false, max_age: 0 };
  const plain = { action: 'a' };
  const rows: [string, Partial<RouteDefinition>, Partial<RouteDefinition>, boolean][] = [
    ['nothing', {}, {}, false],
    ['the action', {}, { action: 'b' }, true],
    ['authentication', {}, { auth: 'none' }, true],
    ['the upstream', {}, { upstream: 'other' }, true],
    ['strip_prefix', {}, { strip_prefix: '/x' }, true],
    ['bodies', {}, { body_on_read: 'allow' }, true],
    ['service workers', {}, { service_worker: 'allow' }, true],
    ['CORS', {}, { cors }, true],
    ['the same CORS rules', { cors }, { cors: { ...cors } }, false],
    ['CORS with another origin', { cors }, { cors: { ...cors, origins: ['https://b.example'] } }, true],
    ['whether a header names the service', {}, { service: 'header:X-A' }, true],
    ['which header names it', { service: 'header:X-A' }, { service: 'header:X-B' }, true],
    ['the same header', { service: 'header:X-A' }, { service: 'header:x-a' }, false],
    ['a field of the query', { service: 'query:a' }, { service: 'query:b' }, true],
    ['whether it is a header or a parameter', { service: 'header:a' }, { service: 'query:a' }, true],
    ['whether it is in the path, where it is called like the header', { path: '/x/:y', service: 'y' }, { service: 'header:y', path: '/x/*' }, true],
  ];
  forEachRow(rows, ([what, one, other, refused]) => {
    const among = new Router([{ path: '/x/y', ...plain, ...one }, { path: '/x/y/*', ...plain, ...other }], { action: 'api', upstream: 'api' });
    t.equal(typeof find(among, 'GET', '/x/y/'), refused ? 'string' : 'object', what);
  });
  t.ok(router.names('GET', '/status'));
  t.notOk(router.names('GET', '/'));
}); // prettier-ignore

t.test('an upstream that ignores case reaches the same rule, or the path is refused', async (t) => {
  const routes: RouteDefinition[] = [
    ...ROUTES,
    { path: '/Reports/:id', action: 'report' },
    { path: '/both/:id', action: 'small' },
    { path: '/Both/:id', action: 'capital' },
    { path: '/Both/x/y', action: 'deep' },
    { path: '/caf%C3%A9', action: 'coffee' },
    { path: '/%CE%BF%CE%B4%CE%BF%CF%82', action: 'street' },
    { path: '/%E2%B1%A5', action: 'letter' },
    { path: '/Login', auth: 'none' },
  ];
  const builtIn = [{ path: '/login', methods: ['POST'], endpoint: { ...ENDPOINT, name: 'log_in' } }];
  const among = new Router(routes, { action: 'api', upstream: 'api' }, builtIn);
  forEachRow(
    [
      ['GET', '/billing/X', '/billing/*'],
      ['GET', '/Billing', 'refused'],
      ['GET', '/BILLING/x', 'refused'],
      ['GET', '/%42illing', 'refused'],
      ['GET', '/BILLING/', 'refused'],
      ['GET', '/\uff22illing', 'refused'],
      ['GET', '/Status', 'refused'],
      ['GET', '/Other/Billing', '/'],
      ['POST', '/service/ABC/Purge_all', 'refused'],
      ['GET', '/service/ABC/Purge_all', '/service/:service_id/*'],
      ['POST', '/service/PURGE/purge/Purge_All', '/service/:service_id/purge/*'],
      ['PURGE', '/Images/Logo', '/*'],
      ['PURGE', '/Billing/x', 'refused'],
      ['GET', '/Tokens/self', 'refused'],
      ['POST', '/LOGIN', 'refused'],
      // A path that routes name in two cases is that of the one spelled like it.
      ['POST', '/Login', '/Login'],
      ['GET', '/Both/1', '/Both/:id'],
      ['GET', '/both/1', '/both/:id'],
      ['GET', '/both/x/y', 'refused'],
      ['GET', '/Reports/a', '/Reports/:id'],
      ['GET', '/reports/a', 'refused'],
      ['GET', '/caf\u00e9', '/caf%C3%A9'],
      ['GET', '/CAF\u00e9', 'refused'],
      ['GET', '/caf\u00c9', 'refused'],
      ['GET', '/\u03bf\u03b4\u03bf\u03c2', '/%CE%BF%CE%B4%CE%BF%CF%82'],
      ['GET', '/\u03bf\u03b4\u03bf\u03c3', 'refused'],
      ['GET', '/\u039f\u0394\u039f\u03a3', 'refused'],
      ['GET', '/\u2c65', '/%E2%B1%A5'],
      ['GET', '/\u023a', 'refused'],
      ['GET', '/Caf\u00e8', '/'],
    ] as const,
    ([method, path, wanted]) => {
      const target = encodeURI(path).replace('%2542', '%42');
      const match = find(among, method, target);
      t.equal(typeof match === 'string' ? 'refused' : match.route.path, wanted, `${method} ${path}`);
      if (!/%|\/$/.test(target)) t.same(among.find(method, target, null), match, 'a plain path is not read otherwise');
    },
  );
}); // prettier-ignore

t.test('a path as it was sent is one of its readings', async (t) => {
  const routes: RouteDefinition[] = [
    { path: '/open/*', auth: 'none' },
    { path: '/svc/:sid/purge_all', action: 'purge:all', service: 'sid' },
    { path: '/svc/:sid/*', action: 'svc', service: 'sid' },
    { path: '/a%20b/:x', action: 'spaced' },
    { path: '/%5Bx%5D', action: 'brackets' },
    { path: '/v1/things%3Abatch', action: 'things' },
    { path: '/caf%C3%A9', action: 'coffee' },
    { path: '/users/me', action: 'own' },
    { path: '/users/:id', action: 'user' },
    { path: '/same', action: 'api' },
  ];
  const among = new Router(routes, { action: 'api' });
  forEachRow(
    [
      ['/%6fpen/x', 'refused'],
      ['/%6Fpen/x/', 'refused'],
      ['/open/%78', '/open/*'],
      ['/open/%7ex', '/open/*'],
      ['/svc/S1/pu%72ge_all', 'refused'],
      ['/%73vc/S2/purge_all', 'refused'],
      ['/svc/S%31/purge_all', '/svc/:sid/purge_all'],
      ['/svc/a%20b/purge_all', '/svc/:sid/purge_all'],
      ['/svc/S1/%70urge_all/x', '/svc/:sid/*'],
      ['/a%20b/1', '/a%20b/:x'],
      ['/a%20%62/1', 'refused'],
      ['/A%20b/1', 'refused'],
      ['/[x]', '/%5Bx%5D'],
      ['/%5Bx%5D', '/%5Bx%5D'],
      ['/v1/things:batch', '/v1/things%3Abatch'],
      ['/v1/things%3Abatch', 'refused'],
      ['/caf%C3%A9', '/caf%C3%A9'],
      ['/caf%c3%a9', 'refused'],
      ['/users/%6de', 'refused'],
      ['/users/%6df', '/users/:id'],
      ['/s%61me', '/same'],
      // Flask's patterns do not begin with a slash, aiohttp's parameters have no brace.
      ['/open//x', 'refused'],
      ['/open/%2Fx', 'refused'],
      ['/open/x//y', '/open/*'],
      ['/svc/S1//x', 'refused'],
      ['/svc/S1}/x', 'refused'],
      ['/svc/S1%7D/x', '/svc/:sid/*'],
      ['/open/{x}', '/open/*'],
      ['/x/{y}', '/'],
    ] as const,
    ([path, wanted]) => {
      const match = find(among, 'POST', path);
      t.equal(typeof match === 'string' ? 'refused' : match.route.path, wanted, path);
    },
  );
  t.match(find(among, 'GET', '/a%20%62/1'), /; escape only characters that need it, in upper case$/);
});

t.test('refuses a path that two upstreams could read differently', async (t) => {
  forEachRow(
    [
      ['POST', '//service/S1/purge_all'],
      ['POST', '/service//purge_all'],
      ['POST', '/service/S1//purge_all'],
      ['POST', '/service/S1/purge_all/'],
      ['POST', '/service/S1/purge_all;x'],
      ['POST', '/service/S1;x/purge_all'],
      ['GET', '/service/S1;x/version'],
      ['GET', '/service/S1%2fversion'],
      ['POST', '/service/S1/purge%2fkey'],
      ['POST', '/service/S1/purge_all;%2fx'],
      ['GET', '/billing%2finvoices'],
      ['GET', '/billing;x/invoices'],
      ['GET', '/billing%3bx/invoices'],
      // Fastify 4 ends the path at the first ";", so it serves /status and the purge of everything.
      ['GET', '/status;/x'],
      ['POST', '/service/S1/purge_all;/x'],
      ['POST', '/service/S1/purge_all;a/b;c'],
      // Apache with PHP-FPM, and whoever decodes first, ends it at an encoded "?" or "#".
      ['GET', '/billing%3Fx'],
      ['GET', '/status%3fx/y'],
      ['GET', '/status%23'],
      ['POST', '/service/S1/purge_all%3F.php'],
      ['GET', '/service/S1%3F'],
      ['GET', '/x/..%3Fa'],
      ['GET', '//status'],
      ['GET', '/status/'],
      ['GET', '/status;x'],
      ['GET', '/tokens%2fself'],
      ['GET', '//tokens/self'],
      ['GET', '/tokens/self/'],
      ['GET', '/tokens/abc;x'],
      ['PURGE', '/%2ftokens%2f'],
      ['PURGE', '/%2Ftokens//'],
    ] as const,
    ([method, path]) => t.equal(routeOf(method, path), 'refused', `${method} ${path}`),
  );
});
