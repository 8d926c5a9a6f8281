import { LRUCache } from 'lru-cache';
import type { TokenWithOwner } from '../core/token-records.js';
import { isSameUser, type User } from '../../domain/user.js';
import { upTo } from '../../util/collections.js';

export interface Entry {
  readonly found: TokenWithOwner;
  /** `performance.now()` of the answer. */
  readonly at: number;
}

/** Cached tokens by digest and by id, and digests known not to belong to a token. */
export class TokenEntries {
  readonly tokens: LRUCache<string, Entry>;
  readonly missing: LRUCache<string, true>;
  readonly #digests = new Map<string, string>();

  /** @param missingTtl how long a missing token is cached, in milliseconds */
  constructor(max: number, missingTtl: number) {
    this.tokens = new LRUCache({
      ...upTo(max),
      dispose: ({ found }, digest) => {
        if (this.#digests.get(found.token.id) === digest) this.#digests.delete(found.token.id);
      },
    });
    // A ttl of 0 would mean forever.
    this.missing = new LRUCache({ ...upTo(max), ttl: Math.max(1, missingTtl) });
  }

  digestOf(id: string): string | undefined {
    return this.#digests.get(id);
  }

  set(digest: string, found: TokenWithOwner): void {
    this.tokens.set(digest, { found, at: performance.now() });
    this.#digests.set(found.token.id, digest);
    this.missing.delete(digest);
  }

  delete(digest: string): void {
    this.tokens.delete(digest);
    this.missing.delete(digest);
  }

  clear(): void {
    this.tokens.clear();
    this.missing.clear();
    this.#digests.clear();
  }
}

/** The newest known record of each user; reads may return in any order. */
export class Owners extends LRUCache<string, User> {
  /** Keeps a record that was read unless a newer one is known. Returns the newer one. */
  keep(read: User): User {
    const known = this.get(read.id);
    const newest = known === undefined || isNewer(read, known) ? read : known;
    this.set(newest.id, newest);
    return newest;
  }

  note(read: User): void {
    const known = this.peek(read.id);
    if (known !== undefined && isNewer(read, known)) this.set(read.id, read);
  }
}

/**
 * Each change sets a later `updatedAt`; at the same time, the one that was read last counts.
 * A user who was deleted and recreated has a later `createdAt`.
 */
function isNewer(a: User, b: User): boolean {
  if (a.createdAt !== b.createdAt) return a.createdAt > b.createdAt;
  return a.updatedAt === b.updatedAt ? !isSameUser(a, b) : a.updatedAt > b.updatedAt;
}

/** Tracks how long a cache can be trusted and which reads predate a change. */
export class Coverage {
  isEnabled = false;
  /** `performance.now()` until which no change can have been missed. */
  until = -Infinity;
  /** Increases with every change, so that reads from before it can be recognized. */
  generation = 0;
  /** Whether entries are used while another master is being elected. */
  readonly bridges: boolean;

  constructor(bridges: boolean) {
    this.bridges = bridges;
  }

  /** Whether all changes until now are known even if the store is unavailable. */
  get isBridging(): boolean {
    return this.bridges && performance.now() < this.until;
  }

  isCurrent(now: number): boolean {
    return this.isEnabled && now < this.until;
  }
}
