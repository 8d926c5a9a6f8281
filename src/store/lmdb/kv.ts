// src/store/lmdb: the key-value interface of `core` in LMDB.
// May import what store may.
// The embedded store: records and indexes in LMDB, shared by the processes of one machine.

import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { EpochMs } from '../../util/time.js';
import {
  type Between,
  type Commit,
  type Followed,
  type Key,
  type Kv,
  MAX_REFS,
  type Member,
  type Range,
  type Revision,
  type Stored,
  storedOf,
  textOf,
  type Touch,
} from '../core/kv.js';
import { StoreUnavailable } from '../faults.js';
import { partsOf, upTo } from '../../util/collections.js';
import { appendEnded, entryFor, type Environment, requireSpace } from './environment.js';

/** LMDB fails on keys of more than 1978 bytes. No id or login is that long. */
const MAX_KEY = 1_024;
const BAR = 0x7c;
const REVISION = 'revision';
/** Last uses are written in parts with pauses: one large write would stop everything else. */
const MAX_PARTS = 16;
const MIN_PART = 128;
const PART_PAUSE_MS = 20;

const NOTHING: Followed = { chain: [], beside: undefined };

export class LmdbKv implements Kv {
  readonly urgent = this;
  readonly #env: Environment;
  readonly #requireSpace: (isReserved: boolean) => void;
  readonly #known: DecodedRecords;
  readonly #closing: () => void;

  constructor(env: Environment, path: string, minFree: number, closing: () => void, remembered = 60_000) {
    this.#env = env;
    this.#requireSpace = (isReserved) => requireSpace(path, minFree, isReserved);
    this.#known = new DecodedRecords(env, remembered);
    this.#closing = closing;
  }

  read(keys: readonly Key[]): (Stored | undefined)[] {
    return this.attempt(() => keys.map((key) => this.#known.get(key)));
  }

  follow(key: Key, beside?: Key): Followed {
    try {
      this.#env.root.resetReadTxn();
      const first = this.#known.get(key);
      const other = beside === undefined ? undefined : this.#known.get(beside);
      if (first === undefined) return other === undefined ? NOTHING : { chain: [], beside: other };
      const chain = [first];
      for (let last = first; last.ref !== undefined && chain.length < MAX_REFS;) {
        const next = this.#known.get(last.ref);
        if (next === undefined) break;
        chain.push(next);
        last = next;
      }
      return { chain, beside: other };
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  recent(): undefined {
    return undefined;
  }

  count(index: string, from = -Infinity): number {
    if (!isKey(index)) return 0;
    return this.attempt(() =>
      this.#env.members.getKeysCount({ start: [index, from, ''], end: [index, Infinity, ''] }),
    );
  }

  range(index: string, { from = -Infinity, to = Infinity, after, before, limit }: Range): Member[] {
    if (!isKey(index)) return [];
    return this.attempt(() => {
      const start: [string, number, string] =
        after === undefined ? [index, from, ''] : [index, after.score, after.name];
      // Scores are whole numbers.
      const end: [string, number, string] =
        before === undefined ? [index, to + 0.5, ''] : [index, before.score, before.name];
      const keys = this.#env.members.getKeys({
        start,
        end,
        exclusiveStart: after !== undefined,
        ...(limit === undefined ? {} : { limit }),
      });
      return Array.from(keys, ([, score, name]) => ({ score, name }));
    });
  }

  scores(index: string, names: readonly string[]): (number | undefined)[] {
    return this.attempt(() => names.map((name) => this.#env.scores.get([index, name])));
  }

  /** One synchronous transaction under the lock that all processes share, on disk when it returns. */
  commit(change: Commit): Revision | null {
    return this.#write(change.isReserved, () => {
      for (const [key, revision] of change.expect) if (this.#known.revisionOf(key) !== revision) return null;
      if (change.none.some((each) => this.#hasBetween(each))) return null;
      const number = (this.#env.meta.get(REVISION) ?? 0) + 1;
      const revision = String(number);
      this.#env.meta.putSync(REVISION, number);
      const told: string[] = [];
      for (const [key, each] of change.put) {
        const entry = entryFor(key, this.#known.revisionOf(key) !== null, each === null);
        if (entry !== undefined) told.push(entry);
        if (each === null) this.#env.records.removeSync(key);
        else this.#env.records.putSync(key, Buffer.from(textOf(revision, each.ref, each.value)));
      }
      for (const [index, links] of change.link)
        for (const [name, score] of links) this.#link(index, name, score === 'revision' ? number : score);
      appendEnded(this.#env, [...told, ...change.tell]);
      return revision;
    });
  }

  async touch(uses: readonly Touch[]): Promise<void> {
    const size = Math.max(MIN_PART, Math.ceil(uses.length / MAX_PARTS));
    for (const [index, part] of partsOf(uses, size).entries()) {
      if (index > 0) await sleep(PART_PAUSE_MS);
      this.#write(false, () => {
        for (const { key, at, value, of } of part) {
          if (this.#known.revisionOf(of) === null || Number(this.#known.revisionOf(key) ?? -Infinity) >= at)
            continue;
          this.#env.records.putSync(key, Buffer.from(textOf(String(at), undefined, value)));
        }
      });
    }
  }

  confirmMissing(): void {
    // Nothing is lost by a failover.
  }

  clock(): EpochMs {
    return Date.now();
  }

  /** Frees the snapshots of killed processes, for which the file would grow with each write. */
  tidy(): void {
    this.#env.root.readerCheck();
  }

  async close(): Promise<void> {
    this.#closing();
    await this.#env.root.close();
    await this.#env.openingLock.close();
  }

  /** Reads from the newest snapshot: another process may have revoked something since the last one. */
  attempt<T>(work: () => T): T {
    try {
      this.#env.root.resetReadTxn();
      return work();
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  #write<T>(isReserved: boolean, work: () => T): T {
    try {
      this.#requireSpace(isReserved);
      return this.#env.openingLock.hold(() => this.#env.root.transactionSync(work));
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  #hasBetween({ index, after, before }: Between): boolean {
    const range = { start: [index, 0, after], end: [index, 0, before], exclusiveStart: true };
    return this.#env.members.getKeysCount(range) > 0;
  }

  #link(index: string, name: string, score: number | null): void {
    const { members, scores } = this.#env;
    const before = scores.get([index, name]);
    if (before === (score ?? undefined)) return;
    if (before !== undefined) members.removeSync([index, before, name]);
    if (score === null) {
      scores.removeSync([index, name]);
      return;
    }
    members.putSync([index, score, name], true);
    scores.putSync([index, name], score);
  }
}

function isKey(key: string): boolean {
  return key.length <= MAX_KEY && Buffer.byteLength(key) <= MAX_KEY;
}

function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new StoreUnavailable(`the store is unavailable (${reason})`, { cause: error });
}

/** When all are remembered, one in this many new records evicts another: most are read only once. */
const ONE_IN = 16;

/** A record as lmdb returns it: a view that is valid until the next read. */
type Window = Buffer & { latin1Slice(start: number, end: number): string };

/** Keys as bytes, by length: lmdb writes a string into its key character by character. */
const KEYS = Array.from(
  { length: 65 },
  (_, length) => Buffer.alloc(length) as Buffer & { latin1Write(text: string): void },
);
const IS_ASCII = /^[\x20-\x7e]*$/;

interface Known {
  readonly stored: Stored;
  readonly length: number;
}

/** Remembers a decoded record as long as it has the same revision; the record is read each time. */
class DecodedRecords {
  readonly #records: Environment['records'];
  readonly #known: LRUCache<Key, Known>;
  readonly #most: number;

  constructor({ records }: Environment, most: number) {
    this.#records = records;
    this.#most = most;
    this.#known = new LRUCache(upTo(most));
  }

  get(key: Key): Stored | undefined {
    const known = this.#known.get(key);
    const found = this.#find(key, known !== undefined);
    if (found === undefined) {
      if (known !== undefined) this.#known.delete(key);
      return undefined;
    }
    if (known !== undefined && isSame(found, known)) return known.stored;
    const stored = storedOf(found.toString('utf8', 0, found.length));
    if (
      known !== undefined ||
      (isShort(key) && (this.#known.size < this.#most || Math.random() < 1 / ONE_IN))
    )
      this.#known.set(key, { stored, length: found.length });
    return stored;
  }

  revisionOf(key: Key): Revision | null {
    const found = this.#find(key, false);
    return found === undefined ? null : found.latin1Slice(0, endOfRevision(found));
  }

  /** @param isKnownShort saves the check for a key that was found before */
  #find(key: Key, isKnownShort: boolean): Window | undefined {
    if (!isKnownShort && !isShort(key))
      return isKey(key) ? (this.#records.getBinaryFast(key) as Window | undefined) : undefined;
    const bytes = KEYS[key.length] as (typeof KEYS)[number];
    bytes.latin1Write(key);
    return this.#records.getBinaryFast(bytes) as Window | undefined;
  }
}

function isSame(record: Window, { stored: { revision }, length }: Known): boolean {
  if (record.length !== length || record[revision.length] !== BAR) return false;
  for (let i = 0; i < revision.length; i += 1) if (record[i] !== revision.charCodeAt(i)) return false;
  return true;
}

function endOfRevision(record: Window): number {
  const end = record.indexOf(BAR);
  return end === -1 || end > record.length ? record.length : end;
}

function isShort(key: Key): boolean {
  return key.length < KEYS.length && IS_ASCII.test(key);
}
