// Performs one run: starts the processes, runs clients and faults, heals, and reads everything
// back.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../fuzz/random.mjs';
import { onEnd, temporaryFolder } from '../lib/processes.mjs';
import { runFaults, serverFaults, sidecarFaults } from './faults.mjs';
import { lmdbFaults, restartIfEnded, startLmdbStore, WORKERS } from './lmdb.mjs';
import { Network } from './network.mjs';
import { Recorder } from './record.mjs';
import { postgresFaults, startPostgresStore } from './postgres.mjs';
import { startRedisStore } from './redis.mjs';
import { cliOf, directory, prepareSidecar, startUpstream } from './sidecars.mjs';
import { Workload } from './workload.mjs';

/** @import { Random } from '../fuzz/random.mjs' */
/** @import { Faults, Lane } from './faults.mjs' */
/** @import { Store } from './sidecars.mjs' */
/**
 * Options of the command, as text.
 *
 * @typedef {{ store: string, faults?: string | undefined, seed: string, minutes: string, pace:
 *   string, rate: string, acknowledge: string, 'down-after': string, redis: string[], root: string,
 *   file: string, more: boolean, beside?: string | undefined }} Options
 */
/**
 * @typedef {Options & { kind: string, kinds: string[], folder: string, random: Random,
 *   sidecarRandom: Random, recorder: Recorder }} Setting
 */
/**
 * `commands` names the program and the configuration of commands; `recover` restarts processes that gave up; `describe` returns the known state of the store;
 * `master` names its master.
 *
 * @typedef {{ sidecars: { index: number, url: string, started?: { log: string } | undefined }[],
 *   commands: { cli: string, config: string }, lanes: Lane[], lossless: boolean, recover?: () => Promise<void>, describe?: () =>
 *   Promise<unknown[]>, master?: () => Promise<string | undefined> }} Deployment
 */

const SIDECARS = 3;
/** The faults that each kind of store supports. */
export const FAULTS = {
  'sentinel, cluster, redis': ['kill', 'stop', 'partition', 'pause-sidecar', 'clock'],
  postgres: ['kill', 'stop', 'restart', 'failover', 'pause-sidecar', 'clock'],
  lmdb: ['kill', 'stop', 'disk', 'clock'],
};
const OF_SIDECARS = new Set(['pause-sidecar', 'clock']);
/**
 * Shortest and longest duration of faults, in seconds.
 *
 * @type {Record<'server' | 'sidecar', Lane['seconds']>}
 */
const SECONDS = { server: [4, 15], sidecar: [1, 6] };
const HEAL_MS = 60_000;
/** Revocations at the very end need this time to take effect. */
const SETTLE_MS = 2_500;
const WATCH_MS = 200;

/**
 * Records a history.
 *
 * @param {Options} values
 * @param {(progress: string) => void} say
 */
export async function makeHistory(values, say) {
  const { store: kind, seed, file } = values;
  const known = Object.entries(FAULTS).find(([kinds]) => kinds.split(', ').includes(kind))?.[1];
  if (known === undefined) throw new Error(`--store: no such store: ${kind}`);
  const kinds = values.faults === undefined ? known : values.faults.split(',').filter(Boolean);
  const wrong = kinds.find((each) => !known.includes(each));
  if (wrong !== undefined) throw new Error(`--faults: ${kind} has no ${wrong}; it has ${known.join(', ')}`);

  const folder = temporaryFolder('history');
  const recorder = new Recorder(file);
  onEnd(() => recorder.flush());
  // Lanes run concurrently; with separate random numbers, neither changes the other's schedule.
  const [random, sidecarRandom] = [createRandom(Number(seed)), createRandom(Number(seed) + 2)];
  say('starting the processes');
  const deployment = await (kind === 'lmdb' ? startEmbedded : kind === 'postgres' ? startPostgresFleet : startRedisFleet)({ ...values, kind, kinds, folder, random, sidecarRandom, recorder });
  const acknowledge = Number(values.acknowledge);
  const lossless = deployment.lossless || acknowledge > 0;
  recorder.add({ type: 'run', store: kind, seed: Number(seed), minutes: Number(values.minutes), kinds, acknowledge, lossless });
  const workload = new Workload({ sidecars: deployment.sidecars, random: createRandom(Number(seed) + 1), recorder, more: values.more ? { ...deployment.commands, setsClocks: kinds.includes('clock') } : undefined });
  onEnd(() => workload.close());

  await untilServing(deployment, workload, recorder);
  if (workload.size === 0) throw new Error('no sidecar serves, and there was no fault yet');
  await workload.begin();
  workload.start(Number(values.rate));
  const endAt = performance.now() + Number(values.minutes) * 60_000;
  const status = { fault: '' };
  const stopWatching = watchFailovers(deployment, recorder);
  const shown = setInterval(() => {
    const left = Math.max(0, Math.ceil((endAt - performance.now()) / 1_000));
    say(`${left} s left, ${workload.size} credentials, ${recorder.entries.length} entries ${status.fault}`);
  }, 500);
  onEnd(() => clearInterval(shown));
  await runFaults({
    lanes: deployment.lanes,
    recorder,
    pace: Number(values.pace),
    isOver: () => performance.now() >= endAt,
    onFault: (text) => (status.fault = text),
  });
  await sleep(Math.max(0, endAt - performance.now()));
  await workload.stop();
  clearInterval(shown);
  say('everything is healed');
  await untilServing(deployment, workload, recorder);
  await sleep(SETTLE_MS);
  await workload.readBack((done, total) => say(`read back ${done} of ${total}`));
  await stopWatching();
  recorder.flush();
  return recorder.entries;
} // prettier-ignore

/**
 * @param {Setting} setting
 * @returns {Promise<Deployment>}
 */
async function startRedisFleet(setting) {
  const { kind, kinds, folder, random, sidecarRandom, acknowledge, redis, 'down-after': downAfter } = setting;
  const network = new Network();
  const store = await startRedisStore({ kind, folder, network, downAfter: Number(downAfter), redis });
  const replicas = Number(acknowledge);
  const settings = replicas > 0 ? { ...store.settings, acknowledge: { replicas, timeout: '1s' } } : store.settings;
  const sidecars = await startSidecars(setting, settings, network);
  const lanes = lanesOf(
    kinds,
    { random, faults: serverFaults({ store, network, sidecars, random }) },
    { random: sidecarRandom, faults: sidecarFaults({ sidecars, random: sidecarRandom }) },
  );
  return { ...store, sidecars, commands: sidecars[1], lanes };
} // prettier-ignore

/**
 * @param {Setting} setting
 * @returns {Promise<Deployment>}
 */
async function startPostgresFleet(setting) {
  const { kinds, random, sidecarRandom } = setting;
  const store = await startPostgresStore();
  const sidecars = await startSidecars(setting, store.settings);
  const lanes = lanesOf(
    kinds,
    { random, faults: postgresFaults(store) },
    { random: sidecarRandom, faults: sidecarFaults({ sidecars, random: sidecarRandom }) },
  );
  return { ...store, sidecars, commands: sidecars[1], lanes };
}

/**
 * @param {Setting} setting
 * @param {Store} store
 * @param {Network} [network]
 */
async function startSidecars({ kinds, folder, root, beside = root }, store, network) {
  const upstreamPort = await startUpstream();
  const accounts = await directory();
  const sidecars = [];
  for (let index = 0; index < SIDECARS; index++) {
    const sidecar = await prepareSidecar({
      index, folder, upstreamPort, store, root: index % 2 === 0 ? root : beside, directory: accounts, hasClock: kinds.includes('clock'),
    });
    network?.addParty(sidecar.name, () => sidecar.pid);
    sidecars.push(sidecar);
  }
  // The first one applies the directory, so that the others need not compete with it.
  for (const sidecar of sidecars) await sidecar.start();
  return sidecars;
} // prettier-ignore

/**
 * @param {Setting} setting
 * @returns {Promise<Deployment>}
 */
async function startEmbedded({ kinds, folder, random, sidecarRandom, root, beside = root }) {
  const store = startLmdbStore(folder);
  const possible = kinds.filter((kind) => kind !== 'disk' || store.disk !== undefined);
  if (possible.length < kinds.length) process.stderr.write('no full disk: mounting one needs root\n');
  const server = await prepareSidecar({
    index: 0,
    folder,
    upstreamPort: await startUpstream(),
    store: store.settings,
    root,
    directory: await directory(),
    workers: WORKERS,
    hasClock: kinds.includes('clock'),
  });
  await server.start();
  const lanes = lanesOf(
    possible,
    { random, faults: lmdbFaults({ server, store, random }) },
    { random: sidecarRandom, faults: sidecarFaults({ sidecars: [server], random: sidecarRandom }) },
  );
  // Separate connections, so that each worker gets some of both.
  const sidecars = [0, 1].map((index) => ({ index, url: server.url }));
  const recover = () => restartIfEnded(server);
  return { ...store, sidecars, commands: { cli: cliOf(beside), config: server.config }, recover, lanes };
} // prettier-ignore

/**
 * @param {string[]} kinds
 * @param {{ random: Random, faults: Faults }} ofServers
 * @param {{ random: Random, faults: Faults }} ofSidecars
 * @returns {Lane[]}
 */
function lanesOf(kinds, ofServers, ofSidecars) {
  return [
    { ...ofServers, kinds: kinds.filter((kind) => !OF_SIDECARS.has(kind)), seconds: SECONDS.server },
    { ...ofSidecars, kinds: kinds.filter((kind) => OF_SIDECARS.has(kind)), seconds: SECONDS.sidecar },
  ];
}

/**
 * Waits until each sidecar creates a token. One that does not is recorded, with what is known about
 * it.
 *
 * @param {Deployment} deployment
 * @param {Workload} workload
 * @param {Recorder} recorder
 */
async function untilServing({ sidecars, recover, describe }, workload, recorder) {
  await recover?.();
  const start = recorder.now();
  for (const sidecar of sidecars) {
    while (!(await workload.tryCreate(sidecar.index))) {
      if (recorder.now() - start > HEAL_MS) {
        const about = { sidecar: sidecar.index, servers: await describe?.(), log: lastLines(sidecar) };
        recorder.add({ type: 'event', event: 'unrecovered', start, end: recorder.now(), ...about });
        break;
      }
      await sleep(200);
    }
  }
}

/** @param {Deployment['sidecars'][number]} sidecar */
function lastLines({ started }) {
  if (started === undefined) return [];
  const lines = readFileSync(started.log, 'utf8').trim().split('\n');
  return lines.filter((line) => !line.includes('"msg":"request"')).slice(-20);
}

/**
 * Records when another server becomes the master.
 *
 * @param {Deployment} deployment
 * @param {Recorder} recorder
 * @returns a function that stops it
 */
function watchFailovers({ master }, recorder) {
  if (master === undefined) return () => undefined;
  /** @type {string | undefined} */
  let known;
  let looking = Promise.resolve();
  const look = async () => {
    const now = await master();
    if (now === undefined || now === known) return;
    const at = recorder.now();
    if (known !== undefined) recorder.add({ type: 'event', event: 'failover', to: now, start: at, end: at });
    known = now;
  };
  const timer = setInterval(() => {
    looking = looking.then(look);
  }, WATCH_MS);
  const stop = async () => {
    clearInterval(timer);
    await looking;
  };
  onEnd(stop);
  return stop;
}
