import type { Caller, Token } from './types.js';

/** Time without use after which most likely no client uses a token any more. */
const QUIET_MS = 15 * 60_000;

export type RotationState =
  /** The old token has expired. */
  | 'ended'
  /** The old token was never used. */
  | 'never_used'
  /** No client uses the new token yet. */
  | 'not_taken_up'
  /** Both tokens are in use. */
  | 'both_used'
  /** The new token is in use, and the old one has not been used for a while. */
  | 'quiet';

/** Determines the progress of a rotation from the last uses of both tokens. */
export function rotationState(old: Token, replacement: Token, now: number): RotationState {
  if (old.expires_at !== null && Date.parse(old.expires_at) <= now) return 'ended';
  if (old.last_seen_at === null) return 'never_used';
  if (replacement.last_seen_at === null) return 'not_taken_up';
  return now - Date.parse(old.last_seen_at) < QUIET_MS ? 'both_used' : 'quiet';
}

/** Returns the replacement of a token that was rotated. */
export function findReplacement(old: Token, tokens: readonly Token[]): Token | undefined {
  return tokens.find((token) => token.predecessor_id === old.id);
}

export interface OverlapChoice {
  readonly seconds: number;
  readonly label: string;
}

const [HOUR, DAY] = [3_600, 86_400];
const OVERLAPS = [0, HOUR, DAY, 7 * DAY];

/**
 * Returns the overlaps to choose from, shortest first.
 *
 * @param usual the server's default, seconds
 */
export function overlapChoices({
  overlap: usual,
  max_overlap: longest,
}: Caller['rotation']): OverlapChoice[] {
  const fit = OVERLAPS.filter((seconds) => seconds <= longest);
  const all = [...new Set([...fit, usual])].toSorted((a, b) => a - b);
  return all.map((seconds) => ({ seconds, label: labelOf(seconds) }));
}

function labelOf(seconds: number): string {
  if (seconds === 0) return 'At once';
  const [unit, size] =
    seconds % DAY === 0
      ? (['day', DAY] as const)
      : seconds % HOUR === 0
        ? (['hour', HOUR] as const)
        : (['second', 1] as const);
  const count = seconds / size;
  return `In ${count} ${unit}${count === 1 ? '' : 's'}`;
}
