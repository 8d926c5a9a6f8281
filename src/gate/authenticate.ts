import { mapMaybe, type MaybePromise } from '../util/async.js';
import type { Subject } from '../domain/credential.js';
import { MAX_LEGACY_KEY } from '../domain/limits.js';
import type { Refusal } from '../domain/refusal.js';
import { digestOf, digestOfField, isAccessToken, isMadeUp } from '../domain/secret.js';
import type { EpochMs } from '../util/time.js';
import { isExpired } from '../domain/token.js';
import type { JwtIssuers } from '../accounts/jwt/issuers.js';
import type { Sessions } from '../accounts/sessions.js';
import type { RequestHead } from '../http/head.js';
import type { TokenStore } from '../store/core/tokens.js';
import type { TokenWithOwner } from '../store/core/token-records.js';
import type { TokenRates } from '../accounts/token-rates.js';
import { type AddressRange, isInRanges, parseRange } from '../util/addresses.js';

const INVALID: Refusal = { refusal: 'unauthenticated' };

/**
 * Determines the sender of a request. A key or token has precedence over the session cookie, and an invalid
 * one never falls back to it. All invalid credentials look alike, except that the holder of an expired token
 * learns so.
 */
export class Authenticator {
  readonly #tokens: TokenStore;
  readonly #sessions: Sessions;
  readonly #issuers: Pick<JwtIssuers, 'verify'> | null;
  readonly #ownerLoginWithin: number | null;

  constructor(
    tokens: TokenStore,
    sessions: Sessions,
    issuers: Pick<JwtIssuers, 'verify'> | null = null,
    ownerLoginWithin: number | null = null,
  ) {
    this.#tokens = tokens;
    this.#sessions = sessions;
    this.#issuers = issuers;
    this.#ownerLoginWithin = ownerLoginWithin;
  }

  isSent(head: RequestHead): boolean {
    return sendsCredential(head);
  }

  authenticate(head: RequestHead, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (head.key !== undefined)
      return head.scheme === undefined ? this.#byKey(head.key, now) : this.#byToken(head.key, now);
    if (head.jwt !== undefined) return this.#byJwt(head.jwt, head.jwtPlace, now);
    if (head.session !== undefined) return this.#bySession(head.session, now);
    return INVALID;
  }

  /** Legacy keys are accepted in the token fields only: one could be another system's secret. */
  #byToken(token: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    return isAccessToken(token) ? this.#byDigest(digestOf(token), now) : INVALID;
  }

  #byJwt(jwt: string, place: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (this.#issuers === null) return INVALID;
    return mapMaybe(this.#issuers.verify(jwt, now, place), (subject) => subject ?? INVALID);
  }

  #byKey(key: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (isAccessToken(key)) return this.#byDigest(digestOf(key), now);
    if (key.length === 0 || key.length > MAX_LEGACY_KEY || isMadeUp(key)) return INVALID;
    return mapMaybe(this.#tokens.hasLegacyKeys(), (some) =>
      some ? this.#byDigest(digestOfField(key), now, 'legacy_key') : INVALID,
    );
  }

  /** @param kind a secret of another form is not a token, even if a directory file declares its digest */
  #byDigest(digest: string, now: EpochMs, kind?: 'legacy_key'): MaybePromise<Subject | Refusal> {
    return mapMaybe(this.#tokens.find(digest), (found) =>
      kind === undefined || found?.token.kind === kind
        ? checkToken(found, now, this.#ownerLoginWithin)
        : INVALID,
    );
  }

  #bySession(id: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    return mapMaybe(this.#sessions.find(id, now), (found) => {
      if (found === undefined || found.owner.locked) return INVALID;
      return { credential: 'session', user: found.owner, session: found.session };
    });
  }
}

export function sendsCredential({ key, jwt, session }: RequestHead): boolean {
  return key !== undefined || jwt !== undefined || session !== undefined;
}

/** @param ownerLoginWithin milliseconds since the owner's last login at a provider; null for no limit */
export function checkToken(
  found: TokenWithOwner | undefined,
  now: EpochMs,
  ownerLoginWithin: number | null,
): Subject | Refusal {
  if (found === undefined || found.owner.locked) return INVALID;
  const { token, owner } = found;
  // Providers do not report when a person leaves, but whoever left no longer logs in.
  const { provider } = owner;
  if (provider !== undefined && ownerLoginWithin !== null && now - provider.loginAt >= ownerLoginWithin)
    return INVALID;
  // A suspended token looks like an unknown one, even if it has also expired.
  if (token.restrictions?.suspended === true) return INVALID;
  if (isExpired(token, now))
    return { refusal: 'token_expired', tokenId: token.id, expiredAt: token.expiresAt as EpochMs };
  return { credential: token.kind, user: owner, token };
}

/** The limits of tokens that have none of their own (`tokens.limits`). */
export interface DefaultLimits {
  readonly rate: string | null;
  readonly addresses: readonly string[] | null;
}

export const NO_DEFAULTS: DefaultLimits = { rate: null, addresses: null };

/** Parsed ranges, with the result for the last address checked: most tokens have one client. */
interface CompiledRanges {
  readonly ranges: readonly AddressRange[];
  address: string;
  isIn: boolean;
}

/** Checks a token's addresses and rate; suspension is part of the credential, to keep it unknown. */
export class TokenLimits {
  readonly #defaults: DefaultLimits;
  readonly #rates: Pick<TokenRates, 'take'> | null;
  readonly #compiled = new WeakMap<readonly string[], CompiledRanges>();

  /** @param rates null when no requests are counted */
  constructor(defaults: DefaultLimits, rates: Pick<TokenRates, 'take'> | null) {
    this.#defaults = defaults;
    this.#rates = rates;
  }

  withoutRate(): TokenLimits {
    return this.#rates === null ? this : new TokenLimits(this.#defaults, null);
  }

  /** @param counts whether the rate applies */
  refuse(subject: Subject, { client }: RequestHead, counts: boolean): MaybePromise<Refusal | undefined> {
    if (subject.credential === 'session' || subject.credential === 'jwt') return undefined;
    const { id, rateId, restrictions } = subject.token;
    const addresses = restrictions?.addresses ?? this.#defaults.addresses;
    if (addresses !== null && !this.#isIn(addresses, client.address)) {
      return { refusal: 'address', detail: `The token is not accepted from the address ${client.address}` };
    }
    const rate = restrictions?.rate ?? this.#defaults.rate;
    if (rate === null || this.#rates === null || !counts) return undefined;
    const wait = this.#rates.take(rateId ?? id, rate);
    return typeof wait === 'number' ? refusalOf(wait) : wait.then(refusalOf);
  }

  #isIn(addresses: readonly string[], address: string): boolean {
    let compiled = this.#compiled.get(addresses);
    if (compiled === undefined) {
      const ranges = addresses.map(parseRange).filter((range) => range !== undefined);
      compiled = { ranges, address: '', isIn: false };
      this.#compiled.set(addresses, compiled);
    }
    if (compiled.address !== address) {
      compiled.isIn = isInRanges(compiled.ranges, address);
      compiled.address = address;
    }
    return compiled.isIn;
  }
}

function refusalOf(wait: number): Refusal | undefined {
  return wait === 0 ? undefined : { refusal: 'token_rate', retryAfter: Math.max(1, Math.ceil(wait / 1000)) };
}
