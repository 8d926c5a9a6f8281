import { type EpochMs, LAST_TIME, wholeSecond } from '../util/time.js';
import type { Token } from './token.js';

export interface RotationTerms {
  readonly id: string;
  readonly digest: string;
  /** Milliseconds for which the old token is still accepted; 0 ends it immediately. */
  readonly overlap: number;
  readonly maxLifetime: number | null;
  readonly notAfter: EpochMs | null;
  /** Whether both tokens share a rate bucket, so that a token cannot evade its rate by rotating itself. */
  readonly sharesRate: boolean;
}

/** Both tokens after a rotation, and the old token as it was read. */
export interface Rotation {
  readonly before: Token;
  readonly old: Token;
  readonly replacement: Token;
}

/**
 * Computes the rotation of a token. The replacement has the lifetime that the old token was created with, and
 * all else of it. The old token ends after the overlap, never later than before.
 */
export function rotationOf(before: Token, terms: RotationTerms, now: EpochMs): Rotation {
  const { declared: _, rotated: __, predecessorId: ___, rateId, ...kept } = before;
  const at = wholeSecond(now);
  // Strictly later, so that a concurrent change based on the earlier record is detected.
  const updatedAt = Math.max(at, before.updatedAt + 1);
  return {
    before,
    old: {
      ...before,
      updatedAt,
      expiresAt: Math.min(endOf(now, terms.overlap), before.expiresAt ?? Infinity),
      rotated: { to: terms.id, ...(terms.overlap === 0 ? { atOnce: true as const } : {}) },
    },
    replacement: {
      ...kept,
      id: terms.id,
      digest: terms.digest,
      predecessorId: before.id,
      createdAt: at,
      updatedAt,
      expiresAt: expiryOf(at, lifetimeOf(before), terms),
      ...(terms.sharesRate ? { rateId: rateId ?? before.id } : {}),
    },
  };
}

function lifetimeOf({ expiresAt, createdAt }: Token): number | null {
  return expiresAt === null ? null : expiresAt - createdAt;
}

/** Rounds the end of an overlap up to a whole second. */
function endOf(now: EpochMs, overlap: number): EpochMs {
  return overlap === 0 ? wholeSecond(now) : wholeSecond(now + overlap + 999);
}

function expiryOf(from: EpochMs, lifetime: number | null, { maxLifetime, notAfter }: RotationTerms): EpochMs | null {
  const lasts = Math.min(lifetime ?? Infinity, maxLifetime ?? Infinity);
  const at = Math.min(from + lasts, notAfter ?? Infinity);
  return at === Infinity ? null : wholeSecond(Math.min(at, LAST_TIME));
} // prettier-ignore
