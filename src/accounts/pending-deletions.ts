import type { EpochMs } from '../domain/time.js';
import { isExpired, type Token } from '../domain/token.js';
import { loginKey, PENDING_LOGIN, type User } from '../domain/user.js';
import { OutcomeUnknown } from '../store/faults.js';
import type { TokenStore } from '../store/token-store.js';
import type { Store } from '../store/store.js';

/**
 * The user as kept while active tokens forbid the deletion: locked, so that none of them is accepted.
 *
 * @param declared login keys that the directory gives to others; a login among them is given up
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

/** Whether any of a user's tokens still works, save some that are about to go. */
export async function hasActiveTokens(
  tokens: Pick<TokenStore, 'listOfUser'>,
  userId: string,
  now: EpochMs,
  isGoing: (token: Token) => boolean = () => false,
): Promise<boolean> {
  const all = await tokens.listOfUser(userId);
  return all.some(({ token }) => !isExpired(token, now) && !isGoing(token));
}

/**
 * Deletes the users whose deletion was pending and whose last active token has ended.
 *
 * @param report of each one at once: whether it was deleted, or may have been
 * @throws StoreUnavailable
 */
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
    // Refused when the directory named the user again, or another process was faster: not this one's deletion then.
    if (refused === undefined) report(user, 'success');
  }
}
