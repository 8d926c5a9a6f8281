import { isDeepStrictEqual } from 'node:util';
import type { Rotation } from '../../domain/rotation.js';
import type { EpochMs } from '../../domain/time.js';
import { isAsVerified, type VerifiedOwner } from '../../domain/user.js';
import type { TokenLimits, TokenRotation, TokenWithUse } from '../token-store.js';
import type { Databases } from './databases.js';
import { readToken, readTokenWithUse, readUser } from './read.js';
import { addToken, countedTokensOf, removeExcess, replaceToken } from './tokens.js';
import type { Transactions } from './transactions.js';

/** Rotates a token within the owner's limits. Run it in a write transaction. */
export function rotateToken(
  dbs: Databases,
  { before, old, replacement }: Rotation,
  owner: VerifiedOwner,
  { active, stored }: TokenLimits,
  now: EpochMs,
): TokenRotation {
  if (!isDeepStrictEqual(readToken(dbs, before.id), before)) return 'changed';
  if (owner.id !== before.userId || !isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
  if (active !== null) {
    const { counted, inOverlap } = countedTokensOf(dbs, owner.id, now);
    if ((before.rotated === undefined ? inOverlap : counted) >= active) return 'limit_reached';
  }
  if (stored !== null && !removeExcess(dbs, owner.id, stored, now)) return 'full';
  replaceToken(dbs, before, old);
  addToken(dbs, replacement);
  return 'rotated';
}

/** Rotated tokens and the ends of their overlaps, of which there are few. */
export class Overlaps {
  readonly #transactions: Transactions;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  async count(now: EpochMs): Promise<number> {
    return (await this.#ids((at) => at > now, Infinity)).length;
  }

  async claimEnded(endedBefore: EpochMs, until: EpochMs, limit: number): Promise<TokenWithUse[]> {
    const due = await this.#ids((at) => at < endedBefore, limit);
    if (due.length === 0) return [];
    return this.#transactions.write((dbs) => {
      const claimed = due.filter((id) => (dbs.overlaps.get(id) ?? Infinity) < endedBefore);
      for (const id of claimed) dbs.overlaps.putSync(id, until);
      return claimed.map((id) => readTokenWithUse(dbs, id)).filter((found) => found !== undefined);
    }, 'removal');
  }

  async finish(ids: readonly string[]): Promise<void> {
    this.#transactions.remove(({ overlaps }) => {
      for (const id of ids) overlaps.removeSync(id);
    });
  }

  async #ids(isWanted: (at: EpochMs) => boolean, limit: number): Promise<string[]> {
    const found: string[] = [];
    await this.#transactions.scan(
      ({ overlaps }) => overlaps,
      [{}],
      ({ overlaps }, id) => {
        if (isWanted(overlaps.get(id) ?? Infinity)) found.push(id);
        return found.length < limit ? undefined : 'stop';
      },
    );
    return found;
  }
}
