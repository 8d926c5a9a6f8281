import { join } from 'node:path';
import { DirectoryApplier } from '../accounts/directory.js';
import { Passwords } from '../accounts/passwords.js';
import { loadSealingKey, Sealer } from '../accounts/sealing.js';
import type { Config } from '../config/schema.js';
import { openLmdbStore } from '../store/lmdb.js';
import type { Store } from '../store/store.js';

/** The store of a configuration, with what belongs to it. */
export interface StoreRoom {
  readonly store: Store;
  readonly passwords: Passwords;
  readonly sealer: Sealer;
  readonly directory: DirectoryApplier;
}

/** Opens the store that a configuration names. */
export function openStoreRoom(config: Config): StoreRoom {
  if (config.store.type !== 'lmdb') throw new Error('store.type: only lmdb is available in this version');
  const store = openLmdbStore(config.store.path);
  const passwords = new Passwords(config.login.max_concurrent_hashes);
  const sealer = new Sealer(loadSealingKey(join(config.store.path, 'sealing.key')));
  return { store, passwords, sealer, directory: new DirectoryApplier(store, passwords, sealer) };
}
