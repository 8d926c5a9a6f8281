// Measures latency at the same load: a fixed rate of requests for every subject, and the effect of
// many logins on it.
import { spawn } from 'node:child_process';
import { request } from 'node:http';
import { join } from 'node:path';
import { busySeconds, cpuSeconds, familyOf } from '../lib/proc.mjs';
import { foreignShare, measureRound, quieterHalf } from '../lib/round.mjs';
import { median } from '../lib/statistics.mjs';
import { progress } from '../lib/output.mjs';
import { warmUp } from '../lib/wrk.mjs';
import { prepareLoad } from './subjects.mjs';
import { PASSWORD } from '../lib/records.mjs';
import { TOKEN_REQUESTS } from './requests.mjs';

/** @import { Pace, Waits } from '../lib/paced.mjs' */
/** @import { Started } from '../lib/round.mjs' */
/** @import { Took } from './measure.mjs' */
/** @import { Asked, Peer, Place, StartedPeer, Subjects } from './subjects.mjs' */
/**
 * @typedef {Waits & { busy: number, foreign_share: number, logins_per_second?: number }} PacedRound
 */
/** @typedef {{ name: string, rate: number } & PacedRound} WaitRow */
/** @typedef {{ peer: Peer, started: StartedPeer, wasWarm: boolean }} Loaded */

/** Share of its time for which the slowest subject is kept busy. */
const LOAD = 0.6;
const CONNECTIONS = 256;
/** Numbers of concurrently logging-in clients. */
const STORMS = [0, 1, 8];

/**
 * Returns the requests of a workload as text, as they are sent on the wire.
 *
 * @param {Asked} peer
 * @param {Place} place
 */
function textOf(peer, place) {
  return TOKEN_REQUESTS.requests(peer, place)
    .slice(0, 200)
    .map(({ method, path, fields }) => {
      const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
      return `${method} ${path} HTTP/1.1\r\nHost: bench.example.com\r\n${lines.join('')}\r\n`;
    });
}

/**
 * Loads a started subject with paced.mjs once.
 *
 * @throws Error if requests failed
 * @param {Asked} peer
 * @param {Started} started
 * @param {Place} place
 * @param {{ rate: number, seconds: number }} pace
 * @returns {Promise<PacedRound>}
 */
export async function paced(peer, started, place, { rate, seconds }) {
  const program = join(import.meta.dirname, '../lib/paced.mjs');
  const what = { port: started.port, rate, seconds, connections: CONNECTIONS, requests: textOf(peer, place) };
  const families = Object.values(started.pids).flatMap(familyOf);
  const [before, busyBefore] = [cpuSeconds(families), busySeconds(place.cores)];
  const result = await outputOf(place.loadCores, program, what);
  const cpu = cpuSeconds(families) - before;
  const foreign = busySeconds(place.cores) - busyBefore - cpu;
  started.emptyLog?.();
  if (result.failed > 0 || result.refused > 0)
    throw new Error(`${peer.name}: ${result.failed} requests failed and ${result.refused} were refused`);
  return { ...result, busy: cpu / seconds, foreign_share: foreignShare(foreign, seconds, place.cores) };
}

/**
 * @param {number[]} cores
 * @param {string} program
 * @param {Pace} what
 * @returns {Promise<Waits>}
 */
async function outputOf(cores, program, what) {
  const args = ['-c', cores.join(','), process.execPath, program, JSON.stringify(what)];
  const child = spawn('taskset', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  await new Promise((done) => child.once('close', done));
  return JSON.parse(output);
}

/**
 * Returns medians over the quieter rounds.
 *
 * @param {PacedRound[]} all
 */
function medians(all) {
  const rounds = quieterHalf(all);
  const names = /** @type {(keyof PacedRound)[]} */ (Object.keys(rounds[0]));
  return /** @type {PacedRound} */ (
    Object.fromEntries(names.map((name) => [name, median(rounds.map((round) => round[name] ?? NaN))]))
  );
}

/**
 * Returns the rate that keeps the slowest of some subjects busy for a share of its time.
 *
 * @param {Loaded[]} loaded
 * @param {Place} place
 */
async function commonRate(loaded, place) {
  let slowest = Infinity;
  for (const { peer, started, wasWarm } of loaded) {
    progress(`how much ${peer.name} can take`);
    const load = await prepareLoad(TOKEN_REQUESTS, peer, started, place);
    const settings = { cores: place.loadCores, measuredCores: place.cores };
    if (!wasWarm) await warmUp({ url: `http://127.0.0.1:${started.port}/`, ...load, cores: place.loadCores });
    const { cpu_us } = await measureRound(started, load, { ...settings, seconds: 2 });
    slowest = Math.min(slowest, 1e6 / cpu_us);
  }
  return Math.max(100, Math.floor((LOAD * slowest) / 100) * 100);
}

/**
 * Measures p50 and p99 of all subjects at one rate.
 *
 * @param {{ title: string }} workload
 * @param {Peer[]} chosen
 * @param {Subjects} subjects
 * @param {Place} place
 * @param {Took} took
 * @returns {Promise<WaitRow[]>}
 */
export async function measureLatency({ title }, chosen, subjects, place, { rounds, seconds }) {
  /** @type {(Loaded & { rounds: PacedRound[] })[]} */
  const loaded = [];
  for (const peer of chosen) {
    const wasWarm = subjects.isStarted(peer);
    const started = await subjects.get(peer);
    if (started !== undefined) loaded.push({ peer, started, wasWarm, rounds: [] });
  }
  const rate = await commonRate(loaded, place);
  for (let round = 1; round <= rounds; round++) {
    for (const { peer, started, rounds: done } of loaded) {
      progress(`${title}: round ${round} of ${rounds}, ${peer.name}`);
      done.push(await paced(peer, started, place, { rate, seconds }));
    }
  }
  return loaded.map(({ peer, rounds: done }) => ({ name: peer.name, rate, ...medians(done) }));
}

/**
 * Measures p99 of proxied requests while users log in as fast as they are allowed to, and without
 * logins.
 *
 * @param {{ title: string }} workload
 * @param {Peer[]} chosen
 * @param {Subjects} subjects
 * @param {Place} place
 * @param {Took} took
 * @returns {Promise<WaitRow[]>}
 */
export async function measureStorm({ title }, [peer], subjects, place, { rounds, seconds }) {
  const wasWarm = subjects.isStarted(peer);
  const started = await subjects.get(peer);
  if (started === undefined) return [];
  const rate = Math.round((await commonRate([{ peer, started, wasWarm }], place)) / 2 / 100) * 100;
  const storms = STORMS.map((clients) => ({ clients, rounds: /** @type {PacedRound[]} */ ([]) }));
  for (let round = 1; round <= rounds; round++) {
    for (const { clients, rounds: done } of storms) {
      progress(`${title}: round ${round} of ${rounds}, logins by ${clients} clients`);
      const storm = startStorm(started.port, clients);
      const result = await paced(peer, started, place, { rate, seconds });
      const { logins, lasted } = await storm.stop();
      // Connections are opened and rest before the load begins, while users already log in.
      const busy = clients === 0 ? result.busy : (result.busy * seconds) / lasted;
      done.push({ ...result, busy, logins_per_second: logins / lasted });
    }
  }
  return storms.map(({ clients, rounds: done }) => ({
    name:
      clients === 0 ? 'nobody logs in' : `${clients} ${clients === 1 ? 'logs' : 'log'} in without a pause`,
    rate,
    ...medians(done),
  }));
}

/**
 * Logs in from a loopback address and returns the status.
 *
 * @param {number} port
 * @param {string} user
 * @param {string} localAddress
 * @returns {Promise<number | undefined>}
 */
async function login(port, user, localAddress) {
  const body = new URLSearchParams({ user, password: PASSWORD }).toString();
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded', 'Content-Length': body.length };
  const what = { port, host: '127.0.0.1', path: '/login', method: 'POST', localAddress, headers };
  return new Promise((resolve, reject) => {
    const sent = request(what, (reply) => reply.resume().once('end', () => resolve(reply.statusCode)));
    sent.once('error', reject).end(body);
  });
}

/**
 * Starts clients that log in repeatedly. Each login uses another user and another address, or the
 * rate limit of logins would stop them.
 *
 * @param {number} port
 * @param {number} clients
 */
function startStorm(port, clients) {
  const state = { running: true, count: 0 };
  const startedAt = performance.now();
  /** @param {number} index */
  const client = async (index) => {
    for (let turn = index; state.running; turn += clients) {
      const status = await login(
        port,
        `user${turn % 100}@example.com`,
        `127.${1 + index}.0.${1 + (turn % 250)}`,
      );
      if (status === 200) state.count += 1;
    }
  };
  const all = Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  return {
    /** @returns how many logins succeeded, and in how many seconds */
    stop: async () => {
      state.running = false;
      const lasted = (performance.now() - startedAt) / 1000;
      const logins = state.count;
      await all;
      return { logins, lasted };
    },
  };
}
