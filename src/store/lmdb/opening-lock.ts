import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { ABORT, open, type RootDatabase } from 'lmdb';

const FILE = 'opening.mdb';

/**
 * A lock of a store's folder that all processes share: none opens the store while another one writes. LMDB as lmdb-js has it
 * sets, when it opens, the number of the newest transaction to the one that it has read a moment before; what was committed
 * in that moment is then lost, and later writes damage the file (LMDB's ITS#9496).
 *
 * It is the write lock of an environment in which nothing is ever written, so that it ends with the process that holds it.
 */
export class OpeningLock {
  readonly #environment: RootDatabase;

  /** @param folder of the store; it exists */
  constructor(folder: string) {
    const path = join(folder, FILE);
    this.#environment = open({ path, noSubdir: true, overlappingSync: false });
    for (const file of [path, `${path}-lock`]) chmodSync(file, 0o600);
  }

  /** Waits for the lock, and holds it while `work` runs. */
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
