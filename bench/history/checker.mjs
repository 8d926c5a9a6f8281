// The rules that a history must not break. Pure: it knows requests and answers, but not the
// processes behind them.
import { availabilityOf } from './availability.mjs';
import { runOf } from './record.mjs';

/** @import { Entry, Failover, Operation, Restore, Timed } from './record.mjs' */
/** @typedef {'done' | 'not_done' | 'accepted' | 'refused' | 'unknown' | 'unexpected'} Meaning */
/** @typedef {keyof typeof RULES} Rule */
/** @typedef {[rule: Rule, operations: Operation[]]} Broken */
/**
 * @typedef {{ rule: Rule, credential?: string, operations: Timed[], timeline: Timed[] }} Violation
 */
/** @typedef {ReturnType<typeof check>} Report */

/** Time until a revocation that was acknowledged, or observed, must hold everywhere. */
export const BOUND_MS = 2_000;

/** The rules, with the text for a credential that breaks each. */
export const RULES = {
  accepted: 'accepted more than 2 s after its revocation was acknowledged',
  came_back: 'accepted more than 2 s after it was seen revoked',
  lost: 'acknowledged, never revoked, and refused from then on',
  refused: 'acknowledged, never revoked, refused, and accepted again later',
  mistaken: 'accepted as another token',
  unexpected: 'an answer that no such request may get',
  unrecovered: 'a sidecar does not serve again, though everything is healed',
  undetected: 'an old copy of the store was put back, and the log does not say so',
};

const UNAVAILABLE = new Set([502, 503, 504]);
/** @type {Record<Operation['op'], Record<number, Meaning>>} */
const MEANINGS = {
  create: { 200: 'done', 400: 'not_done', 429: 'not_done' },
  use: { 200: 'accepted', 401: 'refused' },
  revoke: { 200: 'done', 204: 'done', 401: 'refused', 404: 'refused' },
};

/**
 * Returns what an answer means. `unknown`: the operation may have been done.
 *
 * @param {Pick<Operation, 'op' | 'status' | 'by'>} operation
 * @returns {Meaning}
 */
export function meaningOf({ op, status, by }) {
  if (status === null || UNAVAILABLE.has(status)) return 'unknown';
  // The revoking session itself is no longer valid, which says nothing about its target.
  if (op === 'revoke' && status === 401 && by !== undefined) return 'not_done';
  return MEANINGS[op][status] ?? 'unexpected';
}

/**
 * Checks a history.
 *
 * @param {readonly Entry[]} history in any order
 * @returns `lost` counts acknowledged credentials that a store without `lossless` forgot, for good or
 *   for a while; `setBack` counts those that an old copy could not know
 */
export function check(history) {
  const run = runOf(history);
  const operations = history.filter((entry) => entry.type === 'op');
  const events = history.filter((entry) => entry.type === 'event');
  const restores = events.filter((entry) => entry.event === 'old-copy');
  const failovers = events.filter((entry) => entry.event === 'failover');
  /** @type {Violation[]} */
  const violations = [
    ...eventsAs(
      'undetected',
      restores.filter(({ detected }) => !detected),
    ),
    ...eventsAs(
      'unrecovered',
      events.filter(({ event }) => event === 'unrecovered'),
    ),
  ];
  const byCredential = groupByCredential(operations);
  let [lost, setBack] = [0, 0];
  for (const [credential, all] of byCredential) {
    const timeline = all.toSorted((a, b) => a.start - b.start || a.end - b.end);
    const isSetBack = restores.some((restore) => changedSince(timeline, restore));
    if (isSetBack) setBack += 1;
    const found = isSetBack ? faultsOfAnswers(timeline) : faultsOf(timeline);
    for (const [rule, wrong] of found) {
      const isLost = rule === 'lost' || (rule === 'refused' && mayComeBack(timeline, failovers));
      if (isLost && !run.lossless) lost += 1;
      else violations.push({ rule, credential, operations: wrong, timeline });
    }
  }
  const wrong = new Set(violations.flatMap((each) => each.operations));
  return {
    operations: countOf(operations, (each) => `${each.op} ${meaningOf(each)}`),
    faults: countOf(history.filter((entry) => entry.type === 'fault'), ({ fault }) => fault),
    failovers: failovers.length,
    credentials: byCredential.size,
    lost,
    setBack,
    violations,
    availability: availabilityOf(history, (use) => !wrong.has(use) && meaningOf(use)),
  };
} // prettier-ignore

/**
 * @param {Rule} rule
 * @param {Timed[]} events
 */
function eventsAs(rule, events) {
  return events.map((event) => ({ rule, operations: [event], timeline: [event] }));
}

/**
 * Returns whether an old copy, made and restored meanwhile, may lack changes to a credential.
 *
 * @param {Operation[]} timeline
 * @param {Restore} restore
 */
function changedSince(timeline, restore) {
  return timeline.some(
    ({ op, start, end }) => op !== 'use' && end >= restore.copiedAt && start <= restore.end,
  );
}

/**
 * Returns whether a store without `lossless` may have forgotten a credential for a while: one
 * failover goes to a server that does not know it yet, and another one back.
 *
 * @param {Operation[]} timeline
 * @param {Failover[]} failovers
 */
function mayComeBack(timeline, failovers) {
  const [first, last] = [timeline[0]?.start ?? 0, timeline.at(-1)?.end ?? 0];
  return failovers.filter(({ start }) => start >= first && start <= last).length >= 2;
}

/**
 * Returns the rules that one credential breaks, each with the operations that break it.
 *
 * @param {Operation[]} timeline
 */
function faultsOf(timeline) {
  const faults = faultsOfAnswers(timeline);
  /**
   * @param {Operation['op']} op
   * @param {Meaning[]} meanings
   */
  const of = (op, ...meanings) =>
    timeline.filter((each) => each.op === op && meanings.includes(meaningOf(each)));
  const attempts = of('revoke', 'done', 'unknown', 'unexpected');
  const attemptedAt = Math.min(...attempts.map(({ start }) => start));
  const refusals = [...of('use', 'refused'), ...of('revoke', 'refused')];
  const accepted = of('use', 'accepted');

  const acknowledgedAt = Math.min(...of('revoke', 'done').map(({ end }) => end));
  const late = accepted.filter(({ start }) => start > acknowledgedAt + BOUND_MS);
  if (late.length > 0) faults.push(['accepted', late]);

  const seenAt = Math.min(...refusals.map(({ end }) => end).filter((end) => end >= attemptedAt));
  const back = accepted.filter((use) => use.start > seenAt + BOUND_MS && !late.includes(use));
  if (back.length > 0) faults.push(['came_back', back]);

  const early = refusals.filter(({ end }) => end < attemptedAt);
  if (early.length > 0) {
    const refusedAt = Math.min(...early.map(({ end }) => end));
    const again = accepted.some(({ start }) => start > refusedAt + BOUND_MS);
    faults.push([again ? 'refused' : 'lost', early]);
  }
  return faults;
}

/**
 * Returns what is wrong independent of earlier operations.
 *
 * @param {Operation[]} timeline
 */
function faultsOfAnswers(timeline) {
  const unexpected = timeline.filter((each) => meaningOf(each) === 'unexpected');
  const mistaken = timeline.filter(
    (each) => meaningOf(each) === 'accepted' && each.told !== undefined && each.told !== each.id,
  );
  /** @type {Broken[]} */
  const all = [
    ['unexpected', unexpected],
    ['mistaken', mistaken],
  ];
  return all.filter(([, operations]) => operations.length > 0);
}

/**
 * Groups operations by credential; a creation without an answer names none.
 *
 * @param {Operation[]} operations
 */
function groupByCredential(operations) {
  /** @type {Map<string, Operation[]>} */
  const groups = new Map();
  for (const operation of operations) {
    const { credential } = operation;
    if (credential === null) continue;
    const group = groups.get(credential);
    if (group === undefined) groups.set(credential, [operation]);
    else group.push(operation);
  }
  return groups;
}

/**
 * Counts items by name.
 *
 * @template T
 * @param {T[]} all
 * @param {(each: T) => string} nameOf
 */
function countOf(all, nameOf) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const each of all) counts[nameOf(each)] = (counts[nameOf(each)] ?? 0) + 1;
  return counts;
}
