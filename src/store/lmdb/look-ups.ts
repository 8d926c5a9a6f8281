import type { Session } from '../../domain/session.js';
import type { Token } from '../../domain/token.js';
import type { User } from '../../domain/user.js';
import { sessionOf, tokenOf, userOf } from '../records.js';
import type { SessionWithOwner } from '../session-store.js';
import type { TokenWithOwner } from '../token-store.js';
import type { Databases } from './databases.js';
import { DecodedRecordCache } from './decoded-record-cache.js';

/** The look-ups of every request: by the digest of a secret, with the owner. */
export class LookUps {
  readonly #tokens: DecodedRecordCache<Token>;
  readonly #sessions: DecodedRecordCache<Session>;
  readonly #users: DecodedRecordCache<User>;

  constructor({ tokens, sessions, users }: Databases) {
    this.#tokens = new DecodedRecordCache(tokens, tokenOf);
    this.#sessions = new DecodedRecordCache(sessions, sessionOf);
    this.#users = new DecodedRecordCache(users, userOf);
  }

  token(digest: string): TokenWithOwner | undefined {
    const token = this.#tokens.getByDigest(digest);
    const owner = token === undefined ? undefined : this.#users.get(token.userId);
    return token === undefined || owner === undefined ? undefined : { token, owner };
  }

  session(digest: string): SessionWithOwner | undefined {
    const session = this.#sessions.getByDigest(digest);
    const owner = session === undefined ? undefined : this.#users.get(session.userId);
    return session === undefined || owner === undefined ? undefined : { session, owner };
  }
}
