import type { JSONWebKeySet } from 'jose';
import type { IdentityFact, IdentityPresetName } from '../config/schema/identity-presets.js';

/** How assertions are verified. */
export interface VerifyOptions {
  /** The keys: the address of Latchkey's `/.well-known/jwks.json`, or a key set. */
  readonly jwks: string | URL | JSONWebKeySet;
  /** `identity.assertion.issuer` of Latchkey. */
  readonly issuer: string;
  /** `identity.assertion.audience` of Latchkey. */
  readonly audience: string;
  /** The header of the assertion (`X-Auth-Assertion`). */
  readonly header?: string;
  /** Seconds that the clocks of both machines may differ (5). */
  readonly clockSkew?: number;
  /**
   * `if-present` (the default): an assertion that is bound must be of this request, and one that is not bound is accepted.
   * `required`: only bound ones are accepted, for a Latchkey with `identity.assertion.bind: request`.
   */
  readonly bound?: 'if-present' | 'required';
  /** Accept assertions of `latchkey mint`, which are marked `"dev": true`. For tests only (false). */
  readonly allowDev?: boolean;
  /** `identity.preset` of Latchkey (`latchkey`). */
  readonly preset?: IdentityPresetName;
  /** `identity.headers` of Latchkey: names that differ from those of the preset; null where none is sent. */
  readonly headers?: Readonly<Partial<Record<IdentityFact, string | null>>>;
}

/** What a valid assertion says about the user and the credential of a request. */
export interface AssertionClaims {
  readonly iss: string;
  readonly aud: string | readonly string[];
  /** The user's id. */
  readonly sub: string;
  /** Seconds since 1970. */
  readonly iat: number;
  /** Seconds since 1970. */
  readonly exp: number;
  readonly customer_id: string;
  readonly login: string;
  readonly role: string;
  /** Scopes, separated by spaces. */
  readonly scope: string;
  /** Absent when the token is not limited to services. */
  readonly services?: readonly string[];
  readonly credential: 'token' | 'legacy_key' | 'session' | 'jwt';
  /** Absent for a session. */
  readonly token_id?: string;
  /** Method of the request that it is bound to. */
  readonly htm?: string;
  /** Base64url SHA-256 of the target of the request that it is bound to. */
  readonly htu?: string;
  /** `X-Request-Id` of the request that it is bound to. */
  readonly rid?: string;
  /** It was made by `latchkey mint`. */
  readonly dev?: true;
}

export const DEFAULT_HEADER = 'X-Auth-Assertion';
export const DEFAULT_CLOCK_SKEW = 5;
