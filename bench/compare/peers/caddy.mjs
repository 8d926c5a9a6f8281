// Caddy with a matcher for the key's header, and with forward_auth.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../../test/helpers/free-port.mjs';
import { missingPackages, runs, startPinned, untilListening } from '../../lib/processes.mjs';
import { startServer } from './node.mjs';

/** @import { Peer } from '../subjects.mjs' */

/** @param {number} port */
const upstream = (port) => `reverse_proxy 127.0.0.1:${port} {
		transport http {
			keepalive_idle_conns_per_host 256
		}
	}`;

/**
 * Starts Caddy with the directives of its one site.
 *
 * @param {{ folder: string, cores: number[], name: string, scheme?: 'http' | 'https' }} what
 * @param {string} site its directives
 */
export async function startCaddy({ folder, cores, name, scheme = 'http' }, site) {
  const port = await freePort();
  const own = join(folder, `${name.replaceAll(/\W/g, '-')}-${port}`);
  mkdirSync(own);
  const file = join(own, 'Caddyfile');
  writeFileSync(
    file,
    `{\n\tadmin off\n\tauto_https off\n}\n${scheme}://:${port} {\n\tbind 127.0.0.1\n${site}\n}\n`,
  );
  const env = { XDG_DATA_HOME: own, XDG_CONFIG_HOME: own, HOME: own, GOMAXPROCS: String(cores.length) };
  const args = ['run', '--config', file, '--adapter', 'caddyfile'];
  const started = startPinned({ program: 'caddy', args, cores, log: join(own, 'output.log'), env });
  await untilListening(started, port, name);
  return { ...started, port };
}

/**
 * @param {string} name
 * @param {Peer['start']} start
 */
const caddyPeer = (name, start) => ({
  name,
  checks: true,
  missing: () => missingPackages(() => runs('caddy', 'version'), 'caddy'),
  version: () => spawnSync('caddy', ['version']).stdout.toString().trim().split(' ')[0],
  start,
});

/**
 * Checks for the first key, and proxies the request.
 *
 * @param {import('../subjects.mjs').Place} place
 */
export const headerMatcher = ({ keys, upstreamPort }) => `	@known header Service-Key ${keys[0]}
	handle @known {
		${upstream(upstreamPort)}
	}
	respond 401`;

/** Its header matcher compares one value after another, so it gets only the first key. */
export const caddyMatcher = {
  ...caddyPeer('Caddy, header matcher', async (place) => {
    const { port, pid, stop } = await startCaddy({ ...place, name: 'caddy' }, headerMatcher(place));
    return { port, pids: { proxy: pid }, stop };
  }),
  oneKey: true,
};

/**
 * Directives to consult a service at an address before Caddy forwards.
 *
 * @param {string} address
 * @param {string} path
 * @param {number} upstreamPort
 */
export const forwardAuth = (address, path, upstreamPort) => `	forward_auth ${address} {
		uri ${path}
		copy_headers X-Auth-User-Id
		transport http {
			keepalive_idle_conns_per_host 256
		}
	}
	${upstream(upstreamPort)}`;

export const caddyForwardAuth = caddyPeer('Caddy, forward_auth', async (place) => {
  const asked = await startServer('asked', place, [place.keysFile]);
  const site = forwardAuth(`127.0.0.1:${asked.port}`, '/', place.upstreamPort);
  const { port, pid, stop } = await startCaddy({ ...place, name: 'caddy-forward-auth' }, site);
  return {
    port,
    pids: { proxy: pid, asked: asked.pid },
    stop: async () => {
      await stop();
      await asked.stop();
    },
  };
});
