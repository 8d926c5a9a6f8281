import { setTimeout as sleep } from 'node:timers/promises';
import { partsOf } from '../parts.js';
import { StoreUnavailable } from '../store.js';
import type { Databases } from './databases.js';
import type { DiskSpace } from './disk-space.js';

/**
 * Last uses are written in so many parts at most, of so many records at least, with a pause between. At once, those of a thousand
 * tokens stopped everything for 25 ms in each second; each part takes 4, of which 1.5 are its way to the disk.
 */
const MAX_PARTS = 16;
const MIN_PART = 128;
const PART_PAUSE_MS = 20;

/**
 * How the embedded store is read and written; what it can't do is a StoreUnavailable.
 *
 * A write is one synchronous transaction that is on disk when it returns (about 0.5 ms); it holds the lock that all
 * processes share, so a check and its write are one step, and a throw leaves nothing behind.
 */
export class Transactions {
  readonly #dbs: Databases;
  readonly #space: DiskSpace;

  constructor(dbs: Databases, space: DiskSpace) {
    this.#dbs = dbs;
    this.#space = space;
  }

  /** Reads from the newest snapshot: lmdb keeps one until a timer fires, and another process may have revoked since. */
  read<T>(work: (dbs: Databases) => T): T {
    try {
      this.#dbs.root.resetReadTxn();
      return work(this.#dbs);
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  /** Changes something, all or nothing. @param kind as {@link remove} gives it */
  write<T>(work: (dbs: Databases) => T, kind?: 'removal'): T {
    try {
      this.#space.require(kind);
      return this.#dbs.root.transactionSync(() => work(this.#dbs));
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  /** Takes something away, for which less space is enough: nobody is kept from revoking. */
  remove<T>(work: (dbs: Databases) => T): T {
    return this.write(work, 'removal');
  }

  /** Writes each of many in a transaction of some, so that no request waits for all of them. */
  async writeInParts<T>(all: readonly T[], write: (dbs: Databases, each: T) => void): Promise<void> {
    const size = Math.max(MIN_PART, Math.ceil(all.length / MAX_PARTS));
    for (const [index, part] of partsOf(all, size).entries()) {
      if (index > 0) await sleep(PART_PAUSE_MS);
      this.write((dbs) => {
        for (const each of part) write(dbs, each);
      });
    }
  }

  async close(): Promise<void> {
    await this.#dbs.root.close();
  }
}

function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new StoreUnavailable(`the store can not answer (${reason})`, { cause: error });
}
