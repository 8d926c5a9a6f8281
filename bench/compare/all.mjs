// A whole run.
import { machineFacts } from '../lib/machine.mjs';
import { progress } from '../lib/output.mjs';
import { measureWorkload } from './measure.mjs';
import { report } from './report.mjs';
import { openPlace, Subjects } from './subjects.mjs';
import { WORKLOADS } from './workloads.mjs';

/** @param {{ rounds: number, seconds: number, only?: string[], workloads?: string[] }} options */
export async function compareAll({ rounds, seconds, only, workloads }) {
  checkNames(workloads);
  const isChosen = ({ name }) => only === undefined || only.some((part) => name.toLowerCase().includes(part));
  const isWanted = ({ name }) => workloads === undefined || workloads.includes(name);
  const place = await openPlace();
  const subjects = new Subjects(place);
  const measured = {};
  const wanted = WORKLOADS.filter(isWanted);
  for (const [index, workload] of wanted.entries()) {
    const chosen = workload.subjects.filter(isChosen);
    const took = {
      rounds: workload.rounds === 'all' ? rounds : Math.ceil(rounds / 2),
      seconds: workload.seconds === 'all' ? seconds : Math.ceil(seconds / 2),
    };
    const { measure = measureWorkload } = workload;
    if (chosen.length > 0) measured[workload.name] = await measure(workload, chosen, subjects, place, took);
    const later = new Set(wanted.slice(index + 1).flatMap(({ subjects: needed }) => needed));
    for (const peer of chosen) if (!later.has(peer)) await subjects.stop(peer);
  }
  progress('');
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

function checkNames(names = []) {
  for (const name of names) {
    if (!WORKLOADS.some((workload) => workload.name === name))
      throw new Error(`there is no workload "${name}"; --help lists them`);
  }
}
