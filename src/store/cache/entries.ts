import { LRUCache } from 'lru-cache';
import type { TokenWithOwner } from '../token-store.js';
import { isSameUser, type User } from '../../domain/user.js';

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

/** Records of users that were read, each the newest one: answers come in any order. */
export class Owners {
  readonly #users: LRUCache<string, User>;

  /** @param max how many are kept */
  constructor(max: number) {
    this.#users = new LRUCache({ max });
  }

  get(id: string): User | undefined {
    return this.#users.get(id);
  }

  /** Keeps a record that was read, unless a newer one is kept, and returns the newer one. */
  keep(read: User): User {
    const known = this.#users.get(read.id);
    const newest = known === undefined || isNewer(read, known) ? read : known;
    this.#users.set(newest.id, newest);
    return newest;
  }

  /** Keeps a record that was read on another occasion, where it is newer than the one that is kept. */
  note(read: User): void {
    const known = this.#users.peek(read.id);
    if (known !== undefined && isNewer(read, known)) this.#users.set(read.id, read);
  }

  delete(id: string): void {
    this.#users.delete(id);
  }

  clear(): void {
    this.#users.clear();
  }
}

/**
 * Whether a record of a user is newer than another one: each change gives it a later `updatedAt`. Of two that differ and
 * are of one time, the one that was read last is taken; a user that was deleted and made anew has a later `createdAt`.
 */
function isNewer(a: User, b: User): boolean {
  if (a.createdAt !== b.createdAt) return a.createdAt > b.createdAt;
  return a.updatedAt === b.updatedAt ? !isSameUser(a, b) : a.updatedAt > b.updatedAt;
}
