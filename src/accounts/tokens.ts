// src/accounts: operations on tokens, sessions, passwords, the directory.
// May import store and all below.
// Results carry their audit events, which endpoints and commands record.

import { z } from 'zod';
import type { Config } from '../config/schema/config.js';
import type { AuditEvent } from '../domain/audit.js';
import { type Refusal, unprocessable, UNPROCESSABLE } from '../domain/refusal.js';
import { digestOf, newAccessToken } from '../domain/secret.js';
import { type EpochMs, wholeSecond } from '../util/time.js';
import { newTokenId, outermost, restrictedTo, type Token } from '../domain/token.js';
import { ID, type User } from '../domain/user.js';
import { hasActiveTokens } from './pending-deletions.js';
import { removalTime, type Store } from '../store/core/store.js';
import type { TokenLimits, TokenWithUse } from '../store/core/token-records.js';
import type { LastSeen } from './last-seen.js';
import {
  firstMistaken,
  readBy,
  type RestrictionChange,
  restrictionParameters,
  restrictionsAfter,
  tokenParameters,
  unknownService,
} from './parameters.js';
import { reportingUnknown, tokenCreatedEvent, tokenRevokedEvent } from './audit-events.js';
import { type ChangedToken, changeToken } from './token-changes.js';

const restrictions = z.object(restrictionParameters);

const INVALID_SCOPE = { status: 400, code: 'invalid_scope' } as const;

export type TokenSettings = Pick<
  Config['tokens'],
  'max_per_user' | 'max_stored_per_user' | 'max_stored_per_customer' | 'max_lifetime'
>;

/** As sent. */
export interface TokenRequest {
  readonly name: string | undefined;
  readonly scope: string | undefined;
  readonly services: readonly string[];
  readonly expiresAt: string | undefined;
  readonly restrictions?: z.input<typeof restrictions>;
  /** Names of other parameters in body and query. */
  readonly others?: readonly string[];
}

export function limitsOf({ max_per_user: active, max_stored_per_user: stored }: TokenSettings): TokenLimits {
  return { active, stored: Math.max(stored, active ?? 0) };
}

export class Tokens {
  readonly #store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>;
  readonly #lastSeen: Pick<LastSeen, 'pending'>;
  readonly #settings: TokenSettings;
  readonly #scopes: readonly string[];

  constructor(
    store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>,
    lastSeen: Pick<LastSeen, 'pending'>,
    settings: TokenSettings,
    scopes: readonly string[],
  ) {
    this.#store = store;
    this.#lastSeen = lastSeen;
    this.#settings = settings;
    this.#scopes = scopes;
  }

  /** Unless the user changed since it was read. The secret is never stored. */
  async create(
    user: User,
    request: TokenRequest,
    now: EpochMs,
  ): Promise<{ token: Token; secret: string } | Refusal | 'owner_changed'> {
    const scopes = this.#readScopes(request.scope);
    if ('refusal' in scopes) return scopes;
    const mistaken = firstMistaken(request.others ?? []);
    if (mistaken !== undefined) return unprocessable(mistaken);
    const expiry = this.#readExpiry(request.expiresAt, now);
    if ('refusal' in expiry) return expiry;
    const services = await this.#readServices(user.customerId, request.services);
    if ('refusal' in services) return services;
    const name = readBy(tokenParameters.name, request.name, UNPROCESSABLE);
    if ('refusal' in name) return name;
    const limits = readBy(restrictions, request.restrictions ?? {}, UNPROCESSABLE);
    if ('refusal' in limits) return limits;
    const ownLimits = restrictionsAfter(undefined, limits.value);

    const { max_stored_per_customer: most } = this.#settings;
    const { active, stored } = limitsOf(this.#settings);

    const secret = newAccessToken();
    const token: Token = {
      id: newTokenId(),
      digest: digestOf(secret),
      kind: 'token',
      userId: user.id,
      name: name.value,
      scopes: scopes.value,
      ...restrictedTo(services.ids),
      createdAt: wholeSecond(now),
      updatedAt: wholeSecond(now),
      expiresAt: expiry.at,
      ...(ownLimits === undefined ? {} : { restrictions: ownLimits }),
    };
    const created = await reportingUnknown([tokenCreatedEvent(token, user.customerId)], async () =>
      this.#store.tokens.create(
        token,
        user,
        { active, stored, ofCustomer: { id: user.customerId, most } },
        now,
      ),
    );
    switch (created) {
      case 'created':
        return { token, secret };
      case 'customer_full':
        return unprocessable(`The customer already has ${most} tokens; revoke some first`);
      case 'limit_reached':
        return unprocessable(`The user already has ${active} active tokens`);
      case 'full':
        return unprocessable(`The user already has ${stored} tokens; revoke some first`);
      case 'owner_changed':
        return 'owner_changed';
    }
  }

  /** Oldest first. */
  async ofUser(userId: string): Promise<TokenWithUse[]> {
    return this.#inOrder(await this.#store.tokens.listOfUser(userId));
  }

  /** Oldest first. */
  async ofCustomer(customerId: string): Promise<TokenWithUse[]> {
    return this.#inOrder(await this.#store.tokens.listOfCustomer(customerId));
  }

  /** Undefined if it is another customer's. */
  async get(id: string, customerId: string, read = this.read(id)): Promise<TokenWithUse | undefined> {
    const known = await read;
    return this.#ofCustomer(customerId, known?.found, known?.owner);
  }

  /** For {@link trace}, before it is known who asks. */
  read(id: string): ReturnType<Store['tokens']['getWithOwner']> {
    return ID.test(id) ? this.#store.tokens.getWithOwner(id) : undefined;
  }

  /** Like {@link get}, but of a token that is gone returns one that came from it by rotation. */
  async trace(
    id: string,
    customerId: string,
    read?: ReturnType<Tokens['read']>,
  ): Promise<TokenWithUse | undefined> {
    const found = await this.get(id, customerId, read);
    if (found !== undefined || !ID.test(id)) return found;
    const [descendant] = await this.#store.tokens.family(id);
    const owner = descendant && (await this.#store.directory.getUser(descendant.token.userId));
    return this.#ofCustomer(customerId, descendant, owner);
  }

  /** Undefined if a token is unknown or another customer's. */
  #ofCustomer(customerId: string, found: TokenWithUse | undefined, owner: User | undefined) {
    return found !== undefined && owner?.customerId === customerId ? this.#withPending(found) : undefined;
  }

  /**
   * With those that came from them by rotation; none if an id is unknown.
   * @param auditEvents receives the events of what was, or may have been, revoked
   */
  async revoke(
    ids: readonly string[],
    auditEvents: AuditEvent[],
  ): Promise<{ readonly missing: readonly string[]; readonly further: number }> {
    const missing = ids.filter((id) => !ID.test(id));
    if (missing.length > 0) return { missing, further: 0 };
    const given = new Set(ids);
    let events = this.#revocationEvents(given, new Map());
    try {
      const result = await this.#store.tokens.revoke(ids, (families) => {
        events = this.#revocationEvents(given, families);
      });
      return { missing: result.missing, further: result.revoked.filter((id) => !given.has(id)).length };
    } finally {
      auditEvents.push(...events.values());
    }
  }

  #revocationEvents(ids: ReadonlySet<string>, families: ReadonlyMap<string, readonly TokenWithUse[]>) {
    const events = new Map([...ids].map((id) => [id, tokenRevokedEvent(id)]));
    for (const ancestor of outermost(ids)) {
      for (const found of families.get(ancestor) ?? []) {
        const { id } = found.token;
        const because = ids.has(id) ? undefined : ancestor;
        events.set(id, tokenRevokedEvent(id, this.#withPending(found), because));
      }
    }
    return events;
  }

  /** See {@link changeToken}. */
  async change(
    id: string,
    change: RestrictionChange,
    now: EpochMs,
    auditEvents: AuditEvent[],
  ): Promise<ChangedToken | Refusal | undefined> {
    return ID.test(id) ? changeToken(this.#store.tokens, id, change, now, auditEvents) : undefined;
  }

  /** A user of another customer has none. @returns `similar` if only the case differs from a user's id */
  async hasActive(userId: string, customerId: string, now: EpochMs): Promise<boolean | 'similar'> {
    const { tokens, directory, maintenance } = this.#store;
    if ((await directory.getUser(userId))?.customerId === customerId)
      return hasActiveTokens(tokens, userId, await removalTime(maintenance, now));
    const [folded, users] = [userId.toLowerCase(), await directory.listUsers(customerId)];
    return users.some(({ id }) => id.toLowerCase() === folded) && 'similar';
  }

  #inOrder(tokens: TokenWithUse[]): TokenWithUse[] {
    return tokens
      .map((entry) => this.#withPending(entry))
      .toSorted((a, b) => a.token.createdAt - b.token.createdAt || (a.token.id < b.token.id ? -1 : 1));
  }

  #withPending(entry: TokenWithUse): TokenWithUse {
    const pending = this.#lastSeen.pending(entry.token.id);
    if (pending === undefined || (entry.use !== null && entry.use.at > pending.at)) return entry;
    return { token: entry.token, use: pending };
  }

  #readScopes(scope: string | undefined): { value: string[] } | Refusal {
    const names = readBy(tokenParameters.scope, scope, INVALID_SCOPE);
    if ('refusal' in names) return names;
    const unknown = names.value.find((name) => !this.#scopes.includes(name));
    if (unknown === undefined) return names;
    const known = this.#scopes.join(', ');
    const separator = unknown.includes(',') ? '; separate scopes with spaces' : '';
    return {
      refusal: 'grant',
      ...INVALID_SCOPE,
      detail: `The scope ${JSON.stringify(unknown)} is not valid; valid scopes: ${known}${separator}`,
    };
  }

  /** A whole second, as in responses. */
  #readExpiry(text: string | undefined, now: EpochMs): { at: EpochMs | null } | Refusal {
    const { max_lifetime: longest } = this.#settings;
    const read = readBy(tokenParameters.expiresAt, text, UNPROCESSABLE);
    if ('refusal' in read) return read;
    const at = read.value;
    if (at === undefined) return { at: longest === null ? null : wholeSecond(now + longest) };
    if (wholeSecond(at) <= now) return unprocessable('expires_at has passed');
    if (longest !== null && at > now + longest) {
      return unprocessable(`expires_at is more than ${Math.floor(longest / 1000)} seconds away`);
    }
    return { at: wholeSecond(at) };
  }

  async #readServices(customerId: string, given: readonly string[]): Promise<{ ids: string[] } | Refusal> {
    const read = readBy(tokenParameters.services, given, UNPROCESSABLE);
    if ('refusal' in read) return read;
    const ids = read.value;
    const known = ids.length === 0 ? [] : await this.#store.directory.listServices(customerId);
    const unknown =
      known.length === 0 ? undefined : ids.find((id) => !known.some((service) => service.id === id));
    return unknown === undefined ? { ids } : unprocessable(unknownService(unknown));
  }
}
