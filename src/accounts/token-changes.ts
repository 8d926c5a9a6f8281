import { isDeepStrictEqual } from 'node:util';
import type { Refusal } from '../domain/refusal.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { StoreUnavailable } from '../store/faults.js';
import type { TokenStore } from '../store/token-store.js';
import { type RestrictionChange, restrictionsAfter } from './token-restrictions.js';

/** Maximum attempts if others change the same token concurrently. */
const MAX_TRIES = 20;

const DECLARED: Refusal = {
  refusal: 'grant',
  status: 422,
  code: 'Unprocessable Entity',
  detail: 'The token is declared in the directory file; only the file can change it',
};

/**
 * Changes the limits of a token.
 *
 * A token that a directory file declares is refused, because the file would not contain the change.
 *
 * @returns the resulting record, which is the existing one if nothing changes; undefined if there
 *   is no such token
 * @throws StoreUnavailable if others keep changing it
 */
export async function changeToken(
  tokens: Pick<TokenStore, 'get' | 'update'>,
  id: string,
  change: RestrictionChange,
  now: EpochMs,
): Promise<Token | Refusal | undefined> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const found = await tokens.get(id);
    if (found === undefined) return undefined;
    const { token: before } = found;
    if (before.declared) return DECLARED;
    const restrictions = restrictionsAfter(before.restrictions, change);
    // Write an explicit `suspended` even without a change: the store may have lost a suspension
    // that this process still knows.
    if (change.suspended === undefined && isDeepStrictEqual(restrictions, before.restrictions)) return before;
    const after = { ...before, restrictions, updatedAt: Math.max(now, before.updatedAt + 1) };
    const outcome = await tokens.update(after, before.updatedAt);
    if (outcome === 'updated') return after;
    if (outcome === 'not_found') return undefined;
  }
  throw new StoreUnavailable(`the token ${id} is being changed elsewhere`);
}
