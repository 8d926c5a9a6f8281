import type { EpochMs } from '../util/time.js';
import { isExpired, type Token } from '../domain/token.js';
import { loginKey, PENDING_LOGIN, type User } from '../domain/user.js';
import { OutcomeUnknown } from '../store/faults.js';
import type { TokenStore } from '../store/core/tokens.js';
import type { Store } from '../store/core/store.js';

/**
 * The user is locked, so that none of the tokens is accepted.
 * @param declared login keys of other users; this one gives up one among them
 */
export function pendingDeletionOf(user: User, declared: ReadonlySet<string>, now: EpochMs): User {
  return {
    ...user,
    login: declared.has(loginKey(user.login)) ? `${PENDING_LOGIN}${user.id}` : user.login,
    locked: true,
    deletionPending: true,
    updatedAt: Math.max(now, user.updatedAt + 1),
  };
}

/** @param isGoing excludes tokens that are about to be removed */
export async function hasActiveTokens(
  tokens: Pick<TokenStore, 'listOfUser'>,
  userId: string,
  now: EpochMs,
  isGoing: (token: Token) => boolean = () => false,
): Promise<boolean> {
  const all = await tokens.listOfUser(userId);
  return all.some(({ token }) => !isExpired(token, now) && !isGoing(token));
}

/** Deletes the users whose last active token has ended. @param report for those who may be deleted, too */
export async function deletePending(
  store: Pick<Store, 'tokens' | 'directory'>,
  now: EpochMs,
  report: (user: User, outcome: 'success' | 'unknown') => void,
): Promise<void> {
  for (const id of await store.directory.listPendingDeletions()) {
    const user = await store.directory.getUser(id);
    if (user === undefined || (await hasActiveTokens(store.tokens, id, now))) continue;
    const basedOn = new Map([[id, user.updatedAt]]);
    const refused = await store.directory
      .change({ removeUsers: [id], basedOn }, now)
      .catch((error: unknown) => {
        if (error instanceof OutcomeUnknown) report(user, 'unknown');
        throw error;
      });
    // Refused if the directory declares the user again or another process deleted the user first.
    if (refused === undefined) report(user, 'success');
  }
}
