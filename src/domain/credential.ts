import type { ForwardedClaims } from './identity-fields.js';
import type { Session } from './session.js';
import type { Token } from './token.js';
import type { User } from './user.js';

/** Who sent a request, and with which credential. */
export type Subject = TokenSubject | JwtSubject | SessionSubject;

export interface TokenSubject {
  readonly credential: 'token' | 'legacy_key';
  readonly user: User;
  readonly token: Token;
}

/** A caller who sent a JWT from another issuer. Neither the user nor the token is in the store. */
export interface JwtSubject {
  readonly credential: 'jwt';
  readonly user: User;
  /** The permissions of the JWT in the form of a token, whose id names no stored token. */
  readonly token: Token;
  /** Name of the issuer in the configuration, and the `sub` claim. */
  readonly jwt: { readonly issuer: string; readonly subject: string };
  /** Those that upstreams receive (`identity.claims`). */
  readonly claims?: ForwardedClaims;
}

export interface SessionSubject {
  readonly credential: 'session';
  readonly user: User;
  readonly session: Session;
}
