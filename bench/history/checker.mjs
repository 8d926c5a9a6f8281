// The rules that a history must not break. Pure: it knows requests and answers, but not the
// processes behind them.
import { availabilityOf } from './availability.mjs';
import { expectationsOf } from './expected.mjs';
import { meaningOf } from './meaning.mjs';
import { runOf } from './record.mjs';

/** @import { Entry, Failover, Operation, Run, Timed } from './record.mjs' */
/** @typedef {keyof typeof RULES} Rule */
/** @typedef {[rule: Rule, operations: Operation[]]} Broken */
/**
 * @typedef {{ rule: Rule, credential?: string, operations: Timed[], timeline: Timed[] }} Violation
 */
/** @typedef {ReturnType<typeof check>} Report */

/**
 * Time until a revocation that was acknowledged, or observed, must hold everywhere. Without faults,
 * a notification takes less, and with the embedded store it holds at once.
 */
export const BOUND_MS = 2_000;
const FAULTLESS_BOUND_MS = 50;

/** Changes of a token that reach all that came from it by rotation. */
const REACHING = new Set(['suspend', 'resume', 'revoke']);

/** The rules, with the text for a credential that breaks each. */
export const RULES = {
  accepted: 'accepted though its revocation was acknowledged',
  came_back: 'accepted though it was seen revoked',
  let_in: 'accepted while it was suspended, or while its owner was locked',
  twice: 'replaced by two rotations without an overlap',
  reused: 'a one-time password that was accepted twice',
  lost: 'acknowledged, never revoked, and refused from then on',
  refused: 'acknowledged, never revoked, refused, and accepted again later',
  mistaken: 'accepted as another token',
  unexpected: 'an answer that no such request may get',
  unrecovered: 'a sidecar does not serve again, though everything is healed',
};

/**
 * Checks a history.
 *
 * @param {readonly Entry[]} history in any order
 * @returns `lost` counts acknowledged credentials that a store without `lossless` forgot, for good or
 *   for a while
 */
export function check(history) {
  const run = runOf(history);
  const operations = history.filter((entry) => entry.type === 'op');
  const events = history.filter((entry) => entry.type === 'event');
  const failovers = events.filter((entry) => entry.event === 'failover');
  /** @type {Violation[]} */
  const violations = [
    ...eventsAs(
      'unrecovered',
      events.filter(({ event }) => event === 'unrecovered'),
    ),
  ];
  const byCredential = groupBy(operations, ({ credential }) => credential ?? undefined);
  const ofAccounts = groupBy(operations, ({ credential, op, user }) =>
    credential === null && op !== 'create' ? user : undefined,
  );
  let lost = 0;
  for (const [credential, all] of byCredential) {
    const ofAccount = ofAccounts.get(all[0].user ?? '') ?? [];
    const timeline = [...all, ...ofAccount, ...inheritedBy(all, byCredential)].toSorted(
      (a, b) => a.start - b.start || a.end - b.end,
    );
    for (const [rule, wrong] of faultsOf(timeline, run, failovers)) {
      const isLost = rule === 'lost' || (rule === 'reused' && spansFailover(wrong, failovers)) || (rule === 'refused' && mayComeBack(timeline, failovers));
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
 * Returns the suspensions and revocations of the tokens that a token came from, which reach it too.
 *
 * @param {Operation[]} operations of the token
 * @param {Map<string, Operation[]>} byCredential
 * @returns {Operation[]}
 */
function inheritedBy(operations, byCredential) {
  const created = operations.find(({ predecessor }) => predecessor !== undefined);
  const before = created?.predecessor === undefined ? undefined : byCredential.get(created.predecessor);
  if (before === undefined) return [];
  return [...before, ...inheritedBy(before, byCredential)].filter(({ op }) => REACHING.has(op));
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
 * Returns whether a store without `lossless` may have forgotten the first of some uses.
 *
 * @param {Operation[]} operations
 * @param {Failover[]} failovers
 */
function spansFailover(operations, failovers) {
  const from = Math.min(...operations.map(({ start }) => start));
  const until = Math.max(...operations.map(({ end }) => end));
  return failovers.some(({ start, end }) => end >= from && start <= until);
}

/**
 * Returns the rules that one credential breaks, each with the operations that break it.
 *
 * @param {Operation[]} timeline
 * @param {Partial<Run>} run
 * @param {Failover[]} failovers
 */
function faultsOf(timeline, { store, kinds }, failovers) {
  const faults = faultsOfAnswers(timeline);
  const usual = kinds?.length === 0 ? FAULTLESS_BOUND_MS : BOUND_MS;
  const boundMs = store === 'lmdb' ? 0 : usual;
  const expected = expectationsOf(timeline, { boundMs, failovers });
  const { credential } = timeline.find(({ op }) => op === 'create') ?? timeline[0];
  const own = timeline.filter((each) => each.credential === credential);
  const accepted = own.filter(isAcceptance);

  const late = accepted.filter(({ start }) => start > expected.endedAt + boundMs);
  if (late.length > 0) faults.push(['accepted', late]);
  const letIn = accepted.filter((use) => expected.mustBeOff(use) && !late.includes(use));
  if (letIn.length > 0) faults.push(['let_in', letIn]);
  const codes = own.filter((each) => each.op === 'code' && meaningOf(each) === 'done');
  if (codes.length > 1) faults.push(['reused', codes]);
  const rotations = own.filter((each) => each.op === 'rotate' && each.overlap === 0);
  const replaced = rotations.filter((each) => meaningOf(each) === 'done');
  if (replaced.length > 1) faults.push(['twice', replaced]);

  const refusals = own.filter((each) => meaningOf(each) === 'refused' && !expected.mayBeOff(each));
  const seenAt = Math.min(...refusals.map(({ end }) => end).filter((end) => end >= expected.mayEndAt));
  const back = accepted.filter((use) => use.start > seenAt + boundMs && !late.includes(use));
  if (back.length > 0) faults.push(['came_back', back]);

  const early = refusals.filter(({ end }) => end < expected.mayEndAt);
  if (early.length > 0) {
    const refusedAt = Math.min(...early.map(({ end }) => end));
    const again = accepted.some(({ start }) => start > refusedAt + boundMs);
    faults.push([again ? 'refused' : 'lost', early]);
  }
  return faults;
}

/**
 * Returns whether an answer shows that the credential itself was accepted.
 *
 * @param {Operation} operation
 */
function isAcceptance(operation) {
  const { op, by } = operation;
  return op === 'use'
    ? meaningOf(operation) === 'accepted'
    : op === 'rotate' && by === undefined && meaningOf(operation) === 'done';
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
 * Groups operations by name; a creation without an answer names no credential.
 *
 * @param {Operation[]} operations
 * @param {(operation: Operation) => string | undefined} nameOf undefined: in no group
 */
function groupBy(operations, nameOf) {
  /** @type {Map<string, Operation[]>} */
  const groups = new Map();
  for (const operation of operations) {
    const name = nameOf(operation);
    if (name === undefined) continue;
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [operation]);
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
