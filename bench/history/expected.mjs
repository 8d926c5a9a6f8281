// When a credential must be refused, and when it may be, given the changes in its timeline.
import { meaningOf } from './meaning.mjs';

/** @import { Failover, Operation } from './record.mjs' */
/** @typedef {ReturnType<typeof expectationsOf>} Expectations */

/** How long after its end a change without an answer may still take effect, in milliseconds. */
export const LATE_MS = 20_000;
/** An overlap lasts to the end of a second. */
const SECOND_MS = 1_000;
/** Changes of a whole account that end its sessions. */
const ENDS_SESSIONS = new Set(['end-others', 'lock', 'set-password']);
/** What refuses a token for a while, and what ends that. */
const SWITCHES = [
  ['suspend', 'resume'],
  ['lock', 'unlock'],
];

/**
 * Returns what a credential's changes mean for its uses.
 *
 * @param {readonly Operation[]} timeline its operations, those on its owner's account, and
 *   suspensions and revocations of the tokens that it came from
 * @param {{ boundMs: number, failovers: readonly Failover[] }} run `failovers`:
 *   those that may have lost the end of a suspension or lock
 */
export function expectationsOf(timeline, { boundMs, failovers }) {
  const created = timeline.find((each) => each.op === 'create');
  const kind = created?.kind ?? timeline[0].kind;
  /** @param {Operation} change */
  const isLaterThanCreation = ({ start }) => created === undefined || start >= created.end;
  // A revocation reaches all that came from a token; its rotation ends only itself.
  const own = timeline.filter(({ credential, op }) => op === 'revoke' || credential === null || credential === (created ?? timeline[0]).credential);
  const ends = own.filter((each) => mayHappen(each) && isEnd(each, kind, created)).map((each) => {
    const overlap = each.op === 'rotate' ? (each.overlap ?? 0) : 0;
    const isDone = meaningOf(each) === 'done' && isLaterThanCreation(each);
    return {
      from: each.start + overlap,
      by: isDone ? each.end + overlap + (overlap > 0 ? SECOND_MS : 0) : Infinity,
    };
  });
  const switches = kind === 'session' ? [] : SWITCHES.map(([off, on]) => ({
    offs: timeline.filter((each) => each.op === off && mayHappen(each)),
    ons: timeline.filter((each) => each.op === on && mayHappen(each)),
  }));
  return {
    /** When it must have ended, and when it may have. */
    endedAt: Math.min(...ends.map(({ by }) => by)),
    mayEndAt: Math.min(...ends.map(({ from }) => from)),
    /** @param {Operation} use */
    mustBeOff: (use) =>
      switches.some(({ offs, ons }) =>
        offs.some(
          (off) =>
            meaningOf(off) === 'done' &&
            (off.credential !== null || isLaterThanCreation(off)) &&
            off.end + boundMs < use.start &&
            !ons.some((on) => on.start <= use.end && effectiveBy(on) >= off.start),
        ),
      ),
    /** @param {Operation} use */
    mayBeOff: (use) =>
      switches.some(({ offs, ons }) =>
        offs.some(
          (off) =>
            off.start <= use.end &&
            !ons.some(
              (on) =>
                meaningOf(on) === 'done' &&
                on.start >= effectiveBy(off) &&
                on.end + boundMs <= use.start &&
                !failovers.some(({ end }) => end >= on.start),
            ),
        ),
      ),
  };
} // prettier-ignore

/**
 * @param {Operation} operation
 * @param {Operation['kind']} kind
 * @param {Operation | undefined} created
 */
function isEnd({ op, by, end }, kind, created) {
  if (op === 'revoke' || op === 'rotate') return true;
  if (kind !== 'session' || !ENDS_SESSIONS.has(op)) return false;
  return by !== created?.credential && end >= (created?.start ?? 0);
}

/** @param {Operation} operation */
function mayHappen(operation) {
  return ['done', 'unknown', 'unexpected'].includes(meaningOf(operation));
}

/** @param {Operation} operation */
function effectiveBy(operation) {
  return meaningOf(operation) === 'done' ? operation.end : operation.end + LATE_MS;
}
