// Peers that are Node programs in servers/.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { freePort } from '../../../test/helpers/free-port.mjs';
import { startPinned, untilListening } from '../../lib/processes.mjs';

const SERVERS = join(import.meta.dirname, '../servers');
const require = createRequire(import.meta.url);

/**
 * Returns the version of a package in bench/.
 *
 * @param {string} name
 */
function versionOf(name) {
  const file = (require.resolve.paths(name) ?? []).map((folder) => join(folder, name, 'package.json'));
  for (const each of file) {
    try {
      return JSON.parse(readFileSync(each, 'utf8')).version;
    } catch {
      // The next folder up may contain it.
    }
  }
  return 'unknown';
}

/**
 * Starts a program in servers/ with a free port in front of its other arguments.
 *
 * @param {string} name
 * @param {{ folder: string, cores: number[], node?: string }} place
 * @param {(string | number)[]} args
 */
export async function startServer(name, { folder, cores, node = process.execPath }, args) {
  const port = await freePort();
  const started = startPinned({
    program: node,
    args: [join(SERVERS, `${name}.mjs`), String(port), ...args.map(String)],
    cores,
    log: join(folder, `${name}-${port}.log`),
    env: { NODE_ENV: 'production', NODE_NO_WARNINGS: '1' },
  });
  await untilListening(started, port, name);
  return { ...started, port };
}

/** @param {import('../subjects.mjs').Place} place */
const withKeys = ({ upstreamPort, keysFile, folder }) => [upstreamPort, keysFile, folder];

/**
 * @param {string} name
 * @param {string} server
 * @param {{ checks?: boolean, packageName?: string, args?: (place:
 *   import('../subjects.mjs').Place) => (string | number)[] }} more `args` of the server, after its
 *   port
 * @returns {import('../subjects.mjs').Peer}
 */
export const nodePeer = (name, server, { checks = false, packageName, args = withKeys }) => ({
  name,
  checks,
  version: () => (packageName === undefined ? undefined : versionOf(packageName)),
  start: async (place) => {
    const started = await startServer(server, place, args(place));
    return Object.assign(started, { pids: { proxy: started.pid } });
  },
});

export const tcpPipe = nodePeer('bare TCP pipe', 'tcp-pipe', { args: ({ upstreamPort }) => [upstreamPort] });
export const bareCheck = nodePeer('bare check', 'bare-check', { checks: true });
export const bareUndici = nodePeer('bare undici', 'bare-undici', { packageName: 'undici' });
export const httpProxy = nodePeer('http-proxy', 'http-proxy', { checks: true, packageName: 'http-proxy' });
export const fastify = nodePeer('@fastify/http-proxy', 'fastify', {
  checks: true,
  packageName: '@fastify/http-proxy',
});
export const fastProxy = nodePeer('fast-proxy', 'fast-proxy', { checks: true, packageName: 'fast-proxy' });
