import type { EpochMs } from '../../util/time.js';
import type { Expiring } from './databases.js';

/** Sorts after every kind in a key. */
const LAST_KIND = '\uffff' as Expiring;

export type ExpiryKey = [EpochMs, Expiring, string];

/** Returns the range of index keys that have expired; a declared token may do so before 1970. */
export function expiredRange(now: EpochMs): { start: ExpiryKey; end: ExpiryKey } {
  return { start: [-Infinity, 'failure', ''], end: [now, LAST_KIND, ''] };
}

/** Returns the range of index keys with a time after `from`, up to and including `until`. */
export function expiringRange(from: EpochMs, until: EpochMs): { start: ExpiryKey; end: ExpiryKey } {
  return { start: [from, LAST_KIND, ''], end: [until, LAST_KIND, ''] };
}
