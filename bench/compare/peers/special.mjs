// Latchkey in unusual setups.
import { CORES, missingPackages, runs } from '../../lib/processes.mjs';
import { newKeys } from '../../lib/records.mjs';
import { caddyForwardAuth, forwardAuth, startCaddy } from './caddy.mjs';
import { latchkeyPeer } from './latchkey.mjs';
import { authRequest, nginxAuthRequest, startProxy } from './nginx.mjs';

/** @import { Peer, Place } from '../subjects.mjs' */

/** Number of routes of the peer with many. */
export const ROUTES = 1_000;
const TOKENS = 1_000_000;
/** Number of tokens in use, large enough that no round sees one twice. */
const USED_TOKENS = 200_000;

const routes = Array.from({ length: ROUTES }, (_, index) => ({
  path: `/part${index}/*`,
  action: `part${index}`,
}));
export const manyRoutes = latchkeyPeer('Latchkey, 1,000 routes', { config: { routes } });

/** @type {string[] | undefined} */
let usedKeys;
/** Its store is filled only at its start, because that takes a minute. */
export const millionTokens = {
  name: 'Latchkey, 1e6 tokens',
  checks: true,
  /** Generated on first use. */
  get keys() {
    return (usedKeys ??= newKeys(USED_TOKENS));
  },
  version: () => undefined,
  start: (/** @type {Place} */ place) => {
    const keys = place.keys.concat(millionTokens.keys);
    const store = { more: TOKENS - keys.length };
    return latchkeyPeer('Latchkey, 1e6 tokens', { store }).start({ ...place, keys });
  },
};

export const workers = [1, 2].map((count) => ({
  ...latchkeyPeer(`Latchkey, workers: ${count}`, { config: { workers: count }, parts: { cores: CORES } }),
  onAllCores: true,
}));

const ASKED = { decision: { host: '127.0.0.1', port: 0 } };
const asked = latchkeyPeer('Latchkey, asked', { config: ASKED });

/**
 * @param {Place} place
 * @param {(port: number) => Promise<{ port: number, pid: number, stop: () => Promise<void> }>}
 *   startFront
 */
async function startAsking(place, startFront) {
  const server = await asked.start(place);
  const front = await startFront(/** @type {number} */ (server.decisionPort));
  return {
    ...server,
    port: front.port,
    pids: { proxy: front.pid, asked: server.pid },
    stop: async () => {
      await front.stop();
      await server.stop();
    },
  };
}

/**
 * Other proxies that consult Latchkey's decision port.
 *
 * @type {Peer[]}
 */
export const asking = [
  {
    ...nginxAuthRequest,
    name: 'nginx, auth_request to Latchkey',
    start: (place) =>
      startAsking(place, (port) =>
        startProxy(
          place,
          authRequest(port, '/auth-request', 'proxy_set_header X-Original-Method $request_method; proxy_set_header X-Original-URI $request_uri;'),
        ),
      ),
  },
  {
    ...caddyForwardAuth,
    name: 'Caddy, forward_auth to Latchkey',
    missing: () => missingPackages(() => runs('caddy', 'version'), 'caddy'),
    start: (place) =>
      startAsking(place, (port) =>
        startCaddy(
          { ...place, name: 'caddy-asks' },
          forwardAuth(`127.0.0.1:${port}`, '/forward-auth', place.upstreamPort),
        ),
      ),
  },
]; // prettier-ignore
