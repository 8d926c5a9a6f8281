import { setImmediate } from 'node:timers/promises';
import type { EpochMs } from '../domain/time.js';
import type { ChangeRefused } from '../store/directory-store.js';
import { OutcomeUnknown, StoreUnavailable } from '../store/faults.js';
import type { Store } from '../store/store.js';
import type { Directory } from './declared-directory.js';
import { DeclaredUsers } from './declared-users.js';
import type { Difference } from './directory-differences.js';
import { DirectoryPlanner, type Plan } from './directory-plan.js';
import type { Passwords } from './passwords.js';
import { isPassingRefusal } from './refused-change.js';
import type { Sealer } from './sealing.js';

/** Somebody may change a user between the plan and the write; then it is worked out anew, this often. */
const MAX_ATTEMPTS = 3;

/** Whether a directory was applied is not known, or only a part of it was. */
export class DirectoryUnconfirmed extends OutcomeUnknown {
  /** What may have been written. */
  readonly differences: readonly Difference[];

  constructor(cause: StoreUnavailable, differences: readonly Difference[], partly: boolean) {
    super(partly ? `${cause.message}; a part of it was` : cause.message, { cause });
    this.differences = differences;
  }
}

/** The change was not applied, because others kept writing at the same time. */
export interface NotApplied {
  readonly refused: ChangeRefused;
  /** Whether parts of a large directory were written before. */
  readonly partly: boolean;
  readonly differences: readonly Difference[];
}

/**
 * Makes the store match a directory: all of it, or nothing. Between the slices of a large one, other requests are
 * served, and read some of it before the rest is written.
 */
export class DirectoryApplier {
  readonly #store: Pick<Store, 'tokens' | 'directory'>;
  readonly #planner: DirectoryPlanner;

  constructor(store: Pick<Store, 'tokens' | 'directory'>, passwords: Passwords, sealer: Sealer) {
    this.#store = store;
    this.#planner = new DirectoryPlanner(store, new DeclaredUsers(passwords, sealer));
  }

  /** Writes what differs. Returns that, or why it could not be written. @throws DirectoryUnconfirmed, StoreUnavailable */
  async apply(directory: Directory, now: EpochMs): Promise<Plan | NotApplied> {
    let partly = false;
    for (let attempts = 1; ; attempts++) {
      const plan = await this.plan(directory, now);
      let refused: ChangeRefused | undefined;
      for (const slice of plan.slices) {
        refused = await this.#store.directory.change(slice, now).catch((error: unknown) => {
          const mayBeThere = error instanceof StoreUnavailable && (partly || error instanceof OutcomeUnknown);
          throw mayBeThere ? new DirectoryUnconfirmed(error, plan.differences, partly) : error;
        });
        if (refused !== undefined) break;
        partly = true;
        await setImmediate();
      }
      if (refused === undefined) return plan;
      if (!isPassingRefusal(refused) || attempts === MAX_ATTEMPTS)
        return { refused, partly, differences: plan.differences };
    }
  }

  /** Works out what differs, and writes nothing. */
  async plan(directory: Directory, now: EpochMs): Promise<Plan> {
    return this.#planner.plan(directory, now);
  }
}
