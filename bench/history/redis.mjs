// Stores on Redis: one server, three with three sentinels, or a cluster of six. The parties reach
// each other only through fronts.
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePort } from '../../test/helpers/free-port.mjs';
import { missingPackages, onEnd, runs } from '../lib/processes.mjs';
import { redisProgram } from './program.mjs';

/** @import { Network } from './network.mjs' */
/** @import { Program } from './program.mjs' */
/** @import { Store } from './sidecars.mjs' */
/** @typedef {(words: string[]) => Promise<unknown>} Ask */
/** @typedef {Program & { port: number, front: number, ask: Ask }} RedisServer */
/**
 * @typedef {{ kind: string, folder: string, network: Network, downAfter: number, redis: string[] }}
 *   Setting `redis` has further lines of configuration
 */
/**
 * `others` monitor the servers; `master` returns the name of the current master.
 *
 * @typedef {{ settings: Store, servers: RedisServer[], others: RedisServer[], master: () =>
 *   Promise<string | undefined>, describe: () => Promise<unknown[]>, lossless: boolean }}
 *   RedisStore
 */

const MASTER = 'main';
const START_MS = 60_000;
/**
 * A failed failover, such as one during which a second server is lost, is retried after twice this
 * time.
 */
const FAILOVER_TIMEOUT_MS = 3_000;
/** Distance of a cluster node's bus port from its port. */
const BUS = 10_000;

/**
 * Starts the processes of a kind of store.
 *
 * @param {Setting} what
 * @returns {Promise<RedisStore>}
 */
export async function startRedisStore(what) {
  const missing = missingPackages(() => runs('redis-server', '--version') && runs('redis-cli', '--version'), 'redis-server', 'redis-tools');
  if (missing !== undefined) throw new Error(`redis-server is missing: ${missing}`);
  if (what.kind === 'cluster') return startCluster(what);
  return what.kind === 'sentinel' ? startSentinels(what) : startOne(what);
} // prettier-ignore

/**
 * @param {Setting} setting
 * @returns {Promise<RedisStore>}
 */
async function startOne({ folder, network, redis }) {
  const [server] = await startServers(1, { folder, network, lines: () => ['appendfsync always', ...redis] });
  return {
    settings: { type: 'redis', url: `redis://127.0.0.1:${server.front}` },
    servers: [server],
    others: [],
    master: async () => server.name,
    describe: () => roles([server]),
    lossless: true,
  };
}

/**
 * @param {Setting} setting
 * @returns {Promise<RedisStore>}
 */
async function startSentinels({ folder, network, downAfter, redis }) {
  /**
   * @param {number} index
   * @param {number} first
   */
  const lines = (index, first) => [
    ...(index === 0 ? [] : [`replicaof 127.0.0.1 ${first}`]),
    'repl-ping-replica-period 1',
    'repl-diskless-sync-delay 0',
    ...redis,
  ];
  const servers = await startServers(3, { folder, network, lines });
  /** @type {RedisServer[]} */
  const sentinels = [];
  for (let index = 0; index < 3; index++) sentinels.push(await startSentinel(index));
  /** @param {string | undefined} port */
  const nameAt = (port) => servers.find(({ front }) => front === Number(port))?.name;
  const answers = () => askAll(sentinels, ['SENTINEL', 'MASTER', MASTER]);
  await until('the sentinels know each other and the replicas', async () => {
    const masters = (await answers()).map(asObject);
    return masters.length === 3 && masters.every(isComplete) && (await inStep(servers));
  });
  return {
    settings: {
      type: 'redis',
      sentinel: { master: MASTER, nodes: sentinels.map(({ front }) => `127.0.0.1:${front}`) },
    },
    servers,
    others: sentinels,
    master: async () => nameAt(newest((await answers()).map(asObject), 'config-epoch')?.port),
    describe: () => roles(servers),
    lossless: false,
  };

  /** @param {number} index */
  async function startSentinel(index) {
    const [port, front] = [await freePort(), await freePort()];
    const name = `sentinel-${index}`;
    const own = join(folder, name);
    mkdirSync(own);
    await network.listen(name, front, port);
    const program = redisProgram({
      name,
      folder: own,
      mode: ['--sentinel'],
      lines: [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${own}`,
        'sentinel announce-ip 127.0.0.1',
        `sentinel announce-port ${front}`,
        `sentinel monitor ${MASTER} 127.0.0.1 ${servers[0].front} 2`,
        `sentinel down-after-milliseconds ${MASTER} ${downAfter}`,
        `sentinel failover-timeout ${MASTER} ${FAILOVER_TIMEOUT_MS}`,
      ],
    });
    network.addParty(name, () => program.pid);
    await program.start();
    return Object.assign(program, { port, front, ask: client(port) });
  }
}

/**
 * @param {Setting} setting
 * @returns {Promise<RedisStore>}
 */
async function startCluster({ folder, network, downAfter, redis }) {
  /**
   * @param {number} _index
   * @param {number} _first
   * @param {number} front
   */
  const lines = (_index, _first, front) => [
    'cluster-enabled yes',
    `cluster-node-timeout ${downAfter}`,
    'cluster-announce-ip 127.0.0.1',
    `cluster-announce-port ${front}`,
    `cluster-announce-bus-port ${front + BUS}`,
    'repl-diskless-sync-delay 0',
    'repl-ping-replica-period 1',
    ...redis,
  ];
  const servers = await startServers(6, { folder, network, lines, bus: true });
  const nodes = servers.map(({ front }) => `127.0.0.1:${front}`);
  const { status, output } = await runCli([
    '--cluster',
    'create',
    ...nodes,
    '--cluster-replicas',
    '1',
    '--cluster-yes',
  ]);
  if (status !== 0) throw new Error(`no cluster: ${output}`);
  const slot = Number(await servers[0].ask(['CLUSTER', 'KEYSLOT', '{latchkey:}']));
  const views = async () => (await askForTexts(servers, ['CLUSTER', 'NODES'])).flatMap(parseNodes);
  await until('the cluster is up', async () => {
    const states = await askForTexts(servers, ['CLUSTER', 'INFO']);
    return states.every((text) => text.includes('cluster_state:ok')) && (await views()).length === 36;
  });
  const owner = async () => {
    const owners = (await views()).filter((node) =>
      node.slots.some(([from, to]) => slot >= from && slot <= to),
    );
    return servers.find(({ front }) => front === Number(newest(owners, 'epoch')?.port))?.name;
  };
  return {
    settings: { type: 'redis', cluster: nodes },
    servers,
    others: [],
    master: owner,
    describe: () => roles(servers),
    lossless: false,
  };
}

/**
 * Starts servers behind fronts.
 *
 * @param {number} count
 * @param {{ folder: string, network: Network, lines: (index: number, first: number, front: number)
 *   => string[], bus?: boolean }} what `lines` returns further lines of configuration, by index,
 *   first front and own front
 */
async function startServers(count, { folder, network, lines, bus = false }) {
  /** @type {RedisServer[]} */
  const servers = [];
  for (let index = 0; index < count; index++) {
    const [port, front] = [await freePort(), await freePort()];
    const name = `redis-${index}`;
    const own = join(folder, name);
    mkdirSync(own);
    await network.listen(name, front, port);
    if (bus) await network.listen(name, front + BUS, port + BUS);
    const program = redisProgram({
      name,
      folder: own,
      lines: [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${own}`,
        'save ""',
        'appendonly yes',
        'shutdown-timeout 0',
        'replica-announce-ip 127.0.0.1',
        `replica-announce-port ${front}`,
        ...lines(index, servers[0]?.front ?? front, front),
      ],
    });
    network.addParty(name, () => program.pid);
    await program.start();
    servers.push(Object.assign(program, { port, front, ask: client(port) }));
    await until(`${name} answers`, async () => (await servers[index].ask(['PING'])) === 'PONG');
  }
  return servers;
}

/**
 * Sends a command to a server directly; resolves to undefined if it does not answer soon.
 *
 * @param {number} port
 * @returns {Ask}
 */
function client(port) {
  const redis = new Redis(port, '127.0.0.1', {
    commandTimeout: 300,
    connectTimeout: 300,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    retryStrategy: () => 200,
  });
  redis.on('error', () => undefined);
  onEnd(() => redis.disconnect());
  return ([command, ...words]) => redis.call(command, ...words).catch(() => undefined);
}

/**
 * @param {RedisServer[]} servers
 * @param {string[]} words
 */
async function askAll(servers, words) {
  const answers = await Promise.all(servers.map(({ ask }) => ask(words)));
  return answers.filter((answer) => answer !== undefined);
}

/**
 * @param {RedisServer[]} servers
 * @param {string[]} words
 */
async function askForTexts(servers, words) {
  return (await askAll(servers, words)).map(String);
}

/**
 * Returns whether a sentinel knows two replicas and two other sentinels.
 *
 * @param {Record<string, string>} master
 */
function isComplete(master) {
  return master['num-slaves'] === '2' && master['num-other-sentinels'] === '2';
}

/** @param {RedisServer[]} servers */
async function inStep(servers) {
  const texts = await askForTexts(servers, ['INFO', 'replication']);
  return texts.filter((text) => text.includes('master_link_status:up')).length === servers.length - 1;
}

/**
 * Returns each server's view of its replication.
 *
 * @param {RedisServer[]} servers
 */
async function roles(servers) {
  const texts = await Promise.all(servers.map(({ ask }) => ask(['INFO', 'replication'])));
  return texts.map((text, index) => ({
    name: servers[index].name,
    front: servers[index].front,
    says:
      typeof text === 'string' ? text.match(/^(role|master_\w+|slave\d|connected_slaves):.*/gm) : undefined,
  }));
}

/**
 * @param {unknown} answer alternating names and values
 * @returns {Record<string, string>}
 */
function asObject(answer) {
  const list = /** @type {string[]} */ (answer);
  const names = list.filter((_, index) => index % 2 === 0);
  return Object.fromEntries(names.map((name, index) => [name, list[2 * index + 1]]));
}

/**
 * Returns the item with the highest number under a name.
 *
 * @template {Record<string, unknown>} T
 * @param {T[]} all
 * @param {keyof T} name
 * @returns {T | undefined}
 */
function newest(all, name) {
  return all.toSorted((a, b) => Number(b[name]) - Number(a[name]))[0];
}

/**
 * Parses the lines of CLUSTER NODES: id, address, flags, master, ping, pong, epoch, link, slots.
 *
 * @param {string} text
 */
function parseNodes(text) {
  return text
    .trim()
    .split('\n')
    .map((line) => {
      const [, address, , , , , epoch, , ...slots] = line.split(' ');
      const port = /:(\d+)@/.exec(address)?.[1];
      const ranges = slots.filter((each) => !each.startsWith('[')).map((each) => each.split('-').map(Number));
      return { port, epoch, slots: ranges.map(([from, to = from]) => [from, to]) };
    });
}

/**
 * Runs redis-cli asynchronously: it goes through the fronts, which this process serves.
 *
 * @param {string[]} args
 * @returns {Promise<{ status: number, output: string }>}
 */
function runCli(args) {
  return new Promise((resolve) =>
    execFile('redis-cli', args, { timeout: START_MS }, (error, stdout, stderr) =>
      resolve({ status: error === null ? 0 : 1, output: stdout + stderr }),
    ),
  );
}

/**
 * @param {string} what
 * @param {() => Promise<boolean>} holds
 */
async function until(what, holds) {
  for (const limit = Date.now() + START_MS; Date.now() < limit; await sleep(50)) if (await holds()) return;
  throw new Error(`waited ${START_MS} ms in vain: ${what}`);
}
