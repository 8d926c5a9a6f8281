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
  readonly #tokens: LRUCache<string, Entry>;
  readonly #missing: LRUCache<string, true>;
  readonly #digests = new Map<string, string>();
  readonly #keepsMissing: boolean;

  /** @param missingTtl how long a missing token is cached, in milliseconds; 0: not at all */
  constructor(max: number, missingTtl: number) {
    this.#tokens = new LRUCache({
      ...upTo(max),
      dispose: ({ found }, digest) => {
        if (this.#digests.get(found.token.id) === digest) this.#digests.delete(found.token.id);
      },
    });
    this.#keepsMissing = missingTtl > 0;
    // A ttl of 0 would mean forever.
    this.#missing = new LRUCache({ ...upTo(max), ttl: Math.max(1, missingTtl) });
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

/** The newest known record of each user; reads may return in any order. */
export class Owners {
  readonly #users: LRUCache<string, User>;

  constructor(max: number) {
    this.#users = new LRUCache(upTo(max));
  }

  get(id: string): User | undefined {
    return this.#users.get(id);
  }

  /** Keeps a record that was read unless a newer one is known. Returns the newer one. */
  keep(read: User): User {
    const known = this.#users.get(read.id);
    const newest = known === undefined || isNewer(read, known) ? read : known;
    this.#users.set(newest.id, newest);
    return newest;
  }

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
 * Each change sets a later `updatedAt`; at the same time, the one that was read last counts.
 * A user who was deleted and recreated has a later `createdAt`.
 */
function isNewer(a: User, b: User): boolean {
  if (a.createdAt !== b.createdAt) return a.createdAt > b.createdAt;
  return a.updatedAt === b.updatedAt ? !isSameUser(a, b) : a.updatedAt > b.updatedAt;
}

/** Tracks how long a cache can be trusted and which reads predate a change. */
export class Coverage {
  readonly #bridges: boolean;
  #enabled = false;
  /** `performance.now()` until which no change can have been missed. */
  #until = -Infinity;
  #generation = 0;

  constructor(bridges: boolean) {
    this.#bridges = bridges;
  }

  get isEnabled(): boolean {
    return this.#enabled;
  }

  /** Whether all changes until now are known even if the store is unavailable. */
  get isBridging(): boolean {
    return this.#bridges && performance.now() < this.#until;
  }

  /** Increases with every change, so that reads from before it can be recognized. */
  get generation(): number {
    return this.#generation;
  }

  isCurrent(now: number): boolean {
    return this.#enabled && now < this.#until;
  }

  enable(enabled: boolean, until: number): void {
    this.#enabled = enabled;
    this.#until = until;
  }

  disable(): void {
    this.#enabled = false;
  }

  cover(until: number): void {
    this.#until = until;
  }

  advance(): void {
    this.#generation += 1;
  }
}

const MAX_WAITING = 1_000;

/** The time from sending a change until its notification arrives, which all processes receive. */
export class Lag {
  readonly #sentAt = new Map<string, number>();
  readonly #onReceived: (ms: number) => void;

  constructor(onReceived: (ms: number) => void) {
    this.#onReceived = onReceived;
  }

  sent(key: string): void {
    if (this.#sentAt.size < MAX_WAITING) this.#sentAt.set(key, performance.now());
  }

  /** Forgets changes that were not made: no notification will arrive. */
  notChanged(keys: readonly string[]): void {
    for (const key of keys) this.#sentAt.delete(key);
  }

  received(key: string): void {
    const sentAt = this.#sentAt.get(key);
    if (sentAt === undefined) return;
    this.#sentAt.delete(key);
    this.#onReceived(performance.now() - sentAt);
  }

  /** Forgets all changes sent so far: their notifications may never arrive. */
  clear(): void {
    this.#sentAt.clear();
  }
}
