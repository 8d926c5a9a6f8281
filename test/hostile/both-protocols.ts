import type { Http2Server } from 'node:http2';
import type { Test } from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { type Fixture, startFixture } from '../helpers/fixture.js';
import { listenOnLoopback } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';

/**
 * Starts a server without TLS and one with it, each in front of an upstream of HTTP/1.1, and of one
 * of HTTP/2 for paths that begin with `/two/`.
 *
 * @param one base URL of the first upstream
 * @param two the second upstream, which is closed when the test ends
 * @param connections maximum connections to the first one: few, so that requests wait for them
 */
export async function startBoth(
  t: Pick<Test, 'teardown'>,
  one: string,
  two: Http2Server,
  connections: number,
): Promise<{ plain: Fixture; overTls: Fixture }> {
  const url = await listenOnLoopback(two);
  t.teardown(() => two.close());
  const tls = selfSigned(temporaryFolder(t), 'a.example');
  const settings = {
    upstream: undefined,
    upstreams: {
      one: { url: one, max_connections: connections },
      two: { url, protocol: 'h2c' },
    },
    routes: [{ path: '/two/*', auth: 'none', upstream: 'two' }],
    default_route: { auth: 'none', upstream: 'one' },
  };
  return {
    plain: await startFixture(t, settings),
    overTls: await startFixture(t, { ...settings, listen: { host: '127.0.0.1', port: 0, tls } }),
  };
}
