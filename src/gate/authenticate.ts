import { type MaybePromise, mapMaybe } from '../util/async.js';
import type { Subject } from '../domain/credential.js';
import { MAX_LEGACY_KEY } from '../domain/limits.js';
import type { BearerChallenge, Refusal } from '../domain/refusal.js';
import { digestOf, digestOfField, isAccessToken, isMadeUp } from '../domain/secret.js';
import type { EpochMs } from '../util/time.js';
import { isExpired, type Token } from '../domain/token.js';
import type { ProviderLink } from '../domain/user.js';
import type { JwtIssuers } from '../accounts/jwt/issuers.js';
import type { Sessions } from '../accounts/sessions.js';
import type { RequestHead } from '../http/head.js';
import type { TokenStore, TokenWithOwner } from '../store/token-store.js';

type Invalid = Extract<Refusal, { refusal: 'unauthenticated' }>;

const BEARER_NOT_ACCEPTED: Invalid = { refusal: 'unauthenticated' };
const BEARER_ACCEPTED: Invalid = { refusal: 'unauthenticated', bearer: 'accepted' };
const INVALID_BEARER: Invalid = { refusal: 'unauthenticated', bearer: 'invalid' };

/**
 * Determines the sender of a request.
 *
 * A key or token takes precedence over the session cookie, and an invalid one never falls back to
 * the cookie. All reasons for an invalid credential look the same to the client, except that the
 * holder of an expired token learns that it expired.
 */
export class Authenticator {
  readonly #tokens: TokenStore;
  readonly #sessions: Sessions;
  readonly #unauthenticated: Invalid;
  readonly #issuers: Pick<JwtIssuers, 'verify'> | null;
  readonly #ownerLoginWithin: number | null;

  /**
   * @param ownerLoginWithin milliseconds since the owner's last login at a provider, after which
   * tokens stop working
   * @param acceptsBearer whether tokens are accepted as `Authorization: Bearer`, which a 401 then
   * states
   */
  constructor(
    tokens: TokenStore,
    sessions: Sessions,
    acceptsBearer: boolean,
    issuers: Pick<JwtIssuers, 'verify'> | null = null,
    ownerLoginWithin: number | null = null,
  ) {
    this.#tokens = tokens;
    this.#sessions = sessions;
    this.#unauthenticated = acceptsBearer || issuers !== null ? BEARER_ACCEPTED : BEARER_NOT_ACCEPTED;
    this.#issuers = issuers;
    this.#ownerLoginWithin = ownerLoginWithin;
  }

  isSent(head: RequestHead): boolean {
    return sendsCredential(head);
  }

  authenticate(head: RequestHead, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (head.key !== undefined)
      return head.bearer ? this.#byBearer(head.key, now) : this.#byKey(head.key, now);
    if (head.jwt !== undefined) return this.#byJwt(head.jwt, head.jwtPlace, now);
    if (head.session !== undefined) return this.#bySession(head.session, now);
    return this.#unauthenticated;
  }

  /**
   * Legacy keys are not accepted here, because one could have the form of another system's token.
   */
  #byBearer(token: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    return isAccessToken(token) ? this.#byDigest(digestOf(token), now, INVALID_BEARER) : INVALID_BEARER;
  }

  #byJwt(jwt: string, place: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (this.#issuers === null) return INVALID_BEARER;
    return mapMaybe(this.#issuers.verify(jwt, now, place), (subject) => subject ?? INVALID_BEARER);
  }

  #byKey(key: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    const invalid = this.#unauthenticated;
    if (isAccessToken(key)) return this.#byDigest(digestOf(key), now, invalid);
    if (key.length === 0 || key.length > MAX_LEGACY_KEY || isMadeUp(key)) return invalid;
    return mapMaybe(this.#tokens.hasLegacyKeys(), (some) =>
      some ? this.#byLegacyKey(digestOfField(key), now, invalid) : invalid,
    );
  }

  /** A secret of another form is not a token, even if a directory file declares its digest. */
  #byLegacyKey(digest: string, now: EpochMs, invalid: Invalid): MaybePromise<Subject | Refusal> {
    return mapMaybe(this.#tokens.find(digest), (found) =>
      found?.token.kind === 'legacy_key' ? checkToken(found, now, invalid, this.#ownerLoginWithin) : invalid,
    );
  }

  #byDigest(digest: string, now: EpochMs, invalid: Invalid): MaybePromise<Subject | Refusal> {
    return mapMaybe(this.#tokens.find(digest), (found) =>
      checkToken(found, now, invalid, this.#ownerLoginWithin),
    );
  }

  #bySession(id: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    return mapMaybe(this.#sessions.find(id, now), (found) => {
      if (found === undefined || found.owner.locked) return this.#unauthenticated;
      return { credential: 'session', user: found.owner, session: found.session };
    });
  }
}

/** Whether a request carries a credential at all, valid or not. */
export function sendsCredential({ key, jwt, session }: RequestHead): boolean {
  return key !== undefined || jwt !== undefined || session !== undefined;
}

/**
 * Checks whether a token that was found by its secret is valid.
 *
 * @param found the token; undefined when none has the secret
 * @param invalid the refusal to return when it is not valid
 * @param ownerLoginWithin milliseconds since the owner's last login at a provider; null for no
 * limit
 */
export function checkToken(
  found: TokenWithOwner | undefined,
  now: EpochMs,
  invalid: Invalid,
  ownerLoginWithin: number | null,
): Subject | Refusal {
  if (found === undefined || found.owner.locked) return invalid;
  const { token, owner } = found;
  if (owner.provider !== undefined && isLoginTooOld(owner.provider, now, ownerLoginWithin)) return invalid;
  // A suspended token looks like an unknown one, even if it has also expired.
  if (token.restrictions?.suspended === true) return invalid;
  if (isExpired(token, now)) return expired(token, invalid.bearer);
  return { credential: token.kind, user: owner, token };
}

/**
 * Whether the owner's last login is too long ago. The provider does not report when a person
 * leaves, but whoever left no longer logs in.
 */
function isLoginTooOld({ loginAt }: ProviderLink, now: EpochMs, within: number | null): boolean {
  return within !== null && now - loginAt >= within;
}

function expired({ id, expiresAt }: Token, bearer: BearerChallenge | undefined): Refusal {
  const refusal = { refusal: 'token_expired', tokenId: id, expiredAt: expiresAt as EpochMs } as const;
  return bearer === undefined ? refusal : { ...refusal, bearer };
}
