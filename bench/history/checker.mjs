// What a history may not hold. Pure: it knows requests and answers, and nothing of who gave them.
import { availabilityOf } from './availability.mjs';

/** A revocation that was acknowledged, or seen, this long ago holds everywhere. */
export const BOUND_MS = 2_000;

/** The rules, with what is said of a credential that breaks one. */
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

const UNAVAILABLE = new Set([null, 502, 503, 504]);
const MEANINGS = {
  create: { 200: 'done', 400: 'not_done', 429: 'not_done' },
  use: { 200: 'accepted', 401: 'refused' },
  revoke: { 200: 'done', 204: 'done', 401: 'refused', 404: 'refused' },
};

/** What an answer says: `done`, `not_done`, `accepted`, `refused`, `unknown` (it may have been done), or `unexpected`. */
export function meaningOf({ op, status, by }) {
  if (UNAVAILABLE.has(status)) return 'unknown';
  // The one who revokes is not known any more; that tells nothing of what was to be revoked.
  if (op === 'revoke' && status === 401 && by !== undefined) return 'not_done';
  return MEANINGS[op][status] ?? 'unexpected';
}

/**
 * Checks a history.
 *
 * @param {object[]} history entries as `record.mjs` describes them, in any order
 * @returns {{ operations, failovers, faults, credentials, lost, setBack, violations, availability }} `lost` counts
 *   acknowledged credentials that a store which is not `lossless` forgot; `setBack` those that an old copy could
 *   not know; each violation is `{ rule, credential, operations, timeline }`
 */
export function check(history) {
  const run = history.find(({ type }) => type === 'run') ?? {};
  const operations = history.filter(({ type }) => type === 'op');
  const restores = history.filter(({ event }) => event === 'old-copy');
  const violations = [
    ...eventsAs(
      'undetected',
      restores.filter(({ detected }) => !detected),
    ),
    ...eventsAs(
      'unrecovered',
      history.filter(({ event }) => event === 'unrecovered'),
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
      if (rule === 'lost' && !run.lossless) lost += 1;
      else violations.push({ rule, credential, operations: wrong, timeline });
    }
  }
  const wrong = new Set(violations.flatMap((each) => each.operations));
  return {
    operations: countOf(operations, (each) => `${each.op} ${meaningOf(each)}`),
    faults: countOf(history.filter(({ type }) => type === 'fault'), ({ fault }) => fault),
    failovers: history.filter(({ event }) => event === 'failover').length,
    credentials: byCredential.size,
    lost,
    setBack,
    violations,
    availability: availabilityOf(history, (use) => !wrong.has(use) && meaningOf(use)),
  };
} // prettier-ignore

function eventsAs(rule, events) {
  return events.map((event) => ({ rule, operations: [event], timeline: [event] }));
}

/** Whether an old copy, made and put back meanwhile, can't know all that was done to a credential. */
function changedSince(timeline, restore) {
  return timeline.some(
    ({ op, start, end }) => op !== 'use' && end >= restore.copiedAt && start <= restore.end,
  );
}

/** The rules that one credential breaks, each with the operations that break it. */
function faultsOf(timeline) {
  const faults = faultsOfAnswers(timeline);
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

/** What is wrong whatever happened before. */
function faultsOfAnswers(timeline) {
  const unexpected = timeline.filter((each) => meaningOf(each) === 'unexpected');
  const mistaken = timeline.filter(
    (each) => meaningOf(each) === 'accepted' && each.told !== undefined && each.told !== each.id,
  );
  return [
    ['unexpected', unexpected],
    ['mistaken', mistaken],
  ].filter(([, operations]) => operations.length > 0);
}

/** The operations on each credential; a creation without an answer names none. */
function groupByCredential(operations) {
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

/** How many there are of each name. */
function countOf(all, nameOf) {
  const counts = {};
  for (const each of all) counts[nameOf(each)] = (counts[nameOf(each)] ?? 0) + 1;
  return counts;
}
