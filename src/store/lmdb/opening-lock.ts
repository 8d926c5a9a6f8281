import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { ABORT, open, type RootDatabase } from 'lmdb';
import { refuseForbidden } from './unopened.js';
import { refuseDamaged } from './verify.js';

/**
 * Maximum number of processes that have a store open at once. LMDB's default of 126 is less than
 * the number of workers may be.
 */
export const MAX_PROCESSES = 1_024;
const FILE = 'opening.mdb';
/** The file holds no records, but processes that have it open still lock it. */
const REMEDY = `stop every process that uses the store, and remove ${FILE}, which holds no records`;

/**
 * A lock on a store's folder that all processes share: none opens the
 * store while another one writes.
 *
 * When the LMDB of lmdb-js opens an environment, it resets the number of the newest transaction to
 * the one that it read a moment before. A commit in between is lost, and later writes damage the
 * file (LMDB's ITS#9496).
 *
 * The lock is the write lock of an environment in which nothing is ever written. So it is released
 * when the process that holds it ends.
 */
export class OpeningLock {
  readonly #environment: RootDatabase;

  /** @param folder of the store, which exists */
  constructor(folder: string) {
    const path = join(folder, FILE);
    for (const file of [path, `${path}-lock`]) refuseForbidden(file);
    refuseDamaged(path, true, REMEDY);
    this.#environment = open({
      path,
      noSubdir: true,
      overlappingSync: false,
      maxReaders: MAX_PROCESSES,
    });
    for (const file of [path, `${path}-lock`]) chmodSync(file, 0o600);
  }

  /** Waits for the lock and holds it while `work` runs. */
  hold<T>(work: () => T): T {
    let result: T | undefined;
    this.#environment.transactionSync(() => {
      result = work();
      return ABORT;
    });
    return result as T;
  }

  async close(): Promise<void> {
    await this.#environment.close();
  }
}
