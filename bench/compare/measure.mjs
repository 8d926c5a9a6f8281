// Interleaves rounds: one of each row of a table, then again, so that a slow minute of the machine
// affects all rows.
import { measureRound, quieterHalf } from '../lib/round.mjs';
import { median, spread } from '../lib/statistics.mjs';
import { progress } from '../lib/output.mjs';
import { warmUp } from '../lib/wrk.mjs';
import { prepareLoad } from './subjects.mjs';

/** @import { Round, WrkLoad } from '../lib/round.mjs' */
/** @import { Peer, Place, StartedPeer, Subjects } from './subjects.mjs' */
/** @import { Series, Workload } from './workloads.mjs' */
/** @typedef {{ rounds: number, seconds: number }} Took */
/** @typedef {{ name: string } & ReturnType<typeof summary>} CostRow */

/** For a subject that another workload has already warmed up. */
const WARM_UP_SECONDS = 1;

/**
 * Measures one workload for some subjects.
 *
 * @param {Workload} workload
 * @param {Peer[]} chosen
 * @param {Subjects} subjects
 * @param {Place} place
 * @param {Took} took
 * @returns the measurements, by the subject's name
 */
export async function measureWorkload(workload, chosen, subjects, place, took) {
  const asked = chosen.map((peer) => ({ name: peer.name, peer, workload }));
  return measureTogether(workload.title, asked, subjects, place, took);
}

/**
 * Measures several workloads, each with one subject.
 *
 * @param {Series} series
 * @param {Peer[]} chosen
 * @param {Subjects} subjects
 * @param {Place} place
 * @param {Took} took
 * @returns the measurements, by the workload's name
 */
export async function measureWorkloads({ title, workloads = [] }, chosen, subjects, place, took) {
  const all = workloads.map((workload) => ({ name: workload.name, peer: workload.subjects[0], workload }));
  const asked = all.filter(({ peer }) => chosen.includes(peer));
  return measureTogether(title, asked, subjects, place, took);
}

/**
 * @param {string} title
 * @param {{ name: string, peer: Peer, workload: Workload }[]} asked
 * @param {Subjects} subjects
 * @param {Place} place
 * @param {Took} took
 * @returns {Promise<CostRow[]>}
 */
async function measureTogether(title, asked, subjects, place, { rounds, seconds }) {
  /**
   * @type {{ name: string, peer: Peer, started: StartedPeer, load: WrkLoad, wasWarm: boolean,
   *   rounds: Round[] }[]}
   */
  const loaded = [];
  for (const { name, peer, workload } of asked) {
    const wasWarm = subjects.isStarted(peer);
    const started = await subjects.get(peer);
    if (started === undefined) continue;
    const load = await prepareLoad(workload, peer, started, place);
    loaded.push({ name, peer, started, load, wasWarm, rounds: [] });
  }
  /**
   * @param {Peer} peer
   * @param {number} ofRound
   */
  const settings = (peer, ofRound) => ({
    seconds: ofRound,
    cores: peer.onAllCores ? [...place.loadCores, ...place.cores] : place.loadCores,
    measuredCores: peer.onAllCores ? [...place.loadCores, ...place.cores] : place.cores,
  });
  for (const { name, peer, started, load, wasWarm } of loaded) {
    progress(`${title}: warm-up, ${name}`);
    if (wasWarm) await measureRound(started, load, settings(peer, WARM_UP_SECONDS));
    else
      await warmUp({
        url: `http://127.0.0.1:${started.port}/`,
        ...load,
        cores: settings(peer, seconds).cores,
      });
  }
  for (let round = 1; round <= rounds; round++) {
    for (const { name, peer, started, load, rounds: done } of loaded) {
      progress(`${title}: round ${round} of ${rounds}, ${name}`);
      try {
        done.push(await measureRound(started, load, settings(peer, seconds)));
      } catch (error) {
        throw new Error(`${title}, ${name}: ${/** @type {Error} */ (error).message}`, { cause: error });
      }
    }
  }
  return loaded.map(({ name, rounds: done }) => ({ name, ...summary(done) }));
}

/**
 * Returns medians over the quieter rounds.
 *
 * @param {Round[]} all
 */
export function summary(all) {
  const rounds = quieterHalf(all);
  /** @param {Exclude<keyof Round, 'cpu_us_of'>} name */
  const of = (name) => median(rounds.map((round) => round[name]));
  const parts = Object.keys(rounds[0].cpu_us_of);
  return {
    cpu_us: of('cpu_us'),
    cpu_us_of: Object.fromEntries(
      parts.map((part) => [part, median(rounds.map((round) => round.cpu_us_of[part]))]),
    ),
    cpu_spread: spread(rounds.map(({ cpu_us }) => cpu_us)),
    requests_per_second: of('requests_per_second'),
    p50_ms: of('p50_ms'),
    p99_ms: of('p99_ms'),
    memory_bytes: of('memory_bytes'),
    foreign_share: of('foreign_share'),
  };
}
