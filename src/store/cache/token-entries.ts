import { LRUCache } from 'lru-cache';
import type { TokenWithOwner } from '../token-store.js';

/** A cached answer of the store. */
export interface Entry {
  readonly found: TokenWithOwner;
  /** `performance.now()` of the answer. */
  readonly at: number;
}

/** Cached tokens by digest and by id, and digests that are no token's. */
export class TokenEntries {
  readonly #tokens: LRUCache<string, Entry>;
  readonly #missing: LRUCache<string, true>;
  readonly #digests = new Map<string, string>();
  readonly #keepsMissing: boolean;

  /** @param missingTtl how long it is known, in milliseconds, that there is no token; 0: not at all */
  constructor(max: number, missingTtl: number) {
    this.#tokens = new LRUCache({
      max,
      dispose: ({ found }, digest) => {
        if (this.#digests.get(found.token.id) === digest) this.#digests.delete(found.token.id);
      },
    });
    this.#keepsMissing = missingTtl > 0;
    // A ttl of 0 would mean forever.
    this.#missing = new LRUCache({ max, ttl: Math.max(1, missingTtl) });
  }

  get(digest: string): Entry | undefined {
    return this.#tokens.get(digest);
  }

  has(digest: string): boolean {
    return this.#tokens.has(digest);
  }

  isMissing(digest: string): boolean {
    return this.#missing.has(digest);
  }

  digestOf(id: string): string | undefined {
    return this.#digests.get(id);
  }

  /** Digests of the tokens, the most recently used first. */
  digests(): string[] {
    return [...this.#tokens.keys()];
  }

  set(digest: string, found: TokenWithOwner): void {
    this.#tokens.set(digest, { found, at: performance.now() });
    this.#digests.set(found.token.id, digest);
    this.#missing.delete(digest);
  }

  setMissing(digest: string): void {
    if (this.#keepsMissing) this.#missing.set(digest, true);
  }

  delete(digest: string): void {
    this.#tokens.delete(digest);
    this.#missing.delete(digest);
  }

  clear(): void {
    this.#tokens.clear();
    this.#missing.clear();
    this.#digests.clear();
  }
}
