import { LRUCache } from 'lru-cache';
import { type Key, type Stored, storedOf } from './kv.js';
import { upTo } from '../../util/collections.js';

const MAX = 10_000;

/** Decodes the records of a networked store; the same text gives the same object. */
export class KnownRecords {
  readonly #known = new LRUCache<Key, { readonly text: string; readonly stored: Stored }>(upTo(MAX));

  get(key: Key, text: string | null): Stored | undefined {
    if (text === null) return undefined;
    const known = this.#known.get(key);
    if (known?.text === text) return known.stored;
    const stored = storedOf(text);
    this.#known.set(key, { text, stored });
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
}
