// Describes a checked history as text.
import { RULES } from './checker.mjs';
import { meaningOf } from './meaning.mjs';
import { runOf } from './record.mjs';

/** @import { Report, Violation } from './checker.mjs' */
/** @import { Entry, Failover, Operation, Run, Timed, Unrecovered } from './record.mjs' */

/** Bounds while one of three servers is unavailable. */
export const BOUNDS = { availability: 0.95, gapMs: 3_000 };
const SHOWN = 5;

/**
 * Returns whether the bounds on availability hold. They apply to stores that survive the loss of a
 * server.
 *
 * @param {Report} report
 * @param {Partial<Run>} run
 */
export function boundsHold({ availability }, { store }) {
  if (store !== 'sentinel' && store !== 'cluster') return true;
  const { whileGone, gap } = availability;
  return (whileGone ?? 1) >= BOUNDS.availability && (gap ?? 0) <= BOUNDS.gapMs;
}

/**
 * Returns the report as text.
 *
 * @param {Report} report
 * @param {readonly Entry[]} history the checked entries
 */
export function describe(report, history) {
  const { store, seed, acknowledge = 0, lossless } = runOf(history);
  const { all, whileGone, gap, changes, changesOfUnaffected } = report.availability;
  const lines = [
    `store         ${store}${acknowledge > 0 ? `, acknowledged by ${acknowledge} replica` : ''}, seed ${seed}`,
    `operations    ${listOf(report.operations)}`,
    `faults        ${listOf(report.faults)}; failovers ${report.failovers}`,
    `credentials   ${report.credentials} acknowledged${lossless ? '' : `, ${report.lost} of them lost`}`,
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

/**
 * Returns all events of a violation's credential, with the faults meanwhile.
 *
 * @param {Violation} violation
 * @param {readonly Entry[]} history
 */
function timelineOf({ rule, credential, operations, timeline }, history) {
  const [from, to] = [timeline[0].start, timeline[timeline.length - 1].end];
  const around = history.filter((entry) => entry.type === 'fault' || entry.type === 'event').filter(({ start, end }) => start <= to && end >= from);
  const wrong = new Set(operations);
  /** @type {Timed[][]} */
  const lines = [];
  for (const entry of [...timeline, ...around].toSorted((a, b) => a.start - b.start)) {
    const last = lines.at(-1);
    if (last !== undefined && belongTogether(last, entry, wrong)) last.push(entry);
    else lines.push([entry]);
  }
  const id = timeline[0].type === 'op' ? timeline[0].id : null;
  const name = [credential, id].filter((each) => each !== undefined && each !== null).join(' ');
  return [`${name}: ${RULES[rule]}`, ...lines.map((entries) => lineOf(entries, wrong))];
} // prettier-ignore

/**
 * Returns whether uses can share a line: those with the same outcome do, and those without an
 * answer fit either.
 *
 * @param {Timed[]} entries
 * @param {Timed} next
 * @param {Set<Timed>} wrong
 */
function belongTogether(entries, next, wrong) {
  /**
   * @param {Timed} entry
   * @returns {entry is Operation}
   */
  const isPlain = (entry) => entry.type === 'op' && entry.op === 'use' && !wrong.has(entry);
  if (!entries.every(isPlain) || !isPlain(next)) return false;
  const said = entries.map(meaningOf).find((meaning) => meaning !== 'unknown');
  return said === undefined || ['unknown', said].includes(meaningOf(next));
}

/**
 * @param {Timed[]} entries
 * @param {Set<Timed>} wrong
 */
function lineOf(entries, wrong) {
  const times = [entries[0].start, Math.max(...entries.map(({ end }) => end))].map(seconds);
  const mark = wrong.has(entries[0]) ? '!' : ' ';
  return `${mark} ${times[0].padStart(9)} to ${times[1].padStart(9)}  ${textOf(entries)}`;
}

/** @param {Timed[]} entries */
function textOf(entries) {
  const [first] = entries;
  if (first.type === 'fault') return `--- ${first.fault}: ${first.target}`;
  if (first.type === 'event') return textOfEvent(first);
  if (first.op !== 'use' || entries.length === 1) return `${first.op} at ${answerOf(first)}`;
  const answers = new Map();
  for (const entry of /** @type {Operation[]} */ (entries))
    answers.set(answerOf(entry), (answers.get(answerOf(entry)) ?? 0) + 1);
  return `${entries.length} uses, ${[...answers].map(([answer, count]) => `${answer} × ${count}`).join(', ')}`;
}

/** @param {Failover | Unrecovered} entry */
function textOfEvent(entry) {
  if (entry.event === 'failover') return `--- failover ${entry.to}`;
  const servers = (entry.servers ?? []).map((server) => JSON.stringify(server));
  return [`--- unrecovered ${entry.sidecar}`, ...servers, ...(entry.log ?? [])].join('\n    ');
}

/** @param {Operation} operation */
function answerOf({ sidecar, final, status, error }) {
  return `sidecar ${sidecar}${final ? ' at the end' : ''}: ${status ?? `no answer (${error})`}`;
}

/** @param {Record<string, number>} counts */
function listOf(counts) {
  const names = Object.keys(counts).toSorted();
  return names.length === 0 ? 'none' : names.map((name) => `${name} ${counts[name]}`).join(', ');
}

/** @param {number | null} share */
function percent(share) {
  return share === null ? '–' : `${(share * 100).toFixed(2)} %`;
}

/** @param {number | null} ms */
function seconds(ms) {
  return ms === null ? '–' : `${(ms / 1_000).toFixed(2)} s`;
}
