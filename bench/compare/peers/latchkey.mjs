// Latchkey itself, on this version of Node and on others.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { startLatchkey } from '../../lib/latchkey.mjs';
import { fillStore } from '../../lib/records.mjs';

const require = createRequire(import.meta.url);
const version = () =>
  JSON.parse(readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8')).version;
let count = 0;

/**
 * Creates a peer for Latchkey with some settings, on some version of Node.
 *
 * @param {string} name
 * @param {{ node?: () => string, config?: object, store?: Parameters<typeof fillStore>[1], parts?:
 *   { cores: number[] } }} more
 *   `store` is further content of the store
 */
export const latchkeyPeer = (name, { node, config, store = {}, parts } = {}) => ({
  name,
  checks: true,
  version,
  start: async (/** @type {import('../subjects.mjs').Place} */ place) => {
    const { folder, cores, upstreamPort, keys, limitedKeys, sessionIds, passwordHash, progress } = place;
    const server = await startLatchkey({
      folder,
      name: `latchkey-${count++}`,
      cores: parts?.cores ?? cores,
      upstreamPort,
      fill: (path) => fillStore(path, { keys, limitedKeys, sessionIds, passwordHash, ...store }, progress),
      node: node?.(),
      config,
    });
    return Object.assign(server, { pids: { proxy: server.pid } });
  },
});

/**
 * Returns the path of a Node version in bench/package.json.
 *
 * @param {number} major
 */
const nodeOf = (major) => () => join(require.resolve(`node${major}/package.json`), '../bin/node');

export const latchkey = latchkeyPeer('Latchkey');
/** @param {number} major */
export const latchkeyOn = (major) => latchkeyPeer(`Latchkey, Node ${major}`, { node: nodeOf(major) });
