// Computes the share of answered uses, the longest gap without answers, and the share of
// acknowledged changes.

/** @import { Meaning } from './meaning.mjs' */
/** @import { Entry, Fault, Operation } from './record.mjs' */

/** Time for a sidecar to recover after it was itself paused or cut off. */
const RECOVERY_MS = 2_000;
/** @type {ReadonlySet<Meaning | false>} */
const RIGHT = new Set(['accepted', 'refused', 'done']);

/**
 * Returns the share of uses correctly answered with 200 or 401, and the longest time without such
 * an answer at one sidecar, in milliseconds. Excludes the read-back, and requests to a sidecar
 * during a fault of its own.
 *
 * @param {readonly Entry[]} history
 * @param {(operation: Operation) => Meaning | false} meaning of a use; false if it broke a rule
 * @returns shares from 0 to 1, each null if there were no requests: of uses, and of correctly
 *   answered changes, also without those sent to a sidecar during a fault of its own
 */
export function availabilityOf(history, meaning) {
  const operations = history.filter((entry) => entry.type === 'op').filter(({ final }) => !final);
  const uses = operations.filter(({ op }) => op === 'use');
  const faults = history.filter((entry) => entry.type === 'fault');
  const gone = faults.filter((fault) => fault.gone);
  /** @param {number} sidecar */
  const ownOf = (sidecar) => faults.filter((fault) => fault.sidecar === sidecar);
  const owns = new Map(uses.map(({ sidecar }) => [sidecar, ownOf(sidecar)]));
  /** @param {Operation} operation */
  const isUnaffected = ({ sidecar, start, end }) => !overlaps(owns.get(sidecar) ?? ownOf(sidecar), start, end);
  const judged = uses.filter(isUnaffected);
  const changes = operations.filter(({ op }) => op !== 'use');
  /** @param {Operation} operation */
  const isRight = (operation) => RIGHT.has(meaning(operation));
  /** @param {Operation[]} some */
  const share = (some) => (some.length === 0 ? null : some.filter(isRight).length / some.length);
  let gap = null;
  for (const [sidecar, own] of owns) {
    const times = uses
      .filter((use) => use.sidecar === sidecar && isRight(use))
      .map(({ end }) => end)
      .toSorted((a, b) => a - b);
    const firsts = uses.filter((use) => use.sidecar === sidecar).map(({ start }) => start);
    const ends = [firsts.reduce((a, b) => Math.min(a, b)), ...times, firsts.reduce((a, b) => Math.max(a, b))];
    for (let i = 1; i < ends.length; i++)
      if (!overlaps(own, ends[i - 1], ends[i])) gap = Math.max(gap ?? 0, ends[i] - ends[i - 1]);
  }
  const during = judged.filter(({ start }) => gone.some((fault) => start >= fault.start && start <= fault.end));
  return {
    all: share(judged),
    whileGone: share(during),
    gap,
    changes: share(changes),
    changesOfUnaffected: share(changes.filter(isUnaffected)),
  };
} // prettier-ignore

/**
 * @param {Fault[]} faults
 * @param {number} start
 * @param {number} end
 */
function overlaps(faults, start, end) {
  return faults.some((fault) => start <= fault.end + RECOVERY_MS && end >= fault.start);
}
