import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { freePort } from './free-port.mjs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { needPackages, runs } from './debian.js';
import { refuseSecretsBelow } from './secrets.js';
import type { RedisSettings } from '../../src/store/redis/connect.js';
import { until } from './until.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** A redis-server in its own process. */
export interface RedisServer {
  readonly port: number;
  readonly url: string;
  readonly pid: () => number;
  /** Runs redis-cli against it and returns the output. */
  readonly cli: (...args: string[]) => string;
  readonly signal: (signal: NodeJS.Signals) => void;
  readonly kill: () => Promise<void>;
  /** Restarts it on the same port and folder. */
  readonly restart: () => Promise<void>;
}

/** Starts a redis-server on a free loopback port; it ends with the test. */
export async function startRedis(t: Test, ...options: string[]): Promise<RedisServer> {
  needPackages(() => runs('redis-server', '--version'), 'redis-server', 'redis-tools');
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-redis-'));
  const port = await freePort();
  // Uncompressed, so that the dump can be searched for secrets.
  const args = ['--rdbcompression', 'no', '--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no', '--daemonize', 'no', ...options]; // prettier-ignore
  const run = () => spawn('redis-server', args, { stdio: 'ignore' });
  let child = run();
  const cli = (...words: string[]) => {
    const { stdout, stderr } = spawnSync('redis-cli', ['-p', String(port), ...words], { timeout: 5_000 });
    return `${stdout.toString()}${stderr.toString()}`.trim();
  };
  t.teardown(async () => {
    child.kill('SIGCONT');
    cli('SAVE');
    await end(child);
    try {
      refuseSecretsBelow(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
  await untilReady(cli);
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    pid: () => child.pid ?? 0,
    cli,
    signal: (signal) => void child.kill(signal),
    kill: () => end(child),
    restart: async () => {
      child = run();
      await untilReady(cli);
    },
  };
}

/**
 * Waits until a replica receives its master's writes. With the link up, the next acknowledgement
 * may take a second.
 */
export async function untilInStep(master: RedisServer, replica: RedisServer): Promise<void> {
  master.cli('SET', 'in-step', '1');
  await until(() => replica.cli('GET', 'in-step') === '1', 'the replica is in step');
  master.cli('DEL', 'in-step');
}

/**
 * Starts a master, a replica and a sentinel that monitors them.
 *
 * @param downAfter milliseconds without an answer until it fails over; long where this is not the
 *   subject, because a busy machine leaves Redis waiting
 * @param password that the sentinel asks for
 */
export async function startSentinel(t: Test, downAfter = 1_500, password?: string) {
  const master = await startRedis(t, '--repl-diskless-sync-delay', '0');
  const replica = await startRedis(t, '--replicaof', `127.0.0.1 ${master.port}`);
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-sentinel-'));
  const port = await freePort();
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor m 127.0.0.1 ${master.port} 1`,
    `sentinel down-after-milliseconds m ${downAfter}`,
    'sentinel failover-timeout m 2000',
    ...(password === undefined ? [] : [`requirepass ${password}`]),
  ];
  writeFileSync(join(folder, 'sentinel.conf'), `${lines.join('\n')}\n`);
  const child = spawn('redis-server', [join(folder, 'sentinel.conf'), '--sentinel'], { stdio: 'ignore' });
  t.teardown(async () => {
    await end(child);
    rmSync(folder, { recursive: true, force: true });
  });
  const cli = (...words: string[]) =>
    spawnSync('redis-cli', ['-p', String(port), ...words], {
      timeout: 5_000,
      env: { ...process.env, ...(password === undefined ? {} : { REDISCLI_AUTH: password }) },
    })
      .stdout.toString()
      .trim();
  await untilReady(cli);
  await untilInStep(master, replica);
  await until(() => /num-slaves\n1/.test(cli('SENTINEL', 'master', 'm')), 'the sentinel sees the replica');
  return { master, replica, cli, nodes: [`127.0.0.1:${port}`] };
}

/** Starts a cluster of three masters. */
export async function startCluster(t: Test) {
  const options = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '30000'];
  const servers = [
    await startRedis(t, ...options),
    await startRedis(t, ...options),
    await startRedis(t, ...options),
  ];
  const nodes = servers.map(({ port }) => `127.0.0.1:${port}`);
  const made = spawnSync('redis-cli', ['--cluster', 'create', ...nodes, '--cluster-yes'], {
    timeout: 30_000,
  });
  if (made.status !== 0) throw new Error(`no cluster: ${made.stdout.toString()}${made.stderr.toString()}`);
  await until(
    () => servers.every(({ cli }) => cli('CLUSTER', 'INFO').includes('cluster_state:ok')),
    'the cluster is up',
  );
  return { servers, nodes };
}

/** Settings of a Redis store. */
export function redisSettings(more: Partial<RedisSettings>): RedisSettings {
  return {
    url: null,
    cluster: null,
    sentinel: null,
    prefix: 'latchkey:',
    tls: null,
    username: null,
    password: null,
    acknowledge: null,
    // The default is shorter, which is not what most tests are about.
    command_timeout: 30_000,
    ...more,
  };
}

async function untilReady(cli: (...words: string[]) => string): Promise<void> {
  await until(() => cli('PING') === 'PONG', 'redis-server answers');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((done) => child.once('close', done));
  child.kill('SIGKILL');
  await gone;
}
