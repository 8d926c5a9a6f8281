import type { Session } from './session.js';
import type { Token } from './token.js';
import type { User } from './user.js';

/** Who a request comes from, and by which credential. */
export type Subject = TokenSubject | JwtSubject | SessionSubject;

/** A caller who sent an API token or a legacy key. */
export interface TokenSubject {
  readonly credential: 'token' | 'legacy_key';
  readonly user: User;
  readonly token: Token;
}

/** A caller who sent a JWT of another issuer. Neither the user nor the token is a record of the store. */
export interface JwtSubject {
  readonly credential: 'jwt';
  readonly user: User;
  /** What the JWT may do, as a token says it. Its id is made of the digest and names nothing. */
  readonly token: Token;
  /** Name of the issuer in the configuration, and the claim `sub`. */
  readonly jwt: { readonly issuer: string; readonly subject: string };
}

/** A caller who sent the cookie of a session. */
export interface SessionSubject {
  readonly credential: 'session';
  readonly user: User;
  readonly session: Session;
}
