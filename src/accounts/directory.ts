import { setImmediate } from 'node:timers/promises';
import type { EpochMs } from '../util/time.js';
import type { ChangeRefused } from '../store/directory-store.js';
import { OutcomeUnknown, StoreUnavailable } from '../store/faults.js';
import type { Store } from '../store/store.js';
import type { Directory } from './declared-directory.js';
import { DeclaredUsers } from './declared-users.js';
import type { Difference } from './directory-differences.js';
import { DirectoryPlanner, type Plan } from './directory-plan.js';
import type { Passwords } from './passwords.js';
import { isTransientRefusal } from './refused-change.js';
import type { Sealer } from './sealing.js';

/** The plan is computed again if a user was changed between the plan and the write. */
const MAX_ATTEMPTS = 3;

/** A directory was applied in part, or may have been applied. */
export class DirectoryUnconfirmed extends OutcomeUnknown {
  readonly differences: readonly Difference[];

  constructor(cause: StoreUnavailable, differences: readonly Difference[], partly: boolean) {
    super(partly ? `${cause.message}; a part of it was` : cause.message, { cause });
    this.differences = differences;
  }
}

export interface NotApplied {
  readonly refused: ChangeRefused;
  /** Whether some slices had been written. */
  readonly partly: boolean;
  readonly differences: readonly Difference[];
}

/**
 * A small directory is applied entirely or not at all; between slices of a large one, others may read a part.
 */
export class DirectoryApplier {
  readonly #store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>;
  readonly #planner: DirectoryPlanner;

  constructor(
    store: Pick<Store, 'tokens' | 'directory' | 'maintenance'>,
    passwords: Passwords,
    sealer: Sealer,
  ) {
    this.#store = store;
    this.#planner = new DirectoryPlanner(store, new DeclaredUsers(passwords, sealer));
  }

  /** With the differences of all attempts. @throws DirectoryUnconfirmed, StoreUnavailable */
  async apply(directory: Directory, now: EpochMs): Promise<Plan | NotApplied> {
    const written: Difference[] = [];
    for (let attempts = 1; ; attempts++) {
      const plan = await this.plan(directory, now);
      const differences = [...written, ...plan.differences];
      let refused: ChangeRefused | undefined;
      for (const slice of plan.slices) {
        const partly = written.length > 0;
        refused = await this.#store.directory.change(slice.changes, now).catch((error: unknown) => {
          const mayBeThere = error instanceof StoreUnavailable && (partly || error instanceof OutcomeUnknown);
          throw mayBeThere ? new DirectoryUnconfirmed(error, differences, partly) : error;
        });
        if (refused !== undefined) break;
        written.push(...slice.differences);
        await setImmediate();
      }
      if (refused === undefined) return { ...plan, differences };
      if (!isTransientRefusal(refused) || attempts === MAX_ATTEMPTS)
        return { refused, partly: written.length > 0, differences };
    }
  }

  async plan(directory: Directory, now: EpochMs): Promise<Plan> {
    return this.#planner.plan(directory, now);
  }
}
