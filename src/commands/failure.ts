import type { ChangeRefused } from '../store/store.js';

/** A command that could not do what it was asked to; its message is one line for a person. */
export class CommandFailed extends Error {
  readonly code = 'COMMAND_FAILED';
}

/** Says why a change to the store was refused, and what would let it through. */
export function describeRefusedChange(refused: ChangeRefused): string {
  switch (refused.reason) {
    case 'active_tokens':
      return `the user ${refused.userId} still has active tokens (${refused.tokenIds.join(', ')}); revoke them first`;
    case 'login_taken':
      return `the login ${refused.login} of user ${refused.userId} belongs to another user already`;
    case 'unknown_customer':
      return `there is no customer ${refused.customerId}; declare it under customers`;
  }
}
