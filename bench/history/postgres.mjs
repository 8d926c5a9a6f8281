// One PostgreSQL server, as an administrator runs it: with fsync.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { freePort } from '../../test/helpers/free-port.mjs';
import { hasPostgres, preparePostgres, signalPostgres } from '../../test/helpers/postgres-server.mjs';
import { CORES, missingPackages, onEnd, startPinned, temporaryFolder, until } from '../lib/processes.mjs';
import { Program } from './program.mjs';

/** @import { Faults } from './faults.mjs' */

/** Starts the server. */
export async function startPostgresStore() {
  const missing = missingPackages(hasPostgres, 'postgresql');
  if (missing !== undefined) throw new Error(`PostgreSQL is missing: ${missing}`);
  const folder = temporaryFolder('postgres');
  const port = await freePort();
  const { program, args, cwd, url } = preparePostgres(folder, port, []);
  const isReady = () => spawnSync('pg_isready', ['-q', '-h', '127.0.0.1', '-p', String(port)]).status === 0;
  const server = new Program('postgres', async () => {
    const started = startPinned({ program, args, cores: CORES, log: join(folder, 'log'), cwd });
    await until(started, 'PostgreSQL', isReady);
    return started;
  });
  await server.start();
  onEnd(() => signalAll(server, 'SIGKILL'));
  return { settings: { type: 'postgres', url }, server, lossless: true };
}

/**
 * @param {{ server: Program }} store
 * @returns {Faults}
 */
export function postgresFaults({ server }) {
  const note = { target: server.name, gone: true };
  const heal = () => server.start();
  return {
    kill: async () => {
      signalAll(server, 'SIGKILL');
      await server.kill();
      return { note, heal };
    },
    stop: async () => {
      signalAll(server, 'SIGSTOP');
      return { note, heal: async () => signalAll(server, 'SIGCONT') };
    },
    restart: async () => {
      // Ends all connections, and waits for none.
      server.signal('SIGINT');
      await server.started?.stop();
      return { note, heal };
    },
  };
}

/**
 * @param {Program} server
 * @param {NodeJS.Signals} name
 */
function signalAll({ pid, exited }, name) {
  if (pid !== undefined && !exited) signalPostgres(pid, name);
}
