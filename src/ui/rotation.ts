import type { Token } from './types.js';

/** A token that was not used for this long has most likely left every client. */
const QUIET_MS = 15 * 60_000;

/** How far a rotation has come. */
export type RotationState =
  /** Nobody ever used the old token. */
  | 'never_used'
  /** No client uses the new token yet. */
  | 'not_taken_up'
  /** The new token is in use, and so is the old one. */
  | 'both_used'
  /** The new token is in use, and the old one has not been for a while. */
  | 'quiet';

/** Says how far a rotation has come by the last uses of both tokens. */
export function rotationState(old: Token, replacement: Token, now: number): RotationState {
  if (old.last_seen_at === null) return 'never_used';
  if (replacement.last_seen_at === null) return 'not_taken_up';
  return now - Date.parse(old.last_seen_at) < QUIET_MS ? 'both_used' : 'quiet';
}

/** The newest token that was made as a replacement of another one: later, with the same name, scopes, services and limits. */
export function findReplacement(old: Token, tokens: readonly Token[]): Token | undefined {
  return tokens
    .filter(
      (token) =>
        token.id !== old.id &&
        token.user_id === old.user_id &&
        token.name === old.name &&
        Date.parse(token.created_at) > Date.parse(old.created_at) &&
        isSameSet(token.scopes, old.scopes) &&
        isSameSet(token.services, old.services) &&
        token.rate === old.rate &&
        isSameSet(token.addresses ?? [], old.addresses ?? []),
    )
    .toSorted((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at))[0];
} // prettier-ignore

function isSameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.toSorted().join(' ') === b.toSorted().join(' ');
}
