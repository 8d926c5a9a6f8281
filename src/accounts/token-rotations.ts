import { z } from 'zod';
import type { Config } from '../config/schema/config.js';
import type { AuditEvent } from '../domain/audit.js';
import { noToken, overloaded, type Refusal, unprocessable, UNPROCESSABLE } from '../domain/refusal.js';
import { isExpired, type Rotation, rotationOf, successorIdOf, type Token } from '../domain/token.js';
import { digestOf, newAccessToken } from '../domain/secret.js';
import { type EpochMs, formatTime, wholeSecond } from '../util/time.js';
import { ID, type User } from '../domain/user.js';
import type { Store } from '../store/core/store.js';
import type { TokenRotation } from '../store/core/token-records.js';
import type { TokenStore } from '../store/core/tokens.js';
import { firstMistakenInRotation, readBy } from './parameters.js';
import {
  overlapEndedEvent,
  reportingUnknown,
  rotationRepeatedEvent,
  tokenCreatedEvent,
} from './audit-events.js';
import { limitsOf, type TokenSettings } from './tokens.js';

const MAX_ATTEMPTS = 5;

const overlapSeconds = z
  .string()
  .regex(/^\d{1,9}$/, 'overlap must be a whole number of seconds')
  .transform(Number)
  .optional();

type RotationSettings = TokenSettings & Pick<Config['tokens'], 'rotation'>;

/** As sent. */
export interface RotationRequest {
  readonly overlap: string | undefined;
  /** Names of other parameters in body and query. */
  readonly others?: readonly string[];
}

export interface RotationCaller {
  /** Null for an operator. */
  readonly customerId: string | null;
  /** Latest expiry of the replacement. */
  readonly notAfter: EpochMs | null;
  /** The calling token, which must not evade its rate by rotating: both tokens share a bucket. */
  readonly tokenId: string | null;
  readonly refuse: (token: Token) => Refusal | undefined;
}

export interface RotatedToken {
  readonly rotation: Rotation;
  readonly secret: string;
  readonly customerId: string;
  readonly auditEvents: readonly AuditEvent[];
}

export class TokenRotations {
  readonly #store: Pick<Store, 'tokens' | 'directory'>;
  readonly #settings: RotationSettings;

  constructor(store: Pick<Store, 'tokens' | 'directory'>, settings: RotationSettings) {
    this.#store = store;
    this.#settings = settings;
  }

  async rotate(id: string, request: RotationRequest, caller: RotationCaller, now: EpochMs): Promise<RotatedToken | Refusal> {
    const overlap = this.#readOverlap(request);
    if ('refusal' in overlap) return overlap;
    for (let attempts = 1; attempts <= MAX_ATTEMPTS; attempts++) {
      const found = await this.#find(id, caller.customerId);
      if (found === undefined) return noToken(id);
      const { token, owner } = found;
      const refusal = caller.refuse(token) ?? this.#refuseSelf(token, caller) ?? refuseState(token, owner, now);
      if (refusal !== undefined) return refusal;
      const rotated = token.rotated === undefined
        ? await this.#write(token, owner, overlap.ms, caller, now)
        : await this.#report(token, owner, now);
      if (rotated !== 'changed' && rotated !== 'owner_changed') return rotated;
    }
    return overloaded('The token is being changed elsewhere; try again');
  } // prettier-ignore

  #refuseSelf({ id }: Token, { tokenId }: RotationCaller): Refusal | undefined {
    if (tokenId !== id || this.#settings.rotation.self) return undefined;
    const detail = 'Tokens cannot rotate themselves here (tokens.rotation.self); a session of the owner can';
    return { refusal: 'wrong_credential_kind', detail };
  }

  /**
   * Two holders of one token are what a leak looks like: the audit log has every attempt, and the first one
   * causes a webhook event.
   */
  async #report(token: Token, owner: User, now: EpochMs): Promise<Refusal | 'changed'> {
    const { rotated, updatedAt } = token;
    if (rotated?.repeated === undefined) {
      const repeated = { to: '', ...rotated, repeated: true as const };
      const after = { ...token, rotated: repeated, updatedAt: Math.max(wholeSecond(now), updatedAt + 1) };
      const event = 'token.rotation_repeated';
      if ((await this.#store.tokens.update(after, updatedAt, [], event)) !== 'updated') return 'changed';
    }
    const refusal = unprocessable(
      `The token was already replaced by ${rotated?.to}. If you did not do that, it leaked: revoke it, which revokes its replacements too`,
    );
    return { ...refusal, auditEvents: [rotationRepeatedEvent(token, owner.customerId)] };
  }

  async #find(id: string, customerId: string | null): Promise<{ token: Token; owner: User } | undefined> {
    const found = ID.test(id) ? await this.#store.tokens.get(id) : undefined;
    const owner = found && (await this.#store.directory.getUser(found.token.userId));
    if (found === undefined || owner === undefined) return undefined;
    return customerId === null || owner.customerId === customerId ? { token: found.token, owner } : undefined;
  }

  async #write(
    token: Token,
    owner: User,
    overlap: number,
    { notAfter, tokenId }: RotationCaller,
    now: EpochMs,
  ): Promise<RotatedToken | Refusal | Extract<TokenRotation, 'changed' | 'owner_changed'>> {
    const limits = limitsOf(this.#settings);
    const { max_lifetime: maxLifetime, max_stored_per_customer: ofCustomer } = this.#settings;
    if (await this.#store.tokens.customerHasAtLeast(owner.customerId, ofCustomer))
      return unprocessable(`The customer already has ${ofCustomer} tokens; revoke some first`);
    const secret = newAccessToken();
    const terms = {
      id: successorIdOf(token.id),
      digest: digestOf(secret),
      overlap,
      maxLifetime,
      notAfter,
      sharesRate: tokenId !== null,
    };
    const rotation = rotationOf(token, terms, now);
    const auditEvents = rotationEvents(rotation, owner.customerId);
    const written = await reportingUnknown(auditEvents, async () =>
      this.#store.tokens.rotate(rotation, owner, limits, now),
    );
    switch (written) {
      case 'rotated':
        return { rotation, secret, customerId: owner.customerId, auditEvents };
      case 'limit_reached':
        return unprocessable(
          `The user already has ${limits.active} tokens in their overlap; try again when one has ended`,
        );
      case 'full':
        return unprocessable(`The user already has ${limits.stored} tokens; revoke some first`);
      default:
        return written;
    }
  }

  #readOverlap({ overlap, others = [] }: RotationRequest): { readonly ms: number } | Refusal {
    const { overlap: usual, max_overlap: longest } = this.#settings.rotation;
    const mistaken = firstMistakenInRotation(others);
    if (mistaken !== undefined) return unprocessable(mistaken);
    const read = readBy(overlapSeconds, overlap, UNPROCESSABLE);
    if ('refusal' in read) return read;
    const ms = read.value === undefined ? usual : read.value * 1000;
    if (ms > longest) return unprocessable(`overlap is more than ${Math.floor(longest / 1000)} seconds`);
    return { ms };
  }
}

function refuseState(token: Token, owner: User, now: EpochMs): Refusal | undefined {
  if (token.declared)
    return unprocessable(
      'The token is declared in the directory file; declare a new one there and remove this one',
    );
  if (token.kind === 'legacy_key')
    return unprocessable('A legacy key cannot be rotated; create a token to replace it, then revoke the key');
  if (token.rotated !== undefined) return undefined;
  if (isExpired(token, now))
    return unprocessable(`The token expired at ${formatTime(token.expiresAt ?? now)}; create a new one`);
  return owner.locked ? unprocessable('The owner of the token is locked') : undefined;
}

function rotationEvents({ old, replacement }: Rotation, customerId: string): AuditEvent[] {
  return [
    tokenCreatedEvent(replacement, customerId),
    {
      event: 'token.rotated',
      outcome: 'success',
      target: {
        token_id: old.id,
        user_id: old.userId,
        customer_id: customerId,
        successor_id: replacement.id,
        expires_at: formatTime(old.expiresAt ?? 0),
      },
    },
  ];
}

const BATCH = 100;

/** @param settle milliseconds in which a last use may still be written */
export async function reportEndedOverlaps(
  tokens: Pick<TokenStore, 'takeEndedOverlaps'>,
  settle: number,
  now: EpochMs,
  report: (event: AuditEvent) => void,
): Promise<void> {
  for (;;) {
    const ended = await tokens.takeEndedOverlaps(now - settle, BATCH);
    for (const each of ended) report(overlapEndedEvent(each));
    if (ended.length < BATCH) return;
  }
}
