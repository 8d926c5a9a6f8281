import t from 'tap';
import type { RouteDefinition } from '../../src/policy/route.js';
import { Router } from '../../src/policy/routes.js';
import { forEachRow } from '../helpers/table.js';

const ENDPOINT = { takes: 'session', id: null, othersAction: null, success: 200 } as const;
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

/** The path pattern of the route found, `default`, or `refused`. The router is told nothing is plain. */
function routeOf(method: string, path: string): string {
  const match = router.find(method, path, false);
  if (typeof match === 'string') return 'refused';
  return match.route.readAction === 'api:read' ? 'default' : match.route.path;
}

t.test('the most specific path that takes the method wins', async (t) => {
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
      ['GET', '/SERVICE/S1', 'default'],
      ['GET', '/status', '/status'],
      ['GET', '/status/x', 'default'],
      ['GET', '/__proto__/constructor', 'default'],
    ] as const,
    ([method, path, route]) => t.equal(routeOf(method, path), route, `${method} ${path}`),
  );
});

t.test(
  'an escaped character is the character; the rest of the path is data where a route ends in *',
  async (t) => {
    forEachRow(
      [
        ['POST', '/service/S1/purge%5fall', '/service/:service_id/purge_all'],
        ['POST', '/service/S1/purge_all%20', '/service/:service_id/*'],
        ['GET', '/st%61tus', '/status'],
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

t.test('a path that two upstreams could read as two things is refused', async (t) => {
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
      ['GET', '/a//b'],
      ['GET', '//status'],
      ['GET', '/status/'],
      ['GET', '/status;x'],
      ['GET', '/tokens%2fself'],
      ['GET', '//tokens/self'],
      ['GET', '/tokens/self/'],
      ['GET', '/tokens/abc;x'],
      // Merged, but with its last slash, each of these is under /tokens/*; without that slash it is not.
      ['PURGE', '/%2ftokens%2f'],
      ['PURGE', '/%2Ftokens//'],
    ] as const,
    ([method, path]) => t.equal(routeOf(method, path), 'refused', `${method} ${path}`),
  );
});
