import type { WritesLeft } from '../accounts/write-limit.js';
import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import { formatTime } from '../util/time.js';

const NONE: readonly string[] = [];

/** When a response states the expiry of the request's token, and in which field (`tokens.warn_before`). */
export interface ExpiryWarning {
  readonly name: string;
  readonly before: number;
}

/** Returns the field with the expiry of a token that expires soon. */
export function expiryFields(warning: ExpiryWarning | null, subject: Subject | null): readonly string[] {
  if (warning === null || subject === null) return NONE;
  // JWTs are short-lived by design, and cannot be renewed here.
  if (subject.credential === 'session' || subject.credential === 'jwt') return NONE;
  const { expiresAt } = subject.token;
  if (expiresAt === null || expiresAt - Date.now() > warning.before) return NONE;
  return [warning.name, formatTime(expiresAt)];
}

export interface RateLimitNames {
  readonly remaining: string;
  readonly reset: string;
}

/** Returns the fields with the user's remaining writes; none when the request was not counted. */
export function rateLimitFields(names: RateLimitNames, writes: WritesLeft | undefined): readonly string[] {
  if (writes === undefined) return NONE;
  const left = Math.max(0, writes.remaining);
  return [names.remaining, String(left), names.reset, String(Math.floor(writes.resetAt / 1000))];
}

/** Returns the same fields for a refusal because of the write limit; none for any other refusal. */
export function refusedLimitFields(names: RateLimitNames, refusal: Refusal): readonly string[] {
  if (refusal.refusal !== 'rate_limited') return NONE;
  return rateLimitFields(names, { remaining: 0, resetAt: refusal.resetAt });
}
