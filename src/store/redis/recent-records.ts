import { LRUCache } from 'lru-cache';
import { KnownRecords } from '../core/known-records.js';
import type { Key, Stored } from '../core/kv.js';
import type { MasterSession } from './session.js';
import { upTo } from '../../util/collections.js';

const MAX = 1_000;
/** How long a record counts as recent, in milliseconds: most of a request, hashing included. */
const RECENT_MS = 2_000;

/** Also knows what was read or written a moment ago (`Kv.recent`). */
export class RecentRecords extends KnownRecords {
  readonly #recent = new LRUCache<Key, { readonly stored: Stored | undefined }>({
    ...upTo(MAX),
    ttl: RECENT_MS,
  });
  readonly #sessionOf: () => MasterSession | undefined;
  #session: MasterSession | undefined;

  /** @param sessionOf a new master may have lost commits, and give their numbers to others */
  constructor(sessionOf: () => MasterSession | undefined) {
    super();
    this.#sessionOf = sessionOf;
  }

  override get(key: Key, text: string | null): Stored | undefined {
    const stored = super.get(key, text);
    this.#recent.set(key, { stored });
    return stored;
  }

  recent(key: Key): { readonly stored: Stored | undefined } | undefined {
    const session = this.#sessionOf();
    if (session !== this.#session) this.#recent.clear();
    this.#session = session;
    return this.#recent.get(key);
  }

  forget(keys: Iterable<Key>): void {
    for (const key of keys) this.#recent.delete(key);
  }
}
