import type { EpochMs } from '../domain/time.js';
import { isExpired, type Token } from '../domain/token.js';
import { loginKey, type User } from '../domain/user.js';
import { OutcomeUnknown, type Store } from '../store/store.js';

/** Begins the login that a user gets whose own one is needed again. No login of a directory file begins so. */
export const PENDING_LOGIN = 'deletion-pending+';

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
  store: Pick<Store, 'listTokensOfUser'>,
  userId: string,
  now: EpochMs,
  isGoing: (token: Token) => boolean = () => false,
): Promise<boolean> {
  const tokens = await store.listTokensOfUser(userId);
  return tokens.some(({ token }) => !isExpired(token, now) && !isGoing(token));
}

/**
 * Deletes the users whose deletion was pending and whose last active token has ended.
 *
 * @param report of each one at once: whether it was deleted, or may have been
 * @throws StoreUnavailable
 */
export async function deletePending(
  store: Store,
  now: EpochMs,
  report: (user: User, outcome: 'success' | 'unknown') => void,
): Promise<void> {
  for (const id of await store.listPendingDeletions()) {
    const user = await store.getUser(id);
    if (user === undefined || (await hasActiveTokens(store, id, now))) continue;
    const basedOn = new Map([[id, user.updatedAt]]);
    const refused = await store.change({ removeUsers: [id], basedOn }, now).catch((error: unknown) => {
      if (error instanceof OutcomeUnknown) report(user, 'unknown');
      throw error;
    });
    // Refused when the directory named the user again, or another process was faster: not this one's deletion then.
    if (refused === undefined) report(user, 'success');
  }
}
