import { LRUCache } from 'lru-cache';
import { type Awaitable, whenReady } from '../domain/awaitable.js';
import type { User } from '../domain/user.js';
import { ForwardingStore } from './forwarding.js';
import { Lag } from './lag.js';
import type { Changes, Store, TokenWithOwner } from './store.js';
import { StoreUnavailable } from './store.js';

/** Settings of `cache`, in entries and milliseconds, and of `on_store_failure`. */
export interface CacheSettings {
  readonly size: number;
  readonly ttl: number;
  readonly negative_ttl: number;
  /** How long a token that was seen is still let in while the store can't be asked; null: it is not. */
  readonly serveCachedFor: number | null;
}

/** What happens in a cache, for metrics and the log. */
export interface CacheEvents {
  readonly hit: () => void;
  readonly miss: () => void;
  /** A token was let in from the cache because the store could not be asked. */
  readonly servedStale: () => void;
  /** A change of a token by this process was told to it. @param ms since it was sent to the store */
  readonly told: (ms: number) => void;
}

interface Entry {
  readonly found: TokenWithOwner;
  /** `performance.now()` of the answer that it is from. */
  readonly at: number;
}

/** Names of the keys whose changes a cache has to be told of. */
export const CACHED_NAMES = ['token:', 'user:', 'legacy_keys'] as const;

/**
 * Keeps the answers to token look-ups in front of a store on the network.
 *
 * Nothing is used while changes are not told ({@link arm}, {@link disarm}). A look-up that began before a change
 * was told is not kept, and nobody who asks after the change shares its answer. Tokens and their owners are dropped
 * apart: a changed role or lock of a user drops the user, and with it every token's answer.
 */
export class CachedStore extends ForwardingStore {
  readonly #settings: CacheSettings;
  readonly #events: CacheEvents;
  readonly #tokens: LRUCache<string, Entry>;
  readonly #owners: LRUCache<string, User>;
  readonly #missing: LRUCache<string, true>;
  readonly #digests = new Map<string, string>();
  readonly #fills = new Map<string, Promise<TokenWithOwner | undefined>>();
  readonly #lag: Lag;
  #legacyKeys: boolean | undefined;
  #armed = false;
  /** Grows with every change that is told, so that an answer from before it is recognised. */
  #generation = 0;

  constructor(inner: Store, settings: CacheSettings, events: CacheEvents) {
    super(inner);
    this.#settings = settings;
    this.#events = events;
    this.#lag = new Lag(events.told);
    const max = Math.max(1, settings.size);
    this.#tokens = new LRUCache({
      max,
      dispose: ({ found }, digest) => {
        if (this.#digests.get(found.token.id) === digest) this.#digests.delete(found.token.id);
      },
    });
    this.#owners = new LRUCache({ max });
    // A ttl of 0 would mean for ever.
    this.#missing = new LRUCache({ max, ttl: Math.max(1, settings.negative_ttl) });
  }

  /** Changes are told from now on; what was read before is forgotten. */
  arm(): void {
    this.#forgetAll();
    this.#armed = this.#settings.size > 0;
  }

  /** Changes are not told any more. */
  disarm(): void {
    this.#armed = false;
    this.#lag.clear();
    if (this.#settings.serveCachedFor === null) this.#forgetAll();
    else this.#begin();
  }

  /** Forgets what a change concerns. @param names keys without their prefix; null: any */
  changed(names: readonly string[] | null): void {
    if (names === null) {
      this.#forgetAll();
      return;
    }
    this.#begin();
    for (const name of names) {
      if (name.startsWith('token:')) this.#toldOf(name.slice('token:'.length));
      else if (name.startsWith('user:')) this.#owners.delete(name.slice('user:'.length));
      else if (name === 'legacy_keys') this.#legacyKeys = undefined;
    }
  }

  override findToken(digest: string): Awaitable<TokenWithOwner | undefined> {
    if (this.#armed) {
      const entry = this.#tokens.get(digest);
      if (entry !== undefined && this.#isFresh(entry, this.#settings.ttl)) {
        this.#events.hit();
        return entry.found;
      }
      if (this.#missing.has(digest)) {
        this.#events.hit();
        return undefined;
      }
    }
    this.#events.miss();
    return this.#fills.get(digest) ?? this.#fill(digest);
  }

  override hasLegacyKeys(): Awaitable<boolean> {
    if (this.#armed && this.#legacyKeys !== undefined) return this.#legacyKeys;
    const generation = this.#generation;
    return whenReady(this.inner.hasLegacyKeys(), (some) => {
      if (this.#armed && generation === this.#generation) this.#legacyKeys = some;
      return some;
    });
  }

  override async change(changes: Changes, now: number) {
    const refused = await super.change(changes, now);
    this.#begin();
    for (const { digest } of changes.tokens ?? []) this.#forgetToken(digest);
    for (const { id } of changes.users ?? []) this.#owners.delete(id);
    for (const id of changes.removeUsers ?? []) this.#owners.delete(id);
    for (const id of changes.removeTokens ?? []) this.#forgetId(id);
    this.#legacyKeys = undefined;
    return refused;
  }

  override async createToken(...args: Parameters<Store['createToken']>) {
    const { digest } = args[0];
    this.#send(digest);
    const result = await super.createToken(...args);
    if (result !== 'created') this.#lag.notChanged(digest);
    this.#begin();
    this.#forgetToken(digest);
    return result;
  }

  override async revokeTokens(ids: readonly string[]): Promise<string[]> {
    // Before, so that a fault in between leaves nothing behind, and after, for what was read meanwhile.
    const digests = ids.map((id) => this.#digests.get(id)).filter((digest) => digest !== undefined);
    for (const id of ids) this.#forgetId(id);
    for (const digest of digests) this.#send(digest);
    const missing = await super.revokeTokens(ids);
    if (missing.length > 0) for (const digest of digests) this.#lag.notChanged(digest);
    this.#begin();
    for (const id of ids) this.#forgetId(id);
    this.#legacyKeys = undefined;
    return missing;
  }

  async #fill(digest: string): Promise<TokenWithOwner | undefined> {
    const generation = this.#generation;
    const fill = this.#ask(digest, generation);
    this.#fills.set(digest, fill);
    try {
      return await fill;
    } finally {
      if (this.#fills.get(digest) === fill) this.#fills.delete(digest);
    }
  }

  async #ask(digest: string, generation: number): Promise<TokenWithOwner | undefined> {
    let found: TokenWithOwner | undefined;
    try {
      found = await this.inner.findToken(digest);
    } catch (error) {
      const stale = error instanceof StoreUnavailable ? this.#stale(digest) : undefined;
      if (stale === undefined) throw error;
      this.#events.servedStale();
      return stale;
    }
    if (generation === this.#generation) this.#keep(digest, found);
    else if (found === undefined) this.#forgetToken(digest);
    return found;
  }

  #keep(digest: string, found: TokenWithOwner | undefined): void {
    if (found === undefined) {
      this.#forgetToken(digest);
      if (this.#armed && this.#settings.negative_ttl > 0) this.#missing.set(digest, true);
      return;
    }
    if (!this.#armed && this.#settings.serveCachedFor === null) return;
    // Tokens of one user share its record, so that dropping it drops all of their answers.
    const owner = this.#owners.get(found.owner.id) ?? found.owner;
    this.#owners.set(owner.id, owner);
    this.#tokens.set(digest, { found: { token: found.token, owner }, at: performance.now() });
    this.#digests.set(found.token.id, digest);
    this.#missing.delete(digest);
  }

  /** A token that was seen not too long ago. Its expiry is judged by whoever asks, as always. */
  #stale(digest: string): TokenWithOwner | undefined {
    const limit = this.#settings.serveCachedFor;
    const entry = limit === null ? undefined : this.#tokens.get(digest);
    return entry !== undefined && limit !== null && this.#isFresh(entry, limit) ? entry.found : undefined;
  }

  #isFresh({ found, at }: Entry, ttl: number): boolean {
    return this.#owners.get(found.owner.id) === found.owner && performance.now() - at < ttl;
  }

  #send(digest: string): void {
    if (this.#armed) this.#lag.sent(digest);
  }

  #toldOf(digest: string): void {
    this.#lag.told(digest);
    this.#forgetToken(digest);
  }

  #forgetId(id: string): void {
    const digest = this.#digests.get(id);
    if (digest !== undefined) this.#forgetToken(digest);
  }

  #forgetToken(digest: string): void {
    this.#tokens.delete(digest);
    this.#missing.delete(digest);
    this.#fills.delete(digest);
  }

  #forgetAll(): void {
    this.#begin();
    this.#tokens.clear();
    this.#owners.clear();
    this.#missing.clear();
    this.#digests.clear();
    this.#lag.clear();
    this.#legacyKeys = undefined;
  }

  /** What is being read now began before this and is not kept, nor shared with whoever asks from now on. */
  #begin(): void {
    this.#generation += 1;
    this.#fills.clear();
  }
}
