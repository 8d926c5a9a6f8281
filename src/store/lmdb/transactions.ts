import type { Database } from 'lmdb';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { statfsSync } from 'node:fs';
import type { EpochMs } from '../../util/time.js';
import { partsOf } from '../parts.js';
import { StoreUnavailable } from '../faults.js';
import type { Databases, Expiring } from './databases.js';

/**
 * Last uses are written in at most `MAX_PARTS` parts of at least `MIN_PART` records, with pauses.
 * Written at once, those of a thousand tokens stopped everything for 25 ms every second. Each part
 * takes 4 ms, of which 1.5 ms are its way to the disk.
 */
const MAX_PARTS = 16;
const MIN_PART = 128;
const PART_PAUSE_MS = 20;
/** How long many records are read without a break, in milliseconds. */
const SLICE_MS = 4;

type Key = string | [string, string] | [EpochMs, Expiring, string];

/**
 * A range of keys; `end` is exclusive. Without a bound, it begins at the
 * first key or ends at the last.
 */
export interface Range<K extends Key> {
  readonly start?: K;
  readonly end?: K;
  readonly exclusiveStart?: boolean;
}

/**
 * Reads and writes the embedded store; throws StoreUnavailable for whatever it cannot do.
 *
 * A write is one synchronous transaction that is on disk when it returns (about 0.5
 * ms). It holds the lock that all processes share, so a check and its write are atomic,
 * and a throw leaves nothing behind.
 */
export class Transactions {
  readonly #dbs: Databases;
  readonly #space: DiskSpace;

  constructor(dbs: Databases, space: DiskSpace) {
    this.#dbs = dbs;
    this.#space = space;
  }

  /**
   * Reads from the newest snapshot. lmdb keeps one until a timer fires, and another process may
   * have revoked something since.
   */
  read<T>(work: (dbs: Databases) => T): T {
    try {
      this.#dbs.root.resetReadTxn();
      return work(this.#dbs);
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  /**
   * Visits the keys of some ranges in order, in slices with breaks in which other work is done.
   * Each slice reads the newest snapshot. A key that exists throughout is visited once.
   *
   * @param each reads what it needs; returning `stop` ends the scan
   */
  async scan<K extends Key>(
    select: (dbs: Databases) => Database<unknown, K>,
    ranges: Iterable<Range<K>>,
    each: (dbs: Databases, key: K) => void | 'stop',
  ): Promise<void> {
    let until = performance.now() + SLICE_MS;
    for (const range of ranges) {
      let rest: Range<K> | undefined = range;
      while (rest !== undefined) {
        const slice: Range<K> = rest;
        const last = this.read((dbs) => {
          for (const key of select(dbs).getKeys(slice)) {
            if (each(dbs, key) === 'stop') return 'stop';
            if (performance.now() > until) return key;
          }
          return undefined;
        });
        if (last === 'stop') return;
        rest = last === undefined ? undefined : { ...slice, start: last, exclusiveStart: true };
        if (performance.now() <= until) continue;
        await setImmediate();
        until = performance.now() + SLICE_MS;
      }
    }
  }

  /** Runs a write transaction, all or nothing. @param kind as {@link remove} passes it */
  write<T>(work: (dbs: Databases) => T, kind?: 'removal'): T {
    try {
      this.#space.require(kind);
      const { root, openingLock } = this.#dbs;
      return openingLock.hold(() => root.transactionSync(() => work(this.#dbs)));
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  /**
   * Runs a write that removes something, or changes it without adding to it. It needs less free
   * space, so that low space never prevents revoking, locking or setting passwords.
   */
  remove<T>(work: (dbs: Databases) => T): T {
    return this.write(work, 'removal');
  }

  /**
   * Writes many items in several transactions, so that no request waits for all of them.
   *
   * @param kind as for {@link write}
   */
  async writeInParts<T>(
    all: readonly T[],
    write: (dbs: Databases, each: T) => void,
    kind?: 'removal',
  ): Promise<void> {
    const size = Math.max(MIN_PART, Math.ceil(all.length / MAX_PARTS));
    for (const [index, part] of partsOf(all, size).entries()) {
      if (index > 0) await sleep(PART_PAUSE_MS);
      this.write((dbs) => {
        for (const each of part) write(dbs, each);
      }, kind);
    }
  }

  /**
   * Frees the snapshots of processes that were killed while they read. As long as LMDB keeps one,
   * it reuses no page that was freed since, and the file grows with each write.
   */
  forgetKilledReaders(): void {
    this.#dbs.root.readerCheck();
  }

  async close(): Promise<void> {
    await this.#dbs.root.close();
    await this.#dbs.openingLock.close();
  }
}

function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new StoreUnavailable(`the store is unavailable (${reason})`, { cause: error });
}

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

  /** @throws StoreUnavailable if too little space is free for such a write */
  require(kind: 'removal' | undefined): void {
    if (this.#minFree === 0) return;
    const { bavail, bsize } = statfsSync(this.#path);
    const needed = kind === 'removal' ? this.#minFree / 4 : this.#minFree;
    if (bavail * bsize >= needed) return;
    const free = Math.floor((bavail * bsize) / 1024);
    throw new StoreUnavailable(
      `the disk of ${this.#path} is nearly full (${free} KiB free); writes to the store are refused`,
    );
  }
}
