// src/store/cache: the cache in front of a networked store.
// May import what store may.
// Notifications of changes keep it right; without them it is off.

import { keyOf, LEGACY_KEYS, TOKEN, USER } from '../core/kinds.js';
import type { Commit, Revision } from '../core/kv.js';
import { mapMaybe, type MaybePromise } from '../../util/async.js';
import type { User } from '../../domain/user.js';
import { changedByKey, endedByName, withoutPrefix } from '../endings.js';
import { StoreUnavailable } from '../faults.js';
import type { Store } from '../core/store.js';
import type { Config } from '../../config/schema/config.js';
import type { TokenStore } from '../core/tokens.js';
import type { TokenWithOwner } from '../core/token-records.js';
import { Bridge, type KnownRevocations, SessionLookUps, Warming } from './bridge.js';
import { Coverage, type Entry, Owners, TokenEntries } from './entries.js';
import { upTo } from '../../util/collections.js';

/** The settings `cache`, in entries and milliseconds, and `on_store_failure`. */
export interface CacheSettings extends Readonly<Config['cache']> {
  /** How long a known token is accepted while the store is unavailable; null: not at all. */
  readonly serveCachedFor: number | null;
  /** Whether covered entries, sessions included, are used while another master is being elected. */
  readonly bridgesFailover?: boolean;
}

export interface CacheEvents {
  readonly hit: () => void;
  readonly miss: () => void;
  /** @param bridges whether another master is being elected, so no revocation can have been missed */
  readonly servedStale: (bridges: boolean) => void;
  /** A change of a token by this process was notified, so many milliseconds after it was sent. */
  readonly received: (ms: number) => void;
}

/** Makes a change; as `Kv.commit`. */
type Make = () => Promise<Revision | null>;

const [TOKENS, USERS] = [keyOf(TOKEN, ''), keyOf(USER, '')];
/** Maximum number of changes of which a notification is awaited. */
const MAX_AWAITED = 1_000;

/** Puts a cache in front of the look-ups of a store. It must learn of its changes ({@link TokenCache.changing}). */
export function cachedStore({ tokens, sessions, directory, ...others }: Store, cache: TokenCache): Store {
  return {
    ...others,
    tokens: {
      ...tokens,
      find: (digest) => cache.findToken(digest),
      hasLegacyKeys: () => cache.hasLegacyKeys(),
    },
    sessions: { ...sessions, find: async (digest) => cache.sessions.find(digest) },
    directory: {
      ...directory,
      getUser: (id) => mapMaybe(directory.getUser(id), (found) => cache.noteUser(found)),
      getUserByLogin: (login) => mapMaybe(directory.getUserByLogin(login), (found) => cache.noteUser(found)),
    },
  };
}

/**
 * Caches token look-ups while change notifications are received. A look-up that began before a change
 * is not kept. Owners are dropped separately from their tokens.
 */
export class TokenCache {
  readonly sessions: SessionLookUps;
  readonly #inner: TokenStore;
  readonly #settings: CacheSettings;
  readonly #events: CacheEvents;
  readonly #entries: TokenEntries;
  readonly #owners: Owners;
  readonly #fills = new Map<string, Promise<TokenWithOwner | undefined>>();
  readonly #coverage: Coverage;
  readonly #bridge: Bridge | undefined;
  readonly #warming: Warming;
  /** When changes were sent whose notifications, which all processes receive, have not arrived. */
  readonly #sentAt = new Map<string, number>();
  #hasLegacyKeys: boolean | undefined;

  constructor(
    inner: Pick<Store, 'tokens' | 'sessions'>,
    revocations: KnownRevocations,
    settings: CacheSettings,
    events: CacheEvents,
  ) {
    const bridges = settings.bridgesFailover === true;
    const max = Math.max(1, settings.size);
    this.#inner = inner.tokens;
    this.#settings = settings;
    this.#events = events;
    this.#entries = new TokenEntries(max, settings.negative_ttl);
    this.#owners = new Owners(upTo(max));
    this.#coverage = new Coverage(bridges);
    this.#bridge = bridges ? new Bridge(max, revocations) : undefined;
    this.#warming = new Warming(this.#coverage, (digest) => this.#reread(digest));
    this.sessions = new SessionLookUps(inner.sessions, this.#coverage, this.#owners, this.#bridge);
  }

  /** Starts using the cache; drops what was read before notifications arrived. */
  enable(until = Infinity): void {
    const before = [...this.#entries.tokens.keys()];
    const sessions = [...(this.#bridge?.sessions.keys() ?? [])];
    this.#dropAll();
    this.#coverage.isEnabled = this.#settings.size > 0;
    this.#coverage.until = until;
    this.#warming.add(before);
    this.sessions.warming.add(sessions);
  }

  /** @param until `performance.now()` until which no change can have been missed */
  cover(until: number): void {
    this.#coverage.until = until;
  }

  disable(): void {
    this.#coverage.isEnabled = false;
    this.#sentAt.clear();
    if (this.#keepsWhileDisabled) this.#begin();
    else this.#dropAll();
  }

  /** @param names keys without their prefix; null: any key may have changed */
  changed(names: readonly string[] | null): void {
    if (names === null) {
      this.#dropAll();
      return;
    }
    this.#drop(changedByKey(names).keys());
    const digests = withoutPrefix(TOKENS, names);
    for (const digest of digests) {
      const sentAt = this.#sentAt.get(digest);
      if (sentAt !== undefined) this.#events.received(performance.now() - sentAt);
      this.#sentAt.delete(digest);
    }
    this.#warming.add(digests);
    this.sessions.warming.add(withoutPrefix('session:', names));
  }

  ended(names: readonly string[]): void {
    this.#drop(endedByName(names).keys());
  }

  findToken(digest: string): MaybePromise<TokenWithOwner | undefined> {
    const now = performance.now();
    if (this.#coverage.isCurrent(now)) {
      const entry = this.#entries.tokens.get(digest);
      if (entry !== undefined && this.#isFresh(entry, now)) {
        this.#events.hit();
        return entry.found;
      }
      if (this.#entries.missing.has(digest)) {
        this.#events.hit();
        return undefined;
      }
    }
    this.#events.miss();
    return this.#fills.get(digest) ?? this.#fill(digest);
  }

  hasLegacyKeys(): MaybePromise<boolean> {
    const known = this.#hasLegacyKeys;
    if (known !== undefined && this.#coverage.isCurrent(performance.now())) return known;
    const { generation } = this.#coverage;
    const lookUp = mapMaybe(this.#inner.hasLegacyKeys(), (some) => {
      if (this.#coverage.isEnabled && generation === this.#coverage.generation) this.#hasLegacyKeys = some;
      return some;
    });
    if (known === undefined || !(lookUp instanceof Promise)) return lookUp;
    return lookUp.catch((error: unknown) => {
      if (error instanceof StoreUnavailable && this.#coverage.isBridging) return known;
      throw error;
    });
  }

  noteUser(found: User | undefined): User | undefined {
    if (found !== undefined) this.#owners.note(found);
    return found;
  }

  /** @param names as in `Ended` */
  #drop(names: Iterable<string>): void {
    this.#begin();
    for (const name of names) {
      const kind = name.slice(0, name.indexOf(':') + 1);
      const rest = name.slice(kind.length);
      if (kind === 'token:') this.#dropToken(this.#entries.digestOf(rest));
      else if (kind === 'digest:') this.#dropToken(rest);
      else if (kind === 'session:') this.#bridge?.sessions.delete(rest);
      else if (kind === 'user:') this.#owners.delete(rest);
      else this.#hasLegacyKeys = undefined;
    }
  }

  /**
   * Makes a change of this process. What it concerns is dropped before, in case a fault comes in between,
   * and after, for what was read meanwhile.
   */
  async changing({ expect, put, link }: Commit, make: Make): Promise<Revision | null> {
    const digests = withoutPrefix(TOKENS, [...put.keys()]);
    const names = [
      ...digests.map((digest) => `digest:${digest}`),
      ...[...put.keys()].filter((key) => key.startsWith(USERS)),
      ...(link.has(LEGACY_KEYS) ? ['legacy_keys'] : []),
    ];
    if (names.length === 0) return make();
    // PostgreSQL notifies nobody of new ones.
    const known = digests.filter((digest) => typeof expect.get(TOKENS + digest) === 'string');
    this.#drop(names);
    if (this.#coverage.isEnabled)
      for (const digest of known)
        if (this.#sentAt.size < MAX_AWAITED) this.#sentAt.set(digest, performance.now());
    let revision: Revision | null = null;
    try {
      revision = await make();
      if (revision === null) for (const digest of known) this.#sentAt.delete(digest);
      return revision;
    } finally {
      this.#drop(names);
      // The notification precedes the reply; what was read then has just been dropped.
      if (revision !== null) this.#warming.add(digests.filter((digest) => put.get(TOKENS + digest) !== null));
    }
  }

  async #fill(digest: string): Promise<TokenWithOwner | undefined> {
    const { generation } = this.#coverage;
    const fill = this.#lookUp(digest, generation);
    this.#fills.set(digest, fill);
    try {
      return await fill;
    } finally {
      if (this.#fills.get(digest) === fill) this.#fills.delete(digest);
    }
  }

  async #lookUp(digest: string, generation: number): Promise<TokenWithOwner | undefined> {
    let found: TokenWithOwner | undefined;
    try {
      found = await this.#inner.find(digest);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      if (
        this.#bridge?.hasEnded(digest) === true ||
        (this.#coverage.isBridging && this.#entries.missing.has(digest))
      )
        return undefined;
      const stale = this.#stale(digest);
      if (stale === undefined) throw error;
      this.#events.servedStale(this.#coverage.isBridging);
      return stale;
    }
    if (generation === this.#coverage.generation) this.#keep(digest, found);
    else if (found === undefined) this.#dropToken(digest);
    else this.#owners.note(found.owner);
    return found;
  }

  /** Reads a token so that it is known at the next failover. Returns false if a change came in between. */
  async #reread(digest: string): Promise<boolean> {
    if (this.#entries.tokens.has(digest)) return true;
    const found = await (this.#fills.get(digest) ?? this.#fill(digest));
    // The token existed, or there would have been no notification.
    if (found === undefined) this.#bridge?.end(digest);
    return found === undefined || this.#entries.tokens.has(digest);
  }

  #keep(digest: string, found: TokenWithOwner | undefined): void {
    if (found === undefined) {
      this.#dropToken(digest);
      if (this.#coverage.isEnabled && this.#settings.negative_ttl > 0)
        this.#entries.missing.set(digest, true);
      return;
    }
    if (!this.#coverage.isEnabled && !this.#keepsWhileDisabled) return;
    // Tokens of one user share one user record, so dropping it drops all their entries.
    const owner = this.#owners.keep(found.owner);
    this.#entries.set(digest, { token: found.token, owner });
    this.#bridge?.noteToken(found.token);
  }

  /** As always, the caller checks its expiry. */
  #stale(digest: string): TokenWithOwner | undefined {
    const entry = this.#keepsWhileDisabled ? this.#entries.tokens.get(digest) : undefined;
    if (entry === undefined) return undefined;
    const now = performance.now();
    if (!this.#coverage.isBridging && now - entry.at >= (this.#settings.serveCachedFor ?? 0))
      return undefined;
    const { token } = entry.found;
    const owner = this.#owners.get(token.userId);
    return owner === undefined ? undefined : { token, owner };
  }

  get #keepsWhileDisabled(): boolean {
    return this.#settings.serveCachedFor !== null || this.#bridge !== undefined;
  }

  #isFresh({ found, at }: Entry, now: number): boolean {
    return this.#owners.get(found.owner.id) === found.owner && now - at < this.#settings.ttl;
  }

  #dropToken(digest: string | undefined): void {
    if (digest === undefined) return;
    this.#entries.delete(digest);
    this.#fills.delete(digest);
  }

  #dropAll(): void {
    this.#begin();
    this.#entries.clear();
    this.#owners.clear();
    this.#bridge?.sessions.clear();
    this.#sentAt.clear();
    this.#hasLegacyKeys = undefined;
  }

  /** Starts a new generation: reads in progress are neither kept nor shared with later callers. */
  #begin(): void {
    this.#coverage.generation += 1;
    this.#fills.clear();
  }
}
