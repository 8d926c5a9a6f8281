// src/store: opens the stores; backups, transfers, memory of revocations.
// May import http1 and all below.
// `redis.ts` and `postgres.ts` open the other stores; the rules are in `core`.

import { coreStore, type Store } from './core/store.js';
import type { Endings } from './endings.js';
import { EndedLog, openEnvironment } from './lmdb/environment.js';
import { LmdbKv } from './lmdb/kv.js';
import { measured } from './measured.js';

/**
 * Opens the embedded store in a folder, which several processes may share.
 * @param endings passed by a serving process; told of what any process ends or changes
 * @param remembered number of records that stay decoded
 */
export function openLmdbStore(path: string, minFree = 0, endings?: Endings, remembered?: number): Store {
  const env = openEnvironment(path);
  const endedLog = endings && new EndedLog(env, endings);
  return coreStore(measured(new LmdbKv(env, path, minFree, () => endedLog?.close(), remembered)));
}
