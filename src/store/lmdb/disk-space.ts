import { statfsSync } from 'node:fs';
import { StoreUnavailable } from '../faults.js';

/**
 * Refuses writes before the disk is full. A memory map that can't grow is not always an error that can be caught
 * (https://github.com/kriszyp/lmdb-js: a full disk has ended processes), and reads must go on.
 */
export class DiskSpace {
  readonly #path: string;
  readonly #minFree: number;

  /** @param minFree bytes; 0 checks nothing */
  constructor(path: string, minFree: number) {
    this.#path = path;
    this.#minFree = minFree;
  }

  /** @throws StoreUnavailable when too little is free for such a write */
  require(kind: 'removal' | undefined): void {
    if (this.#minFree === 0) return;
    const { bavail, bsize } = statfsSync(this.#path);
    const needed = kind === 'removal' ? this.#minFree / 4 : this.#minFree;
    if (bavail * bsize >= needed) return;
    const free = Math.floor((bavail * bsize) / 1024);
    throw new StoreUnavailable(
      `the disk of ${this.#path} is nearly full (${free} KiB free), so nothing is written to the store`,
    );
  }
}
