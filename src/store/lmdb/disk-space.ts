import { statfsSync } from 'node:fs';
import { StoreUnavailable } from '../faults.js';

/**
 * Refuses writes before the disk is full: a map that cannot grow can end the process, and reads
 * must go on (https://github.com/kriszyp/lmdb-js).
 */
export class DiskSpace {
  readonly #path: string;
  readonly #minFree: number;

  /** @param minFree bytes; 0 checks nothing */
  constructor(path: string, minFree: number) {
    this.#path = path;
    this.#minFree = minFree;
  }

  /** @param isReserved low space must never prevent revoking, locking or setting passwords */
  require(isReserved: boolean): void {
    if (this.#minFree === 0) return;
    const { bavail, bsize } = statfsSync(this.#path);
    const needed = isReserved ? this.#minFree / 4 : this.#minFree;
    if (bavail * bsize >= needed) return;
    const free = Math.floor((bavail * bsize) / 1024);
    throw new StoreUnavailable(
      `the disk of ${this.#path} is nearly full (${free} KiB free); writes to the store are refused`,
    );
  }
}
