import { type EpochMs, HOUR_MS } from '../../util/time.js';
import type { Token } from '../../domain/token.js';
import { EXPIRY_LOOK_BACK_MS } from '../webhook-store.js';
import type { Databases } from './databases.js';
import { expiringRange, type ExpiryKey } from './expiry-range.js';

/** The position up to which expired tokens were reported, in the order of the expiry index. */
export interface ExpiredCursor {
  /** Tokens that expired up to this time were reported. */
  readonly until: EpochMs;
  /** So were those of the next millisecond up to this id; undefined: none of them. */
  readonly id: string | undefined;
}

/** Reads the cursor. At first, past expiries count as reported. */
export function expiredCursor({ outbox }: Databases, now: EpochMs): ExpiredCursor {
  const stored = outbox.get(['expired_until']) ?? now;
  const until = Math.max(stored, now - EXPIRY_LOOK_BACK_MS);
  const part = outbox.get(['expired_part']);
  return { until, id: part?.until === until ? part.id : undefined };
}

/** Moves the cursor to the last of some keys; undefined: to now. Run it in a write transaction. */
export function moveCursor({ outbox }: Databases, last: ExpiryKey | undefined, now: EpochMs): void {
  if (last === undefined) {
    outbox.put(['expired_until'], now);
    outbox.remove(['expired_part']);
    return;
  }
  const [at, , id] = last;
  const until = at - 1;
  outbox.put(['expired_until'], until);
  outbox.put(['expired_part'], { until, id });
}

/** Whether a token's expiry lies at or before the cursor. */
export function isReported({ id, expiresAt }: Token, cursor: ExpiredCursor): boolean {
  if (expiresAt === null || expiresAt > cursor.until + 1) return false;
  return expiresAt <= cursor.until || (cursor.id !== undefined && id <= cursor.id);
}

/** Returns the keys of the first expired tokens after the cursor. */
export function expiredAfter(
  { expiry }: Databases,
  { until, id }: ExpiredCursor,
  now: EpochMs,
  limit: number,
): ExpiryKey[] {
  const range = expiringRange(until, now);
  const start: ExpiryKey = id === undefined ? range.start : [until + 1, 'token', id];
  const found: ExpiryKey[] = [];
  for (const key of expiry.getKeys({ ...range, start, exclusiveStart: true })) {
    if (key[1] === 'token') found.push(key);
    if (found.length === limit) break;
  }
  return found;
}

/** Whether no token expired after the cursor, and the cursor need not be written either. */
export function hasNoExpired(dbs: Databases, now: EpochMs): boolean {
  const stored = dbs.outbox.get(['expired_until']);
  if (stored === undefined || stored < now - HOUR_MS) return false;
  return expiredAfter(dbs, expiredCursor(dbs, now), now, 1).length === 0;
}
