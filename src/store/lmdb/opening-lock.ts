import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { ABORT, open, type RootDatabase } from 'lmdb';
import { refuseForbidden } from './unopened.js';
import { refuseDamaged } from './verify.js';

/** LMDB's default of 126 is less than the number of workers may be. */
export const MAX_PROCESSES = 1_024;
const FILE = 'opening.mdb';
/** The file holds no records, but processes that have it open still lock it. */
const REMEDY = `stop every process that uses the store, and remove ${FILE}, which holds no records`;

/**
 * A lock that all processes share: none opens the store while another one writes, because LMDB
 * could lose that commit and damage the file (ITS#9496). The end of a process releases it.
 */
export class OpeningLock {
  readonly #environment: RootDatabase;

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
