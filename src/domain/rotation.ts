import { type EpochMs, wholeSecond } from './time.js';
import type { Token } from './token.js';

/** What a rotation is made with. */
export interface RotationTerms {
  /** Id of the replacement, and the digest of its secret. */
  readonly id: string;
  readonly digest: string;
  /** Milliseconds for which the old token is still accepted; 0: it ends at once. */
  readonly overlap: number;
  /** Longest lifetime of a new token, milliseconds; null is no limit. */
  readonly maxLifetime: number | null;
  /** The replacement expires then at the latest; null: nobody asks for that. */
  readonly notAfter: EpochMs | null;
  /** Whether both count their requests in one bucket: a token that rotates does not get around its rate. */
  readonly sharesRate: boolean;
}

/** Both tokens of a rotation as they are after it, and the old one as it was read. */
export interface Rotation {
  readonly before: Token;
  readonly old: Token;
  readonly replacement: Token;
}

/**
 * Replaces a token. The new one has everything of the old one that is no matter of its life, and lasts as long as the old
 * one was made to last. The old one expires after the overlap, and never later than it would have.
 */
export function rotationOf(before: Token, terms: RotationTerms, now: EpochMs): Rotation {
  const { declared: _, rotated, predecessorId: __, rateId, ...kept } = before;
  const lifetime = rotated === undefined ? lifetimeOf(before) : rotated.lifetime;
  const at = wholeSecond(now);
  return {
    before,
    old: {
      ...before,
      // Later than before, so that who changes the token by its earlier record notices.
      updatedAt: Math.max(at, before.updatedAt + 1),
      expiresAt: Math.min(endOf(now, terms.overlap), before.expiresAt ?? Infinity),
      rotated: { to: terms.id, lifetime },
    },
    replacement: {
      ...kept,
      id: terms.id,
      digest: terms.digest,
      predecessorId: before.id,
      createdAt: at,
      updatedAt: at,
      expiresAt: expiryOf(at, lifetime, terms),
      ...(terms.sharesRate ? { rateId: rateId ?? before.id } : {}),
    },
  };
}

/** Whether a token was rotated and is still accepted. */
export function isInOverlap({ rotated, expiresAt }: Token, now: EpochMs): boolean {
  return rotated !== undefined && expiresAt !== null && now < expiresAt;
}

function lifetimeOf({ expiresAt, createdAt }: Token): number | null {
  return expiresAt === null ? null : expiresAt - createdAt;
}

/** The end of an overlap is a whole second, and never before it. */
function endOf(now: EpochMs, overlap: number): EpochMs {
  return overlap === 0 ? wholeSecond(now) : wholeSecond(now + overlap + 999);
}

function expiryOf(from: EpochMs, lifetime: number | null, { maxLifetime, notAfter }: RotationTerms): EpochMs | null {
  const lasts = Math.min(lifetime ?? Infinity, maxLifetime ?? Infinity);
  const at = Math.min(from + lasts, notAfter ?? Infinity);
  return at === Infinity ? null : wholeSecond(at);
} // prettier-ignore
