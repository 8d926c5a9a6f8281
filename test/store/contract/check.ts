import type { Test } from 'tap';
import type { Store } from '../../../src/store/store.js';

/** Checks one promise of a store. Each gets a store of its own with `BASE` in it; `reopen` closes it and opens it again. */
export type Check = (
  name: string,
  body: (t: Test, store: Store, reopen: () => Promise<Store>) => Promise<void>,
) => Promise<unknown>;
