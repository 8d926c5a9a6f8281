import { LRUCache } from 'lru-cache';
import { type Key, type Stored, storedOf } from './kv.js';

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
  readonly #known = new LRUCache<Key, Known>({ max: MAX });
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

  forget(keys: Iterable<Key>): void {
    for (const key of keys) this.#known.delete(key);
  }
}
