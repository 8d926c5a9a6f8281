import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import type { Directory } from './declared-directory.js';
import { globalApiTokenUser, legacyToken } from './legacy-keys.js';

/** The tokens of the declared legacy keys, by digest. */
export function legacyTokens({ legacy_keys: keys = [] }: Directory, now: EpochMs): Map<string, Token> {
  const owners = new Map<string, string>();
  const tokens = new Map<string, Token>();
  for (const key of keys) {
    let owner = owners.get(key.customer_id);
    if (owner === undefined)
      owners.set(key.customer_id, (owner = globalApiTokenUser(key.customer_id, now).id));
    const token = legacyToken(key, owner, now);
    tokens.set(token.digest, token);
  }
  return tokens;
}

/** Ids of the tokens of legacy keys that are not declared any more, or for another customer. */
export function staleKeys(declared: ReadonlyMap<string, Token>, known: ReadonlyMap<string, Token>): string[] {
  return [...known.values()]
    .filter((token) => !declared.has(token.digest) || isMoved(token, declared.get(token.digest)))
    .map(({ id }) => id);
}

/** Whether a legacy key is another customer's: each customer has an owner of its keys. */
export function isMoved(before: Token | undefined, after: Token | undefined): boolean {
  return before !== undefined && after !== undefined && before.userId !== after.userId;
}
