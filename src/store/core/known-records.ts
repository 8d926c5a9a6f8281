import { LRUCache } from 'lru-cache';
import { type Key, type Stored, storedOf } from './kv.js';

const MAX = 10_000;
const MAX_RECENT = 1_000;
/** How long a record counts as recent, in milliseconds: most of a request, hashing included. */
const RECENT_MS = 2_000;

/** Decodes the records of a networked store; the same text gives the same object. */
export class KnownRecords {
  readonly #known = new LRUCache<Key, { readonly text: string; readonly stored: Stored }>({ max: MAX });
  readonly #recent = new LRUCache<Key, { readonly stored: Stored | undefined }>({
    max: MAX_RECENT,
    ttl: RECENT_MS,
  });
  readonly #sessionOf: () => object | undefined;
  #session: object | undefined;

  /** @param sessionOf a new master may have lost commits, and give their numbers to others */
  constructor(sessionOf: () => object | undefined = () => undefined) {
    this.#sessionOf = sessionOf;
  }

  get(key: Key, text: string | null): Stored | undefined {
    const stored = text === null ? undefined : this.#decoded(key, text);
    this.#recent.set(key, { stored });
    return stored;
  }

  /** What was read or written a moment ago; undefined: nothing. */
  recent(key: Key): { readonly stored: Stored | undefined } | undefined {
    const session = this.#sessionOf();
    if (session !== this.#session) this.#recent.clear();
    this.#session = session;
    return this.#recent.get(key);
  }

  forget(keys: Iterable<Key>): void {
    for (const key of keys) this.#recent.delete(key);
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

  #decoded(key: Key, text: string): Stored {
    const known = this.#known.get(key);
    if (known?.text === text) return known.stored;
    const stored = storedOf(text);
    this.#known.set(key, { text, stored });
    return stored;
  }
}
