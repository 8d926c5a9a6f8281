import { setImmediate } from 'node:timers/promises';
import type { EpochMs } from '../util/time.js';
import type { ChangeRefused } from '../store/core/directory-checks.js';
import { OutcomeUnknown, StoreUnavailable } from '../store/faults.js';
import type { Store } from '../store/core/store.js';
import type { Directory, UserSecrets } from './declared-records.js';
import type { Difference } from './directory-differences.js';
import { type Plan, planDirectory } from './directory-plan.js';

/** The plan is computed again if a user was changed between the plan and the write. */
const MAX_ATTEMPTS = 3;

/** A directory may have been applied, or a part of it was. */
export class DirectoryUnconfirmed extends OutcomeUnknown {
  readonly differences: readonly Difference[];

  constructor(cause: StoreUnavailable, differences: readonly Difference[]) {
    super(cause.message, { cause });
    this.differences = differences;
  }
}

export interface NotApplied {
  readonly refused: ChangeRefused;
  /** Those of which some were written; empty if nothing was. */
  readonly differences: readonly Difference[];
}

/** A small directory is applied entirely or not at all; between steps of a large one, others may read a part. */
export class DirectoryApplier {
  readonly #store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>;
  readonly #secrets: UserSecrets;

  constructor(store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>, secrets: UserSecrets) {
    this.#store = store;
    this.#secrets = secrets;
  }

  /** With the differences of all attempts. @throws DirectoryUnconfirmed, StoreUnavailable */
  async apply(directory: Directory, now: EpochMs): Promise<Plan | NotApplied> {
    const planned = new Map<string, Difference>();
    let written = 0;
    for (let attempts = 1; ; attempts++) {
      const plan = await this.plan(directory, now);
      if (written === 0) planned.clear();
      for (const each of plan.differences) planned.set(`${each.change} ${each.kind} ${each.id}`, each);
      const differences = [...planned.values()];
      let refused: ChangeRefused | undefined;
      for (const step of plan.steps) {
        refused = await this.#store.directory.change(step, now).catch((error: unknown) => {
          const mayBeThere =
            error instanceof StoreUnavailable && (written > 0 || error instanceof OutcomeUnknown);
          throw mayBeThere ? new DirectoryUnconfirmed(error, differences) : error;
        });
        if (refused !== undefined) break;
        written += 1;
        await setImmediate();
      }
      if (refused === undefined) return { ...plan, differences };
      if (!isTransientRefusal(refused) || attempts === MAX_ATTEMPTS)
        return { refused, differences: written > 0 ? differences : [] };
    }
  }

  async plan(directory: Directory, now: EpochMs): Promise<Plan> {
    return planDirectory(this.#store, this.#secrets, directory, now);
  }
}

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
