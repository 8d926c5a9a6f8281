// The embedded store with two workers, on a disk of its own if one can be mounted.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { familyOf } from '../lib/proc.mjs';
import { onEnd } from '../lib/processes.mjs';
import { signal } from './program.mjs';

/** @import { Random } from '../fuzz/random.mjs' */
/** @import { Faults } from './faults.mjs' */
/** @import { Program } from './program.mjs' */
/** @typedef {ReturnType<typeof startLmdbStore>} LmdbStore */

export const WORKERS = 2;
const DISK = '96m';
const MIN_FREE = 8 * 1024 * 1024;

/**
 * Mounts the disk and returns the settings for the store.
 *
 * @param {string} folder
 * @returns `settings` of `store`; `disk` is undefined if nothing could be mounted
 */
export function startLmdbStore(folder) {
  const place = join(folder, 'disk');
  mkdirSync(place);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK}`, 'tmpfs', place]).status === 0;
  if (mounted) onEnd(() => void spawnSync('umount', ['-l', place]));
  const path = join(place, 'store');
  return {
    settings: { type: 'lmdb', path, min_free: `${MIN_FREE}B` },
    path,
    disk: mounted ? place : undefined,
    lossless: true,
  };
}

/**
 * Faults of a running server with workers.
 *
 * @param {{ server: Program, store: LmdbStore, random: Random }} what
 * @returns {Faults}
 */
export function lmdbFaults({ server, store, random }) {
  const { disk = '' } = store;
  const pidOfServer = () => /** @type {number} */ (server.pid);
  const pickWorker = () => random.pick(childrenOf(pidOfServer()));
  const killAll = async () => {
    for (const pid of familyOf(pidOfServer())) signal(pid, 'SIGKILL');
    await server.kill();
  };
  return {
    kill: async () => {
      if (random.oneIn(3)) {
        await killAll();
        return { note: { target: 'server' }, heal: () => server.start() };
      }
      signal(pickWorker(), 'SIGKILL');
      return { note: { target: 'worker' }, heal: () => restartIfEnded(server) };
    },
    stop: async () => {
      const pid = pickWorker();
      signal(pid, 'SIGSTOP');
      return { note: { target: 'worker' }, heal: async () => signal(pid, 'SIGCONT') };
    },
    disk: async () => {
      const isFull = random.oneIn(2);
      const { bavail, bsize } = statfsSync(disk);
      const left = isFull ? 0 : MIN_FREE / 2;
      const filler = join(disk, 'filler');
      writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - left)));
      const note = { target: isFull ? 'full' : 'nearly full' };
      return { note, heal: async () => rmSync(filler) };
    },
  };
}

/**
 * Restarts a server that gave up after many kills in a row, as its supervisor would.
 *
 * @param {Program} server
 */
export async function restartIfEnded(server) {
  if (server.exited) await server.start();
}

/** @param {number} pid */
function childrenOf(pid) {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}
