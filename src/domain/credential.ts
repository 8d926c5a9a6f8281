import type { Session } from './session.js';
import type { Token } from './token.js';
import type { User } from './user.js';

/** Who a request comes from, and by which credential. */
export type Subject = TokenSubject | SessionSubject;

/** A caller who sent an API token or a legacy key. */
export interface TokenSubject {
  readonly credential: 'token' | 'legacy_key';
  readonly user: User;
  readonly token: Token;
}

/** A caller who sent the cookie of a session. */
export interface SessionSubject {
  readonly credential: 'session';
  readonly user: User;
  readonly session: Session;
}
