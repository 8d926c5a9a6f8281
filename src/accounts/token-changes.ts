import { isDeepStrictEqual } from 'node:util';
import type { AuditEvent } from '../domain/audit.js';
import { type Refusal, unprocessable } from '../domain/refusal.js';
import type { EpochMs } from '../util/time.js';
import type { Token } from '../domain/token.js';
import { StoreUnavailable } from '../store/faults.js';
import type { TokenStore } from '../store/core/tokens.js';
import { tokenChangedEvent } from './audit-events.js';
import { type RestrictionChange, restrictionsAfter } from './parameters.js';

const MAX_TRIES = 20;

export interface ChangedToken {
  readonly token: Token;
  /** Tokens that came from it by rotation and were suspended or resumed with it. */
  readonly further: number;
}

/**
 * Tokens that came from it by rotation are suspended and resumed with it; other limits are its own.
 * @param auditEvents receives the events of what was, or may have been, changed
 */
export async function changeToken(
  tokens: Pick<TokenStore, 'get' | 'family' | 'update'>,
  id: string,
  change: RestrictionChange,
  now: EpochMs,
  auditEvents: AuditEvent[],
): Promise<ChangedToken | Refusal | undefined> {
  const { suspended } = change;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const members = suspended === undefined ? [await tokens.get(id)] : await tokens.family(id);
    const [found, ...family] = members.filter((each) => each !== undefined);
    if (found?.token.id !== id) return undefined;
    const { token: before } = found;
    if (before.declared)
      return unprocessable('The token is declared in the directory file; only the file can change it');
    const token = withLimits(before, change, now);
    auditEvents.splice(0, Infinity, tokenChangedEvent(id, change));
    // Even without a change: the store may have lost a suspension that this process knows.
    if (suspended === undefined && isDeepStrictEqual(token.restrictions, before.restrictions)) return { token: before, further: 0 };
    for (const member of family) auditEvents.push(tokenChangedEvent(member.token.id, { suspended }, id));
    // Whoever joins the family in between changes the record of its predecessor.
    const others = family.map((member) => ({ token: withLimits(member.token, { suspended }, now), basedOn: member.token.updatedAt }));
    const outcome = await tokens.update(token, before.updatedAt, others);
    if (outcome === 'updated') return { token, further: family.length };
    if (outcome === 'not_found') return undefined;
  }
  throw new StoreUnavailable(`the token ${id} is being changed elsewhere`);
} // prettier-ignore

function withLimits(before: Token, change: RestrictionChange, now: EpochMs): Token {
  const restrictions = restrictionsAfter(before.restrictions, change);
  return { ...before, restrictions, updatedAt: Math.max(now, before.updatedAt + 1) };
}
