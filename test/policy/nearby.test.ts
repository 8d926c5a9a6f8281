import t from 'tap';
import { nearMisses } from '../../src/policy/route.js';
import { Router } from '../../src/policy/routes.js';

const paths = ['/a/:id', '/a/:id/*', '/a/:id/purge_all', '/b', '/*'];
const router = new Router(
  paths.map((path, i) => ({
    path,
    action: 'x',
    ...(path === '/a/:id/purge_all' ? { methods: ['POST'] } : {}),
    position: { path: `routes.${i}`, line: i },
  })),
  { auth: 'deny' },
);

/** Returns near misses as `path: reason`. */
function near(method: string, path: string): string[] {
  const match = router.find(method, path, null);
  if (typeof match === 'string') throw new Error(match);
  return nearMisses(router.routes, match.route, method, path).map(
    ({ route, why }) => `${route.path}: ${why}`,
  );
}

t.test('explains why routes that almost matched did not', async (t) => {
  t.same(near('GET', '/a/1/purge_all'), [
    '/a/:id/purge_all: it accepts only POST',
    '/*: its path is less specific',
    '/a/:id: its path has one segment fewer',
  ]);
  t.same(near('POST', '/a/1/purge-all'), [
    '/*: its path is less specific',
    '/a/:id: its path has one segment fewer',
    '/a/:id/purge_all: it has "purge_all" where the path differs',
  ]);
  t.same(near('GET', '/c'), []);
});
