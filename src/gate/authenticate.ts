import { type MaybePromise, mapMaybe } from '../domain/maybe-promise.js';
import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import { digestOf, digestOfField, isAccessToken } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import { isExpired } from '../domain/token.js';
import type { Sessions } from '../accounts/sessions.js';
import type { RequestHead } from '../http/head.js';
import type { TokenStore } from '../store/token-store.js';
import type { TokenWithOwner } from '../store/token-store.js';

const UNAUTHENTICATED: Refusal = { refusal: 'unauthenticated' };
/** Longer key values are refused before any digest is made of them. */
const MAX_KEY = 1024;

/**
 * Answers who a request comes from.
 *
 * The key field wins over the session cookie, and a bad key never falls back to the cookie. All reasons
 * why a credential does not hold look the same, save that an expired token says so to its holder.
 */
export class Authenticator {
  readonly #tokens: TokenStore;
  readonly #sessions: Sessions;

  constructor(tokens: TokenStore, sessions: Sessions) {
    this.#tokens = tokens;
    this.#sessions = sessions;
  }

  /** Whether a request has a credential at all, one that holds or not. */
  isSent({ key, session }: RequestHead): boolean {
    return key !== undefined || session !== undefined;
  }

  authenticate(head: RequestHead, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (head.key !== undefined) return this.#byKey(head.key, now);
    if (head.session !== undefined) return this.#bySession(head.session, now);
    return UNAUTHENTICATED;
  }

  #byKey(key: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    if (isAccessToken(key)) {
      return mapMaybe(this.#tokens.find(digestOf(key)), (found) => judgeToken(found, now));
    }
    if (key.length === 0 || key.length > MAX_KEY) return UNAUTHENTICATED;
    return mapMaybe(this.#tokens.hasLegacyKeys(), (some) =>
      some
        ? mapMaybe(this.#tokens.find(digestOfField(key)), (found) => judgeToken(found, now))
        : UNAUTHENTICATED,
    );
  }

  #bySession(id: string, now: EpochMs): MaybePromise<Subject | Refusal> {
    return mapMaybe(this.#sessions.find(id, now), (found) => {
      if (found === undefined || found.owner.locked) return UNAUTHENTICATED;
      return { credential: 'session', user: found.owner, session: found.session };
    });
  }
}

function judgeToken(found: TokenWithOwner | undefined, now: EpochMs): Subject | Refusal {
  if (found === undefined || found.owner.locked) return UNAUTHENTICATED;
  const { token, owner } = found;
  if (isExpired(token, now)) {
    return { refusal: 'token_expired', tokenId: token.id, expiredAt: token.expiresAt ?? now };
  }
  return { credential: token.kind, user: owner, token };
}
