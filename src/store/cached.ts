import { LRUCache } from 'lru-cache';
import { type MaybePromise, mapMaybe } from '../domain/maybe-promise.js';
import type { User } from '../domain/user.js';
import { Bridge } from './bridge.js';
import { Warming } from './warming.js';
import { ForwardingStore } from './forwarding.js';
import { Lag } from './lag.js';
import { Owners } from './owners.js';
import type { Changes, SessionWithOwner, Store, TokenWithOwner } from './store.js';
import { StoreUnavailable } from './store.js';

/** Settings of `cache`, in entries and milliseconds, and of `on_store_failure`. */
export interface CacheSettings {
  readonly size: number;
  readonly ttl: number;
  readonly negative_ttl: number;
  /** How long a token that was seen is still let in while the store can't be asked; null: it is not. */
  readonly serveCachedFor: number | null;
  /**
   * While the store can't be asked, cached records are relied on as long as they are covered: another master is being chosen. That
   * goes for sessions as well, and for what is not there.
   */
  readonly bridgesFailover?: boolean;
}

/** What happens in a cache, for metrics and the log. */
export interface CacheEvents {
  readonly hit: () => void;
  readonly miss: () => void;
  /** A token was let in from the cache because the store could not be asked. */
  readonly servedStale: () => void;
  /** A notification of this process's own change of a token arrived. @param ms since it was sent to the store */
  readonly received: (ms: number) => void;
}

interface Entry {
  readonly found: TokenWithOwner;
  /** `performance.now()` of the answer that it is from. */
  readonly at: number;
}

/** Names of the keys whose changes a cache must receive. */
export const CACHED_NAMES = ['token:', 'user:', 'legacy_keys'] as const;

/** What the names of keys begin with that tell what ended for good (`revocations.ts`). */
export const REVOCATION = 'revocation:';

/**
 * Keeps the answers to token look-ups in front of a store on the network.
 *
 * Nothing is used while changes are not received ({@link arm}, {@link disable}). A look-up that began before a change
 * was told is not kept, and nobody who asks after the change shares its answer. Tokens and their owners are dropped
 * apart: a changed role or lock of a user drops the user, and with it every token's answer.
 */
export class CachedStore extends ForwardingStore {
  readonly #settings: CacheSettings;
  readonly #events: CacheEvents;
  readonly #tokens: LRUCache<string, Entry>;
  readonly #owners: Owners;
  readonly #missing: LRUCache<string, true>;
  readonly #digests = new Map<string, string>();
  readonly #fills = new Map<string, Promise<TokenWithOwner | undefined>>();
  readonly #lag: Lag;
  readonly #bridge: Bridge | undefined;
  readonly #warming: Warming;
  #legacyKeys: boolean | undefined;
  #armed = false;
  /** `performance.now()` until which changes are known to arrive. */
  #coveredUntil = -Infinity;
  /** Grows with every change that is received, so that an older answer is recognised. */
  #generation = 0;

  constructor(inner: Store, settings: CacheSettings, events: CacheEvents) {
    super(inner);
    this.#settings = settings;
    this.#events = events;
    this.#lag = new Lag(events.received);
    const max = Math.max(1, settings.size);
    this.#tokens = new LRUCache({
      max,
      dispose: ({ found }, digest) => {
        if (this.#digests.get(found.token.id) === digest) this.#digests.delete(found.token.id);
      },
    });
    this.#owners = new Owners(max);
    // A ttl of 0 would mean for ever.
    this.#missing = new LRUCache({ max, ttl: Math.max(1, settings.negative_ttl) });
    if (settings.bridgesFailover === true) this.#bridge = new Bridge(settings);
    this.#warming = new Warming((digest) => this.#warm(digest));
  }

  /** Changes are received from now on; what was read before is forgotten. @param until as for {@link cover} */
  arm(until = Infinity): void {
    const before = [...this.#tokens.keys()];
    this.#forgetAll();
    this.#armed = this.#settings.size > 0;
    this.#coveredUntil = until;
    if (this.#armed && this.#bridge !== undefined) this.#warming.add(before);
  }

  /** Changes are still received. @param until `performance.now()` until which that is known; nothing is used after it */
  cover(until: number): void {
    this.#coveredUntil = until;
  }

  /** Changes are no longer received. */
  disable(): void {
    this.#armed = false;
    this.#lag.clear();
    if (this.#keepsUnarmed) this.#begin();
    else this.#forgetAll();
  }

  /** Forgets what a change concerns. @param names keys without their prefix; null: any */
  changed(names: readonly string[] | null): void {
    if (names === null) {
      this.#forgetAll();
      return;
    }
    this.#begin();
    const told: string[] = [];
    for (const name of names) {
      if (name.startsWith('token:')) told.push(name.slice('token:'.length));
      else if (name.startsWith('user:')) this.#owners.delete(name.slice('user:'.length));
      else if (name === 'legacy_keys') this.#legacyKeys = undefined;
    }
    for (const digest of told) this.#toldOf(digest);
    if (this.#armed && this.#bridge !== undefined) this.#warming.add(told);
  }

  /** Forgets what ended for good. @param names as in `revocations.ts` */
  ended(names: readonly string[]): void {
    this.#begin();
    for (const name of names) {
      const rest = name.slice(name.indexOf(':') + 1);
      if (name.startsWith('token:')) this.#endToken(this.#digests.get(rest));
      else if (name.startsWith('legacy:')) this.#endToken(rest);
      else if (name.startsWith('session:')) this.#bridge?.end(rest);
      else if (name.startsWith('user:')) this.#owners.delete(rest.slice(rest.indexOf(':') + 1));
    }
  }

  override findToken(digest: string): MaybePromise<TokenWithOwner | undefined> {
    const now = performance.now();
    if (this.#armed && now < this.#coveredUntil) {
      const entry = this.#tokens.get(digest);
      if (entry !== undefined && this.#isFresh(entry, now)) {
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

  override async findSession(digest: string): Promise<SessionWithOwner | undefined> {
    const generation = this.#generation;
    let found: SessionWithOwner | undefined;
    try {
      found = await this.inner.findSession(digest);
    } catch (error) {
      const known = error instanceof StoreUnavailable ? this.#bridgedSession(digest) : undefined;
      if (known === undefined) throw error;
      return known.found;
    }
    if (found !== undefined) this.#owners.note(found.owner);
    if (this.#bridge !== undefined && generation === this.#generation) {
      if (found !== undefined) this.#owners.keep(found.owner);
      this.#bridge.noteSession(digest, found?.session);
    }
    return found;
  }

  override getUser(id: string): MaybePromise<User | undefined> {
    return mapMaybe(this.inner.getUser(id), (found) => this.#noted(found));
  }

  override getUserByLogin(login: string): MaybePromise<User | undefined> {
    return mapMaybe(this.inner.getUserByLogin(login), (found) => this.#noted(found));
  }

  override hasLegacyKeys(): MaybePromise<boolean> {
    const known = this.#legacyKeys;
    if (this.#armed && known !== undefined && performance.now() < this.#coveredUntil) return known;
    const generation = this.#generation;
    const asked = mapMaybe(this.inner.hasLegacyKeys(), (some) => {
      if (this.#armed && generation === this.#generation) this.#legacyKeys = some;
      return some;
    });
    if (known === undefined || !(asked instanceof Promise)) return asked;
    return asked.catch((error: unknown) => {
      if (error instanceof StoreUnavailable && this.#isBridging) return known;
      throw error;
    });
  }

  /** What threw may have been written all the same, so it is forgotten like what was. */
  override async change(changes: Changes, now: number) {
    try {
      return await super.change(changes, now);
    } finally {
      this.#begin();
      for (const { digest } of changes.tokens ?? []) this.#forgetToken(digest);
      for (const { id } of changes.users ?? []) this.#owners.delete(id);
      for (const id of changes.removeUsers ?? []) this.#owners.delete(id);
      for (const id of changes.removeTokens ?? []) this.#forgetId(id);
      this.#legacyKeys = undefined;
    }
  }

  override async createToken(...args: Parameters<Store['createToken']>) {
    const { digest } = args[0];
    this.#send(digest);
    try {
      const result = await super.createToken(...args);
      if (result !== 'created') this.#lag.notChanged(digest);
      return result;
    } finally {
      this.#begin();
      this.#forgetToken(digest);
    }
  }

  override async revokeTokens(ids: readonly string[]): Promise<string[]> {
    // Before, so that a fault in between leaves nothing behind, and after, for what was read meanwhile.
    const digests = ids.map((id) => this.#digests.get(id)).filter((digest) => digest !== undefined);
    for (const id of ids) this.#forgetId(id);
    for (const digest of digests) this.#send(digest);
    try {
      const missing = await super.revokeTokens(ids);
      for (const digest of digests) this.#endToken(digest);
      if (missing.length > 0) for (const digest of digests) this.#lag.notChanged(digest);
      return missing;
    } finally {
      this.#begin();
      for (const id of ids) this.#forgetId(id);
      this.#legacyKeys = undefined;
    }
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
      if (!(error instanceof StoreUnavailable)) throw error;
      if (this.#bridge?.hasEnded(digest) === true || (this.#isBridging && this.#missing.has(digest)))
        return undefined;
      const stale = this.#stale(digest);
      if (stale === undefined) throw error;
      this.#events.servedStale();
      return stale;
    }
    if (generation === this.#generation) this.#keep(digest, found);
    else if (found === undefined) this.#forgetToken(digest);
    else this.#owners.note(found.owner);
    return found;
  }

  /** Reads a token that was changed, or used before the latest failover, so that it is known at the next one. */
  async #warm(digest: string): Promise<void> {
    if (!this.#armed || this.#tokens.has(digest)) return;
    const found = await (this.#fills.get(digest) ?? this.#fill(digest));
    // It was there, or there could be no notification of it.
    if (found === undefined) this.#bridge?.end(digest);
  }

  #keep(digest: string, found: TokenWithOwner | undefined): void {
    if (found === undefined) {
      this.#forgetToken(digest);
      if (this.#armed && this.#settings.negative_ttl > 0) this.#missing.set(digest, true);
      return;
    }
    if (!this.#armed && !this.#keepsUnarmed) return;
    // Tokens of one user share its record, so that dropping it drops all of their answers.
    const owner = this.#owners.keep(found.owner);
    this.#tokens.set(digest, { found: { token: found.token, owner }, at: performance.now() });
    this.#digests.set(found.token.id, digest);
    this.#missing.delete(digest);
    this.#bridge?.noteToken(digest);
  }

  /** A token that was seen not too long ago. Its expiry is judged by whoever asks, as always. */
  #stale(digest: string): TokenWithOwner | undefined {
    const entry = this.#keepsUnarmed ? this.#tokens.get(digest) : undefined;
    if (entry === undefined) return undefined;
    const now = performance.now();
    if (!this.#isBridging && now - entry.at >= (this.#settings.serveCachedFor ?? 0)) return undefined;
    const { token } = entry.found;
    const owner = this.#owners.get(token.userId);
    return owner === undefined ? undefined : { token, owner };
  }

  /** A session that was read lately, or is known to have ended. */
  #bridgedSession(digest: string): { readonly found: SessionWithOwner | undefined } | undefined {
    if (this.#bridge?.hasEnded(digest) === true) return { found: undefined };
    const session = this.#isBridging ? this.#bridge?.session(digest) : undefined;
    const owner = session && this.#owners.get(session.userId);
    return session === undefined || owner === undefined ? undefined : { found: { session, owner } };
  }

  /** Whether all that was changed until now is known, though the store can't be asked. */
  get #isBridging(): boolean {
    return this.#bridge !== undefined && performance.now() < this.#coveredUntil;
  }

  get #keepsUnarmed(): boolean {
    return this.#settings.serveCachedFor !== null || this.#bridge !== undefined;
  }

  #isFresh({ found, at }: Entry, now: number): boolean {
    return this.#owners.get(found.owner.id) === found.owner && now - at < this.#settings.ttl;
  }

  #noted(found: User | undefined): User | undefined {
    if (found !== undefined) this.#owners.note(found);
    return found;
  }

  #send(digest: string): void {
    if (this.#armed) this.#lag.sent(digest);
  }

  #toldOf(digest: string): void {
    this.#lag.received(digest);
    this.#forgetToken(digest);
  }

  /** A token ended for good. @param digest undefined: it is not known */
  #endToken(digest: string | undefined): void {
    if (digest === undefined) return;
    this.#bridge?.end(digest);
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
    this.#bridge?.forgetSessions();
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
