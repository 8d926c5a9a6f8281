import type { ChangeRefused } from '../store/core/directory-checks.js';

const MAX_IDS = 20;
const TRANSIENT: ReadonlySet<ChangeRefused['reason']> = new Set([
  'changed_meanwhile',
  'active_tokens',
  'unknown_customer',
  'customer_in_use',
]);

export function describeRefusedChange(refused: ChangeRefused): string {
  switch (refused.reason) {
    case 'active_tokens':
      return `${refused.users.map(describeActive).join('; ')}; revoke them first (latchkey token revoke ID...)`;
    case 'login_taken':
      return `the login ${refused.login} of user ${refused.userId} already belongs to another user`;
    case 'unknown_customer':
      return `there is no customer ${refused.customerId}; declare it under customers`;
    case 'customer_in_use':
      return `the customer ${refused.customerId} still has users or services; remove them first`;
    case 'unknown_user':
      return `there is no user ${refused.userId} to own the token`;
    case 'token_taken':
      return `the id or the secret of the declared token ${refused.tokenId} belongs to another token or user; generate another (latchkey token generate)`;
    case 'changed_meanwhile':
      return `the user ${refused.userId} was changed by someone else in the meantime; try again`;
  }
}

/** Whether a recomputed change may succeed. */
export function isTransientRefusal({ reason }: ChangeRefused): boolean {
  return TRANSIENT.has(reason);
}

function describeActive({ userId, tokenIds }: { userId: string; tokenIds: readonly string[] }): string {
  const more = tokenIds.length > MAX_IDS ? ` and ${tokenIds.length - MAX_IDS} more` : '';
  return `the user ${userId} still has active tokens (${tokenIds.slice(0, MAX_IDS).join(', ')}${more})`;
}
