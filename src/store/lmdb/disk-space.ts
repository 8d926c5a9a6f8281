import { statfsSync } from 'node:fs';
import { StoreUnavailable } from '../faults.js';

/**
 * Refuses writes before the disk is full. If a memory map cannot grow, the error cannot
 * always be caught (https://github.com/kriszyp/lmdb-js: a full disk has ended
 * processes), and reads must go on.
 */
export class DiskSpace {
  readonly #path: string;
  readonly #minFree: number;

  /** @param minFree bytes; 0 checks nothing */
  constructor(path: string, minFree: number) {
    this.#path = path;
    this.#minFree = minFree;
  }

  /**
   * @param isReserved whether the write may use the space that is reserved: low space must never
   *   prevent revoking, locking or setting passwords
   * @throws StoreUnavailable if too little space is free
   */
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
