// A PostgreSQL server with a synchronous standby, as an administrator runs them: with fsync. Clients reach
// whichever of them is the primary through one front.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../test/helpers/free-port.mjs';
import {
  hasPostgres,
  copyPostgres,
  preparePostgres,
  signalPostgres,
} from '../../test/helpers/postgres-server.mjs';
import { CORES, missingPackages, onEnd, startPinned, temporaryFolder, until } from '../lib/processes.mjs';
import { Program } from './program.mjs';

/** @import { Faults } from './faults.mjs' */
/** @typedef {Program & { folder: string, port: number, url: string }} Server */
/** @typedef {{ primary: Server, standby: Server }} Pair */

/** Starts both servers. */
export async function startPostgresStore() {
  const missing = missingPackages(hasPostgres, 'postgresql');
  if (missing !== undefined) throw new Error(`PostgreSQL is missing: ${missing}`);
  const folder = temporaryFolder('postgres');
  chmodSync(folder, 0o755);
  const pair = { primary: await prepareServer(folder, 'postgres-0'), standby: await prepareServer(folder, 'postgres-1') };
  onEnd(() => Object.values(pair).forEach((server) => signalAll(server, 'SIGKILL')));
  await pair.primary.start();
  await attach(pair);
  const front = await freePort();
  const listener = createServer((near) => forward(near, pair.primary.port));
  listener.listen(front, '127.0.0.1');
  onEnd(() => listener.close());
  const url = pair.primary.url.replace(String(pair.primary.port), String(front));
  return { settings: { type: 'postgres', url }, pair, lossless: true };
} // prettier-ignore

/**
 * @param {{ pair: Pair }} store
 * @returns {Faults}
 */
export function postgresFaults({ pair }) {
  const note = () => ({ target: pair.primary.name, gone: true });
  const heal = () => pair.primary.start();
  return {
    kill: async () => {
      await kill(pair.primary);
      return { note: note(), heal };
    },
    stop: async () => {
      const { primary } = pair;
      signalAll(primary, 'SIGSTOP');
      return { note: note(), heal: async () => signalAll(primary, 'SIGCONT') };
    },
    restart: async () => {
      // Ends all connections, and waits for none.
      pair.primary.signal('SIGINT');
      await pair.primary.started?.stop();
      return { note: note(), heal };
    },
    failover: async () => {
      await untilSynchronous(pair.primary);
      const failed = note();
      await kill(pair.primary);
      [pair.primary, pair.standby] = [pair.standby, pair.primary];
      await ask(pair.primary, 'SELECT pg_promote()');
      await waitForStandby(pair.primary, false);
      return { note: failed, heal: () => attach(pair) };
    },
  };
}

/**
 * @param {string} parent
 * @param {string} name
 * @returns {Promise<Server>}
 */
async function prepareServer(parent, name) {
  const [folder, port] = [join(parent, name), await freePort()];
  mkdirSync(folder, { mode: 0o755 });
  const { program, args, cwd, url } = preparePostgres(folder, port, ['wal_retrieve_retry_interval=200ms']);
  const isReady = () => spawnSync('pg_isready', ['-q', '-h', '127.0.0.1', '-p', String(port)]).status === 0;
  const server = new Program(name, async () => {
    const started = startPinned({ program, args, cores: CORES, log: join(folder, 'log'), cwd });
    await until(started, 'PostgreSQL', isReady);
    return started;
  });
  return Object.assign(server, { folder, port, url });
}

/**
 * Makes the standby a copy of the primary, and lets commits wait for it.
 *
 * @param {Pair} pair
 */
async function attach({ primary, standby }) {
  rmSync(join(standby.folder, 'data'), { recursive: true, force: true });
  copyPostgres(standby.folder, primary.port);
  await standby.start();
  await waitForStandby(primary, true);
  await untilSynchronous(primary);
}

/**
 * Sets whether the commits of a server wait for its standby.
 *
 * @param {Server} server
 * @param {boolean} waits
 */
async function waitForStandby(server, waits) {
  await ask(server, `ALTER SYSTEM SET synchronous_standby_names = '${waits ? '*' : ''}'`);
  await ask(server, 'SELECT pg_reload_conf()');
}

/** @param {Server} server */
async function untilSynchronous(server) {
  for (const limit = Date.now() + 30_000; Date.now() < limit;) {
    const { rows } = await ask(server, "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'");
    if (rows.length > 0) return;
  }
  throw new Error(`${server.name} has no synchronous standby after 30 s`);
}

/**
 * @param {Server} server
 * @param {string} statement
 */
async function ask({ url }, statement) {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await client.query(statement);
  } finally {
    await client.end();
  }
}

/**
 * @param {import('node:net').Socket} near
 * @param {number} port
 */
function forward(near, port) {
  const far = connect(port, '127.0.0.1');
  for (const [one, other] of [[near, far], [far, near]]) {
    one.setNoDelay(true);
    one.on('error', () => undefined).once('close', () => other.destroy());
    one.pipe(other);
  }
} // prettier-ignore

/** @param {Server} server */
async function kill(server) {
  signalAll(server, 'SIGKILL');
  await server.kill();
}

/**
 * @param {Program} server
 * @param {NodeJS.Signals} name
 */
function signalAll({ pid, exited }, name) {
  if (pid !== undefined && !exited) signalPostgres(pid, name);
}
