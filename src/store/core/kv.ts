/**
 * What a store has to do. The rules are written once over this interface, in this folder:
 * an implementation knows neither what is in a record nor why it changes.
 */
import { LRUCache } from 'lru-cache';
import type { EpochMs } from '../../util/time.js';
import type { MaybePromise } from '../../util/async.js';
import { upTo } from '../../util/collections.js';

/** `KIND:ID`, as in `user:U1`. */
export type Key = string;
/** Of a record: the number of the commit that wrote it. No two commits have the same. */
export type Revision = string;

/** A stored record. The same object while the record stays the same, so it can be a cache's key. */
export interface Stored {
  readonly revision: Revision;
  readonly value: unknown;
  /** The record that this one refers to, as a token to its owner. */
  readonly ref: Key | undefined;
  /** The value as its kind decoded it (`kinds.ts`): the same object as long as the record is. */
  decoded: unknown;
}

/** A member of an index. Members are ordered by score, then by name in the order of bytes. */
export interface Member {
  readonly name: string;
  readonly score: number;
}

/** Part of an index: everything, without bounds. */
export interface Range {
  readonly from?: number;
  readonly to?: number;
  readonly after?: Member;
  readonly before?: Member;
  readonly limit?: number;
}

/** A change: all of it, or nothing if a record has another revision than was read. */
export interface Commit {
  /** The revisions that were read; null: there was no record. */
  readonly expect: ReadonlyMap<Key, Revision | null>;
  /** Records to write; null removes one. */
  readonly put: ReadonlyMap<Key, { readonly value: unknown; readonly ref: Key | undefined } | null>;
  /** Scores by index and member; null removes a member, `revision` is that of this commit. */
  readonly link: ReadonlyMap<string, ReadonlyMap<string, number | 'revision' | null>>;
  /** What ended or changed, for all processes that use the store (`revocations.ts`). */
  readonly tell: readonly string[];
  /** Whether it only removes or replaces: then it is made even if little space is left. */
  readonly isReserved: boolean;
  /** Parts of indexes that must have no members, or the change is not made. */
  readonly none: readonly Between[];
}

/** What lies between two names, in an index whose scores are all 0. */
export interface Between {
  readonly index: string;
  readonly after: string;
  readonly before: string;
}

/** Makes a change, around which more may have to be done. */
export type Changing = (change: Commit, make: () => Promise<Revision | null>) => Promise<Revision | null>;

export interface Touch {
  /** The record to write, unless a later use is stored. */
  readonly key: Key;
  readonly at: EpochMs;
  readonly value: unknown;
  /** Nothing is written unless this record exists. */
  readonly of: Key;
}

export interface Followed {
  readonly chain: readonly Stored[];
  readonly beside: Stored | undefined;
}

export interface Kv {
  /** Reads records at one moment, in the order of the keys. */
  read(keys: readonly Key[]): MaybePromise<(Stored | undefined)[]>;
  /** Reads a record, those that it leads to ({@link MAX_REFS} in all) and one beside, at one moment. */
  follow(key: Key, beside?: Key): MaybePromise<Followed>;
  /**
   * What this process read or wrote a moment ago, which may have changed since; undefined: unknown, as
   * always where reading takes no round trip. A change that expects it is checked anyway.
   */
  recent(key: Key): { readonly stored: Stored | undefined } | undefined;
  /** Counts the members of an index, or those with a score of at least `from`. */
  count(index: string, from?: number): MaybePromise<number>;
  range(index: string, range: Range): MaybePromise<Member[]>;
  /** Returns the scores of members; undefined for those that an index does not have. */
  scores(index: string, names: readonly string[]): MaybePromise<(number | undefined)[]>;
  /** Makes a change durably. Returns its revision; null: a record has another revision than expected. */
  commit(change: Commit): MaybePromise<Revision | null>;
  touch(uses: readonly Touch[]): Promise<void>;
  /** @throws StoreUnavailable while a record that is missing may still be restored after a failover */
  confirmMissing(): MaybePromise<void>;
  /** The same store for requests: it does not wait until an unavailable store is back. */
  readonly urgent: Kv;
  clock(): MaybePromise<EpochMs>;
  /** Frees what the store itself keeps for some time only. Called regularly. */
  tidy(): MaybePromise<void>;
  close(): Promise<void>;
}

/** A pointer, a token or session, and its owner. */
export const MAX_REFS = 3;

export function textOf(revision: Revision, ref: Key | undefined, value: unknown): string {
  return `${revision}|${ref ?? ''}|${JSON.stringify(value)}`;
}

/** Decodes a stored record. One that is damaged has no value, which every decoder refuses. */
export function storedOf(text: string): Stored {
  const [, revision = '', ref = '', json = ''] = /^([^|]*)(?:\|([^|]*)\|(.*)$)?/s.exec(text) ?? [];
  return { revision, ref: ref === '' ? undefined : ref, value: parse(json), decoded: undefined };
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

const MAX = 10_000;
/** How long a record counts as recent, in milliseconds: most of a request, hashing included. */
const RECENT_MS = 2_000;

interface Known {
  readonly text: string | null;
  readonly stored: Stored | undefined;
  at: number;
}

/**
 * The records of a networked store as they were last read or written. The same text gives the same
 * object.
 */
export class KnownRecords {
  readonly #known = new LRUCache<Key, Known>(upTo(MAX));
  readonly #sessionOf: () => unknown;
  #session: unknown;

  /** @param sessionOf a new master may have lost commits, and give their numbers to others */
  constructor(sessionOf: () => unknown = () => undefined) {
    this.#sessionOf = sessionOf;
  }

  get(key: Key, text: string | null): Stored | undefined {
    const known = this.#known.get(key);
    const at = performance.now();
    if (known?.text === text) {
      known.at = at;
      return known.stored;
    }
    const stored = text === null ? undefined : storedOf(text);
    this.#known.set(key, { text, stored, at });
    return stored;
  }

  /** Decodes a record and those that it leads to. */
  chain(key: Key, texts: readonly string[]): Stored[] {
    const chain: Stored[] = [];
    for (let next: Key | undefined = key; chain.length < texts.length && next !== undefined;) {
      const stored = this.get(next, texts[chain.length] as string) as Stored;
      chain.push(stored);
      next = stored.ref;
    }
    return chain;
  }

  recent(key: Key): { readonly stored: Stored | undefined } | undefined {
    const session = this.#sessionOf();
    if (session !== this.#session) this.#known.clear();
    this.#session = session;
    const known = this.#known.peek(key);
    return known !== undefined && performance.now() - known.at < RECENT_MS ? known : undefined;
  }

  /** Notes the outcome of a commit. @param revision null: a record had another revision than expected */
  committed({ expect, put }: Commit, revision: Revision | null): void {
    if (revision === null) this.forget(expect.keys());
    else for (const [key, each] of put) this.get(key, each && textOf(revision, each.ref, each.value));
  }

  forget(keys: Iterable<Key>): void {
    for (const key of keys) this.#known.delete(key);
  }
}
