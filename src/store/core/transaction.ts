/** Changes of several records: read, decide, commit, and again if a record changed meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises';
import { mapMaybe, type MaybePromise } from '../../util/async.js';
import type { EpochMs } from '../../util/time.js';
import { StoreUnavailable } from '../faults.js';
import { encode, type Kind, keyOf, valueOf } from './kinds.js';
import {
  type Between,
  type Commit,
  type Key,
  type Kv,
  type Member,
  type Range,
  type Revision,
  type Stored,
} from './kv.js';

const MAX_ATTEMPTS = 30;
const PAUSE_MS = 20;

interface TransactOptions {
  /** What it competes for: changes of this process with the same guard follow each other. */
  readonly guard?: string;
  /** Whether it only removes or replaces ({@link Commit.isReserved}). */
  readonly isReserved?: boolean;
}

/** Reads records, and collects what is to be written. What it reads must not change until then. */
export class Transaction {
  readonly #kv: Kv;
  readonly #read = new Map<Key, Stored | undefined>();
  readonly #put = new Map<Key, { value: object; kind: Kind<unknown>; ref: Key | undefined } | null>();
  readonly #link = new Map<string, Map<string, number | 'revision' | null>>();
  readonly #tell: string[] = [];
  readonly #counts = new Map<string, number>();
  readonly #none: Between[] = [];
  #isSilent = false;
  readonly #loose = new Set<Key>();

  /** Whether records may be as this process knew them a moment ago ({@link Kv.recent}). */
  readonly #mayGuess: boolean;
  /** Whether it relies on a record that it did not read. */
  hasGuessed = false;

  constructor(kv: Kv, mayGuess: boolean) {
    this.#kv = kv;
    this.#mayGuess = mayGuess;
  }

  /**
   * Reads records at once; without it, `get` reads each by itself.
   *
   * @param loose those that may change until the commit
   */
  async load(keys: readonly Key[], loose: readonly Key[] = []): Promise<void> {
    for (const key of loose) if (!this.#read.has(key)) this.#loose.add(key);
    const missing = this.#missing(keys);
    if (missing.length === 0) return;
    const found = await this.#kv.read(missing);
    for (const [i, key] of missing.entries()) this.#read.set(key, found[i]);
  }

  #missing(keys: readonly Key[]): Key[] {
    return [...new Set(keys)].filter((key) => {
      if (this.#read.has(key)) return false;
      const recent = this.#mayGuess ? this.#kv.recent(key) : undefined;
      if (recent === undefined) return true;
      this.hasGuessed = true;
      this.#read.set(key, recent.stored);
      return false;
    });
  }

  /** @param name as for `valueOf` */
  async get<T>(kind: Kind<T>, id: string, name?: string): Promise<T | undefined> {
    const key = keyOf(kind, id);
    const own = this.#put.get(key);
    if (own !== undefined) return (own?.value as T | undefined) ?? undefined;
    await this.load([key]);
    return valueOf(kind, id, this.#read.get(key), name);
  }

  /** Returns a record that may change until the commit. */
  async peek<T>(kind: Kind<T>, id: string): Promise<T | undefined> {
    const key = keyOf(kind, id);
    if (!this.#read.has(key)) this.#loose.add(key);
    return this.get(kind, id);
  }

  async stored(kind: Kind<unknown>, id: string): Promise<Stored | undefined> {
    await this.load([keyOf(kind, id)]);
    return this.#read.get(keyOf(kind, id));
  }

  async has(kind: Kind<unknown>, id: string): Promise<boolean> {
    const key = keyOf(kind, id);
    const own = this.#put.get(key);
    if (own !== undefined) return own !== null;
    await this.load([key]);
    return this.#read.get(key) !== undefined;
  }

  /** To be called before something is reported as missing. */
  async confirmMissing(): Promise<void> {
    await this.#kv.confirmMissing();
  }

  /** Returns the earlier one of a time and the store's clock: a clock that is ahead removes nothing. */
  async earlier(now: EpochMs): Promise<EpochMs> {
    return Math.min(now, await this.#kv.clock());
  }

  /** As it was before this change. */
  async range(index: string, range: Range = {}): Promise<Member[]> {
    return this.#kv.range(index, range);
  }

  /** Whether it may be assumed that nothing lies between two names, until the commit checks it. */
  assumesNone(between: Between): boolean {
    if (!this.#mayGuess) return false;
    this.#none.push(between);
    this.hasGuessed = true;
    return true;
  }

  async count(index: string): Promise<number> {
    const known = this.#counts.get(index) ?? (await this.#kv.count(index));
    this.#counts.set(index, known);
    return known;
  }

  async scores(index: string, names: readonly string[]): Promise<(number | undefined)[]> {
    return names.length === 0 ? [] : this.#kv.scores(index, names);
  }

  /** @param ref the record that it refers to */
  put<T extends object>(kind: Kind<T | null>, id: string, value: T, ref?: Key): void {
    this.#put.set(keyOf(kind, id), { value, kind, ref });
  }

  remove(kind: Kind<unknown>, id: string): void {
    this.#put.set(keyOf(kind, id), null);
  }

  link(index: string, name: string, score: number | 'revision' = 0): void {
    this.#linksOf(index).set(name, score);
  }

  unlink(index: string, name: string): void {
    this.#linksOf(index).set(name, null);
  }

  /** Tells all processes what ended or changed, in the words of `revocations.ts`. */
  tell(...names: readonly string[]): void {
    if (!this.#isSilent) this.#tell.push(...names);
  }

  /** Tells nothing from here on: what a transfer removes may be written again. */
  silence(): void {
    this.#isSilent = true;
  }

  get size(): number {
    return this.#put.size;
  }

  get hasChanges(): boolean {
    return this.#put.size > 0 || this.#link.size > 0 || this.#tell.length > 0;
  }

  commitOf(isReserved: boolean): Commit {
    const expect = new Map<Key, Revision | null>();
    for (const [key, stored] of this.#read)
      if (!this.#loose.has(key)) expect.set(key, stored?.revision ?? null);
    const put = new Map(
      [...this.#put].map(
        ([key, each]) => [key, each && { value: encode(each.value), ref: each.ref }] as const,
      ),
    );
    return { expect, put, link: this.#link, tell: this.#tell, none: this.#none, isReserved };
  }

  #linksOf(index: string): Map<string, number | 'revision' | null> {
    const known = this.#link.get(index) ?? new Map<string, number | 'revision' | null>();
    this.#link.set(index, known);
    return known;
  }
}

export class Transactor {
  readonly kv: Kv;
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(kv: Kv) {
    this.kv = kv;
  }

  /**
   * Makes a change, all or nothing. `decide` may run several times, and reads and writes through its
   * transaction only. @throws StoreUnavailable if others kept changing the same records
   */
  async transact<T>(decide: (tx: Transaction) => Promise<T>, options: TransactOptions = {}): Promise<T> {
    const { guard, isReserved = false } = options;
    if (guard === undefined) return this.#try(decide, isReserved);
    const before = this.#last.get(guard);
    const run = (before ?? Promise.resolve()).then(() => this.#try(decide, isReserved));
    const settled = run.catch(() => undefined);
    this.#last.set(guard, settled);
    try {
      return await run;
    } finally {
      if (this.#last.get(guard) === settled) this.#last.delete(guard);
    }
  }

  /**
   * At first, with what this process knew a moment ago. That outcome counts only if all was read after
   * all, or if the commit finds it unchanged.
   */
  async #try<T>(decide: (tx: Transaction) => Promise<T>, isReserved: boolean): Promise<T> {
    for (let attempts = 0; ; attempts += 1) {
      const tx = new Transaction(this.kv, attempts === 0);
      let result: T;
      try {
        result = await decide(tx);
      } catch (error) {
        if (tx.hasGuessed) continue;
        throw error;
      }
      const counts = tx.hasChanges
        ? (await this.kv.commit(tx.commitOf(isReserved))) !== null
        : !tx.hasGuessed;
      if (counts) return result;
      if (attempts === MAX_ATTEMPTS)
        throw new StoreUnavailable('the same records are being changed elsewhere; try again');
      if (!tx.hasGuessed) await sleep(Math.random() * Math.min(PAUSE_MS, attempts + 1));
    }
  }
}

const PAGE = 500;

/** Reads an index to its end, in parts between which other work is done. */
export async function* pagesOf(
  kv: Kv,
  index: string,
  range: Range = {},
  size = PAGE,
): AsyncGenerator<Member[]> {
  let { after } = range;
  for (;;) {
    const page = await kv.range(index, { ...range, ...(after === undefined ? {} : { after }), limit: size });
    if (page.length > 0) yield page;
    if (page.length < size) return;
    after = page.at(-1);
    await new Promise(setImmediate);
  }
}

export async function namesOf(kv: Kv, index: string): Promise<string[]> {
  return (await allOf(pagesOf(kv, index))).map(({ name }) => name);
}

export function valueAt<T>(kv: Kv, kind: Kind<T>, id: string): MaybePromise<T | undefined> {
  return mapMaybe(kv.read([keyOf(kind, id)]), ([stored]) => valueOf(kind, id, stored));
}

/** Returns the records of the members of an index in pages; those without one are passed over. */
export async function* valuePagesOf<T>(
  kv: Kv,
  index: string,
  kind: Kind<T>,
  idOf: (name: string) => string = (name) => name,
): AsyncGenerator<T[]> {
  for await (const page of pagesOf(kv, index)) {
    const ids = page.map(({ name }) => idOf(name));
    const stored = await kv.read(ids.map((id) => keyOf(kind, id)));
    yield ids.flatMap((id, i) => valueOf(kind, id, stored[i]) ?? []);
  }
}

export async function valuesOf<T>(...index: Parameters<typeof valuePagesOf<T>>): Promise<T[]> {
  return allOf(valuePagesOf(...index));
}

export async function allOf<T>(pages: AsyncIterable<readonly T[]>): Promise<T[]> {
  const found: T[] = [];
  for await (const page of pages) found.push(...page);
  return found;
}
