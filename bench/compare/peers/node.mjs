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

/**
 * @param {string} name
 * @param {string} server
 * @param {string} packageName
 * @param {boolean} checks
 * @returns {import('../subjects.mjs').Peer}
 */
const nodePeer = (name, server, packageName, checks) => ({
  name,
  checks,
  version: () => versionOf(packageName),
  start: async (place) => {
    const { port, pid, stop } = await startServer(server, place, [place.upstreamPort, place.keysFile]);
    return { port, pids: { proxy: pid }, stop };
  },
});

export const bareUndici = nodePeer('bare undici', 'bare-undici', 'undici', false);
export const httpProxy = nodePeer('http-proxy', 'http-proxy', 'http-proxy', true);
export const fastify = nodePeer('@fastify/http-proxy', 'fastify', '@fastify/http-proxy', true);
export const fastProxy = nodePeer('fast-proxy', 'fast-proxy', 'fast-proxy', true);

/** @type {import('../subjects.mjs').Peer} */
export const tcpPipe = {
  name: 'bare TCP pipe',
  checks: false,
  version: () => undefined,
  start: async (place) => {
    const { port, pid, stop } = await startServer('tcp-pipe', place, [place.upstreamPort]);
    return { port, pids: { proxy: pid }, stop };
  },
};

/** @type {import('../subjects.mjs').Peer} */
export const bareCheck = {
  name: 'bare check',
  checks: true,
  version: () => undefined,
  start: async (place) => {
    const args = [place.upstreamPort, place.keysFile, place.folder];
    const { port, pid, stop } = await startServer('bare-check', place, args);
    return { port, pids: { proxy: pid }, stop };
  },
};
