import { createHash } from 'node:crypto';
import { errors } from 'jose';
import type { EpochMs } from '../../util/time.js';
import { Unavailable } from '../../domain/refusal.js';
import { isObject } from '../../util/json.js';
import { quoted } from '../../util/text.js';
import { unverifiedAlgorithm } from '../jwt/subjects.js';
import { KeySet, verifiedClaims } from '../jwt/verifier.js';
import type { KeySource } from '../jwt/key-source.js';
import type { Claims } from './claims.js';
import { CLOCK_SKEW_SECONDS, LoginFailed, MAX_TOKEN_AGE, type ProviderSettings } from './settings.js';

/** Asymmetric only: with a shared secret, the client could sign as well. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']; // prettier-ignore

/** At most two fetches of the keys in it, whatever key a logout token names. */
const COOLDOWN_MS = 5_000;
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

export interface LoggedOut {
  readonly jti: string;
  readonly issuedAt: EpochMs;
  /** A person, or one of the person's sessions at the provider; at least one of the two is set. */
  readonly subject: string | undefined;
  readonly sid: string | undefined;
}

export class SignedTokens {
  readonly #keys: KeySet;
  readonly #settings: ProviderSettings;

  constructor(settings: ProviderSettings, source: KeySource) {
    this.#settings = settings;
    this.#keys = new KeySet(source, undefined, undefined, COOLDOWN_MS);
  }

  /** OpenID Connect Core 3.1.3.7 and 3.1.3.8, except for the nonce. @throws LoginFailed */
  async claimsOf(idToken: string, accessToken: string, now: EpochMs): Promise<Claims> {
    const required = { requiredClaims: ['exp', 'iat', 'sub'], maxTokenAge: MAX_TOKEN_AGE };
    const claims = await this.#verify(idToken, now, required).catch((cause: unknown) => {
      const failure = cause instanceof Unavailable ? 'provider_unavailable' : 'invalid_answer';
      throw new LoginFailed(failure, `the ID token is not valid: ${this.#reasonOf(cause)}`, { cause });
    });
    const { azp, at_hash: accessHash } = claims;
    if (azp !== undefined && azp !== this.#settings.client_id)
      throw new LoginFailed('invalid_answer', 'the claim azp names another client');
    if (accessHash !== undefined && accessHash !== halfHash(accessToken, unverifiedAlgorithm(idToken)))
      throw new LoginFailed('invalid_answer', 'the claim at_hash is of another access token');
    return claims;
  }

  /**
   * OpenID Connect Back-Channel Logout 2.6. Several providers send no `exp`; the age is limited in any case.
   * @throws Unavailable if the keys cannot be fetched
   */
  async loggedOut(token: string, now: EpochMs): Promise<LoggedOut | string> {
    try {
      const options = { requiredClaims: ['iat', 'jti'], maxTokenAge: MAX_TOKEN_AGE };
      return loggedOutBy(await this.#verify(token, now, options));
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      return this.#reasonOf(error);
    }
  }

  #reasonOf(error: unknown): string {
    if (error instanceof errors.JWTClaimValidationFailed && error.claim === 'iss')
      return `the claim iss is ${quoted(String(error.payload['iss']))}, not ${this.#settings.issuer}`;
    return error instanceof Error ? error.message : String(error);
  }

  async #verify(token: string, now: EpochMs, options: object): Promise<Claims> {
    const { issuer, client_id: audience } = this.#settings;
    return verifiedClaims(this.#keys, token, {
      issuer,
      audience,
      algorithms: ALGORITHMS,
      clockTolerance: CLOCK_SKEW_SECONDS,
      currentDate: new Date(now),
      ...options,
    });
  }
}

/** OpenID Connect Core 3.1.3.6. Ed25519 uses SHA-512. */
function halfHash(text: string, algorithm = ''): string {
  const bits = /^[A-Z]S(\d{3})$/.exec(algorithm)?.[1] ?? '512';
  const digest = createHash(`sha${bits}`).update(text).digest();
  return digest.subarray(0, digest.length / 2).toString('base64url');
}

/** An ID token has no such event, and may have a nonce, so none passes for a logout token. */
function loggedOutBy({ events, nonce, sub, sid, jti, iat }: Claims): LoggedOut | string {
  const isLogout = isObject(events) && Object.hasOwn(events, LOGOUT_EVENT) && isObject(events[LOGOUT_EVENT]);
  if (!isLogout) return 'the claim events names no logout';
  if (nonce !== undefined) return 'it has the claim nonce, like an ID token';
  if (!isName(jti) || typeof iat !== 'number') return 'the claim jti is not text';
  if (!isName(sub ?? sid) || !isName(sid ?? sub)) return 'it has neither sub nor sid as text';
  return { jti, issuedAt: iat * 1000, subject: sub as string | undefined, sid: sid as string | undefined };
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
