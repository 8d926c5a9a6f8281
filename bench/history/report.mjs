// What a checked history says, for people.
import { meaningOf, RULES } from './checker.mjs';

/** Bounds while one server of three is gone. */
export const BOUNDS = { availability: 0.95, gapMs: 3_000 };
const SHOWN = 5;

/** Whether the bounds on availability hold; they are asked of stores that outlive the loss of a server. */
export function boundsHold({ availability }, run) {
  if (!['sentinel', 'cluster'].includes(run.store)) return true;
  const { whileGone, gap } = availability;
  return (whileGone ?? 1) >= BOUNDS.availability && (gap ?? 0) <= BOUNDS.gapMs;
}

/** The report as text. @param history the entries that were checked */
export function describe(report, history) {
  const run = history.find(({ type }) => type === 'run') ?? {};
  const { all, whileGone, gap, changes, changesOfUnaffected } = report.availability;
  const lines = [
    `store         ${run.store}${run.acknowledge > 0 ? `, acknowledged by ${run.acknowledge} replica` : ''}, seed ${run.seed}`,
    `operations    ${listOf(report.operations)}`,
    `faults        ${listOf(report.faults)}; failovers ${report.failovers}`,
    `credentials   ${report.credentials} acknowledged${run.lossless ? '' : `, ${report.lost} of them lost`}${report.setBack > 0 ? `, ${report.setBack} that an old copy could not know` : ''}`,
    `availability  ${percent(all)} of uses, ${percent(whileGone)} while a server was gone; longest gap ${seconds(gap)}`,
    `changes       ${percent(changes)} acknowledged, ${percent(changesOfUnaffected)} of those asked of sidecars without a fault of their own`,
    `violations    ${report.violations.length}`,
  ];
  for (const [rule, text] of Object.entries(RULES)) {
    const count = report.violations.filter((violation) => violation.rule === rule).length;
    if (count > 0) lines.push(`  ${String(count).padStart(5)}  ${text}`);
  }
  for (const violation of report.violations.slice(0, SHOWN))
    lines.push('', ...timelineOf(violation, history));
  if (report.violations.length > SHOWN) lines.push('', `and ${report.violations.length - SHOWN} more`);
  return lines.join('\n');
}

/** All that happened to the credential of a violation, with the faults meanwhile. */
function timelineOf({ rule, credential, operations, timeline }, history) {
  const [from, to] = [timeline[0].start, timeline.at(-1).end];
  const around = history.filter(({ type, start, end }) => ['fault', 'event'].includes(type) && start <= to && end >= from);
  const wrong = new Set(operations);
  const lines = [];
  for (const entry of [...timeline, ...around].toSorted((a, b) => a.start - b.start)) {
    const last = lines.at(-1);
    if (last !== undefined && belongTogether(last, entry, wrong)) last.push(entry);
    else lines.push([entry]);
  }
  const name = [credential, timeline[0].id].filter((each) => each !== undefined && each !== null).join(' ');
  return [`${name}: ${RULES[rule]}`, ...lines.map((entries) => lineOf(entries, wrong))];
} // prettier-ignore

/** Uses that say the same are told in one line; those without an answer go with either. */
function belongTogether(entries, next, wrong) {
  const isPlain = (entry) => entry.op === 'use' && !wrong.has(entry);
  if (!entries.every(isPlain) || !isPlain(next)) return false;
  const said = entries.map(meaningOf).find((meaning) => meaning !== 'unknown');
  return said === undefined || ['unknown', said].includes(meaningOf(next));
}

function lineOf(entries, wrong) {
  const times = [entries[0].start, Math.max(...entries.map(({ end }) => end))].map(seconds);
  const mark = wrong.has(entries[0]) ? '!' : ' ';
  return `${mark} ${times[0].padStart(9)} to ${times[1].padStart(9)}  ${textOf(entries)}`;
}

function textOf(entries) {
  const [first] = entries;
  if (first.type === 'fault') return `--- ${first.fault}: ${first.target}`;
  if (first.type === 'event') return textOfEvent(first);
  if (first.op !== 'use' || entries.length === 1) return `${first.op} at ${answerOf(first)}`;
  const answers = new Map();
  for (const entry of entries) answers.set(answerOf(entry), (answers.get(answerOf(entry)) ?? 0) + 1);
  return `${entries.length} uses, ${[...answers].map(([answer, count]) => `${answer} × ${count}`).join(', ')}`;
}

function textOfEvent({ event, to, sidecar, servers, log }) {
  const name = [event, to, sidecar].filter((each) => each !== undefined).join(' ');
  const more = [...(servers ?? []).map((server) => JSON.stringify(server)), ...(log ?? [])];
  return [`--- ${name}`, ...more].join('\n    ');
}

function answerOf({ sidecar, final, status, error }) {
  return `sidecar ${sidecar}${final ? ' at the end' : ''}: ${status ?? `no answer (${error})`}`;
}

function listOf(counts) {
  const names = Object.keys(counts).toSorted();
  return names.length === 0 ? 'none' : names.map((name) => `${name} ${counts[name]}`).join(', ');
}

function percent(share) {
  return share === null ? '–' : `${(share * 100).toFixed(2)} %`;
}

function seconds(ms) {
  return ms === null ? '–' : `${(ms / 1_000).toFixed(2)} s`;
}
