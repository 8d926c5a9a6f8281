import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import type { PostgresSettings } from '../../src/store/postgres/client.js';
import { needPackages, runs } from './debian.js';
import { freePort } from './free-port.mjs';
import { hasPostgres, preparePostgres, signalPostgres } from './postgres-server.mjs';
import { refuseSecretsBelow } from './secrets.js';
import { until } from './until.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** A PostgreSQL server in its own process. */
export interface PostgresServer {
  readonly port: number;
  readonly url: string;
  /** Runs statements and returns the rows of a single one. */
  readonly sql: (text: string) => Promise<unknown[][]>;
  /** Sends a signal to all of its processes. */
  readonly signal: (signal: NodeJS.Signals) => void;
  readonly kill: () => Promise<void>;
  /** Restarts it on the same port and folder. */
  readonly restart: () => Promise<void>;
}

/** Starts PostgreSQL on a free loopback port; it ends with the test. */
export async function startPostgres(t: Test, ...options: string[]): Promise<PostgresServer> {
  needPackages(hasPostgres, 'postgresql');
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-postgres-'));
  const port = await freePort();
  const { program, args, cwd, url } = preparePostgres(folder, port, [
    'fsync=off',
    'autovacuum=off',
    ...options,
  ]);
  const log = openSync(join(folder, 'log'), 'a');
  const run = () => spawn(program, args, { cwd, stdio: ['ignore', log, log] });
  let child = run();
  const sql = async (text: string) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query<unknown[]>({ text, rowMode: 'array' })).rows;
    } finally {
      await client.end();
    }
  };
  const kill = async () => end(child, () => signalPostgres(child.pid ?? 0, 'SIGKILL'));
  t.teardown(async () => {
    signalPostgres(child.pid ?? 0, 'SIGCONT');
    await end(child, () => void child.kill('SIGINT'));
    closeSync(log);
    try {
      refuseSecretsBelow(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
  const isReady = async () => sql('SELECT').then(() => true, () => false); // prettier-ignore
  await until(isReady, 'PostgreSQL answers');
  return {
    port,
    url,
    sql,
    signal: (signal) => signalPostgres(child.pid ?? 0, signal),
    kill,
    restart: async () => {
      child = run();
      await until(isReady, 'PostgreSQL answers');
    },
  };
}

/** Starts pgbouncer in transaction mode in front of a server, and returns the URL of the database. */
export async function startPooler(t: Test, { port: far }: Pick<PostgresServer, 'port'>): Promise<string> {
  needPackages(() => runs('pgbouncer', '--version'), 'pgbouncer');
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-pgbouncer-'));
  const port = await freePort();
  const lines = [
    '[databases]', `postgres = host=127.0.0.1 port=${far} user=latchkey`, '[pgbouncer]', 'listen_addr = 127.0.0.1',
    `listen_port = ${port}`, 'unix_socket_dir =', 'auth_type = any', 'pool_mode = transaction', 'default_pool_size = 3',
  ]; // prettier-ignore
  writeFileSync(join(folder, 'pgbouncer.ini'), `${lines.join('\n')}\n`);
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', ['-q', ...user, join(folder, 'pgbouncer.ini')], { stdio: 'ignore' });
  t.teardown(async () => {
    await end(child, () => void child.kill('SIGKILL'));
    rmSync(folder, { recursive: true, force: true });
  });
  const answers = async () =>
    new Promise<boolean>((done) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy();
        done(true);
      }).on('error', () => done(false));
    });
  await until(answers, 'pgbouncer answers');
  return `postgres://latchkey@127.0.0.1:${port}/postgres`;
}

let number = 0;
/** Settings of a store in a new schema. */
export function postgresSettings(more: Partial<PostgresSettings> & { url: string }): PostgresSettings {
  return {
    listener_url: null,
    schema: `test_${++number}`,
    password: null,
    tls: null,
    connections: 4,
    // The default is shorter, which is not what most tests are about.
    command_timeout: 30_000,
    ...more,
  };
}

async function end(child: ChildProcess, stop: () => void): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((done) => child.once('close', done));
  stop();
  await gone;
}
