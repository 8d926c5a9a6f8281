import { coreStore, type Store } from './core/store.js';
import type { Endings } from './endings.js';
import { DiskSpace, EndedLog, openEnvironment } from './lmdb/environment.js';
import { LmdbKv } from './lmdb/kv.js';
import { measured, type OnOperation } from './measured.js';

/**
 * Opens the embedded store in a folder, which several processes may share.
 * @param endings passed by a serving process; told of what any process ends or changes
 */
export function openLmdbStore(
  path: string,
  minFree = 0,
  endings?: Endings,
  onOperation?: OnOperation,
): Store {
  const env = openEnvironment(path);
  const endedLog = endings && new EndedLog(env, endings);
  const kv = new LmdbKv(env, new DiskSpace(path, minFree), () => endedLog?.close());
  const store = coreStore(onOperation === undefined ? kv : measured(kv, onOperation));
  return {
    ...store,
    maintenance: {
      ...store.maintenance,
      removeExpired: async (now, tokensBefore, limit) => {
        kv.forgetKilledReaders();
        return store.maintenance.removeExpired(now, tokensBefore, limit);
      },
    },
  };
}
