import type { Test } from 'tap';
import type { Store } from '../../../src/store/core/store.js';

/**
 * Checks one promise of a store. Each check gets a new store that contains `BASE`; `reopen` closes
 * and reopens it.
 */
export type Check = (
  name: string,
  body: (t: Test, store: Store, reopen: () => Promise<Store>) => Promise<void>,
) => Promise<unknown>;
