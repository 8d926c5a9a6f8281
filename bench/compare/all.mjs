// Performs a whole run.
import { machineFacts } from '../lib/machine.mjs';
import { progress } from '../lib/output.mjs';
import { measureWorkload } from './measure.mjs';
import { report } from './report.mjs';
import { openPlace, Subjects } from './subjects.mjs';
import { WORKLOADS } from './workloads.mjs';

/** @import { Results, Row } from './report.mjs' */

/**
 * @param {{ rounds: number, seconds: number, only: string[] | undefined, workloads: string[] |
 *   undefined }} options
 */
export async function compareAll({ rounds, seconds, only, workloads }) {
  checkNames(workloads);
  /** @param {{ name: string }} peer */
  const isChosen = ({ name }) => only === undefined || only.some((part) => name.toLowerCase().includes(part));
  /** @param {{ name: string }} workload */
  const isWanted = ({ name }) => workloads === undefined || workloads.includes(name);
  const place = await openPlace();
  const subjects = new Subjects(place);
  /** @type {Results['workloads']} */
  const measured = {};
  const wanted = WORKLOADS.filter(isWanted);
  for (const [index, workload] of wanted.entries()) {
    const chosen = workload.subjects.filter(isChosen);
    const took = {
      rounds: workload.rounds === 'all' ? rounds : Math.ceil(rounds / 2),
      seconds: workload.seconds === 'all' ? seconds : Math.ceil(seconds / 2),
    };
    if (chosen.length > 0) {
      const rows = 'measure' in workload
        ? await workload.measure(workload, chosen, subjects, place, took)
        : await measureWorkload(workload, chosen, subjects, place, took);
      if (rows.length > 0) measured[workload.name] = /** @type {Row[]} */ (rows);
    }
    const later = new Set(wanted.slice(index + 1).flatMap(({ subjects: needed }) => needed));
    for (const peer of chosen) if (!later.has(peer)) await subjects.stop(peer);
  }
  progress('');
  /** @type {Results} */
  const results = {
    machine: machineFacts(),
    rounds,
    seconds,
    versions: Object.fromEntries(subjects.versions),
    not_measured: Object.fromEntries(subjects.notMeasured),
    workloads: measured,
  };
  return { results, markdown: report(results) };
} // prettier-ignore

/** @param {string[]} [names] */
function checkNames(names = []) {
  for (const name of names) {
    if (!WORKLOADS.some((workload) => workload.name === name))
      throw new Error(`there is no workload "${name}"; --help lists them`);
  }
}
