import type { ChangeRefused } from '../store/store.js';

const MAX_IDS = 20;

/** Says why a change to the store was refused, and what would let it through. */
export function describeRefusedChange(refused: ChangeRefused): string {
  switch (refused.reason) {
    case 'active_tokens':
      return `${refused.users.map(describeActive).join('; ')}; revoke them first (latchkey token revoke ID...)`;
    case 'login_taken':
      return `the login ${refused.login} of user ${refused.userId} belongs to another user already`;
    case 'unknown_customer':
      return `there is no customer ${refused.customerId}; declare it under customers`;
    case 'changed_meanwhile':
      return `the user ${refused.userId} was changed by somebody else meanwhile; try again`;
  }
}

function describeActive({ userId, tokenIds }: { userId: string; tokenIds: readonly string[] }): string {
  const more = tokenIds.length > MAX_IDS ? ` and ${tokenIds.length - MAX_IDS} more` : '';
  return `the user ${userId} still has active tokens (${tokenIds.slice(0, MAX_IDS).join(', ')}${more})`;
}
