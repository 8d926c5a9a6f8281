import { LRUCache } from 'lru-cache';
import { type Session, sessionEndsAt } from '../../domain/session.js';
import type { Token } from '../../domain/token.js';
import type { Revocations } from '../revocations.js';
import { StoreUnavailable } from '../faults.js';
import type { SessionStore, SessionWithOwner } from '../core/sessions.js';
import type { Coverage, Owners } from './entries.js';
import { upTo } from '../../util/collections.js';

export type KnownRevocations = Pick<Revocations, 'hasToken' | 'hasSession'>;

/** Sessions and ended credentials that are known while another master is being elected. */
export class Bridge {
  readonly sessions: LRUCache<string, Session>;
  readonly #revocations: KnownRevocations;
  readonly #ended: LRUCache<string, true>;
  /** Token ids by digest: revocations name a token by its id, requests by its digest. */
  readonly #ids: LRUCache<string, string>;

  constructor(max: number, revocations: KnownRevocations) {
    this.#revocations = revocations;
    this.#ids = new LRUCache(upTo(max));
    this.#ended = new LRUCache(upTo(max));
    this.sessions = new LRUCache(upTo(max));
  }

  end(digest: string): void {
    this.#ended.set(digest, true);
    this.sessions.delete(digest);
  }

  /** Records that a token exists: a declared token may be declared again after it was removed. */
  noteToken({ digest, id }: Token): void {
    this.#ended.delete(digest);
    this.#ids.set(digest, id);
  }

  hasEnded(digest: string): boolean {
    const id = this.#ids.get(digest) ?? '';
    return (
      this.#ended.has(digest) ||
      this.#revocations.hasToken({ id, digest }) ||
      this.#revocations.hasSession(digest)
    );
  }

  noteSession(session: Session): void {
    this.#ended.delete(session.digest);
    this.sessions.set(session.digest, session);
  }

  /** One that may have timed out is left to the store. */
  session(digest: string): Session | undefined {
    const session = this.sessions.get(digest);
    return session !== undefined && sessionEndsAt(session) > Date.now() ? session : undefined;
  }
}

const MAX_CONCURRENT = 4;
const MAX_WAITING = 1_000;
/** Maximum reads per digest. A read is repeated if another change came in between. */
const ATTEMPTS = 3;

/** Reads in the background what may be needed while another master is being elected. */
export class Warming {
  readonly #coverage: Coverage;
  readonly #lookUp: (digest: string) => Promise<boolean>;
  readonly #waiting = new Set<string>();
  #running = 0;

  /** @param lookUp returns whether its result is cached now */
  constructor(coverage: Coverage, lookUp: (digest: string) => Promise<boolean>) {
    this.#coverage = coverage;
    this.#lookUp = lookUp;
  }

  add(digests: Iterable<string>): void {
    if (!this.#coverage.bridges || !this.#coverage.isEnabled) return;
    for (const digest of digests) {
      if (this.#waiting.size >= MAX_WAITING) break;
      this.#waiting.add(digest);
    }
    const more = Math.min(MAX_CONCURRENT - this.#running, this.#waiting.size);
    for (let count = 0; count < more; count++) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running += 1;
    // Let the rest of the store's message be handled first.
    await new Promise((resolve) => setImmediate(resolve));
    for (const digest of this.#waiting) {
      this.#waiting.delete(digest);
      await this.#repeat(digest).catch(() => undefined);
    }
    this.#running -= 1;
  }

  async #repeat(digest: string): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++)
      if (!this.#coverage.isEnabled || (await this.#lookUp(digest))) return;
  }
}

/** Looks up sessions in the store, or in the bridge while another master is being elected. */
export class SessionLookUps {
  /** Reads sessions in the background, so that they are known at the next failover. */
  readonly warming: Warming;
  readonly #inner: SessionStore;
  readonly #coverage: Coverage;
  readonly #owners: Owners;
  readonly #bridge: Bridge | undefined;

  constructor(inner: SessionStore, coverage: Coverage, owners: Owners, bridge: Bridge | undefined) {
    this.#inner = inner;
    this.#coverage = coverage;
    this.#owners = owners;
    this.#bridge = bridge;
    this.warming = new Warming(coverage, (digest) => this.#warm(digest));
  }

  async find(digest: string): Promise<SessionWithOwner | undefined> {
    const { generation } = this.#coverage;
    let found: SessionWithOwner | undefined;
    try {
      found = await this.#inner.find(digest);
    } catch (error) {
      const known = error instanceof StoreUnavailable ? this.#bridged(digest) : undefined;
      if (known === undefined) throw error;
      return known.found;
    }
    if (found !== undefined) this.#owners.note(found.owner);
    if (this.#bridge === undefined) return found;
    if (found === undefined) this.#bridge.sessions.delete(digest);
    else if (generation === this.#coverage.generation) {
      this.#owners.keep(found.owner);
      this.#bridge.noteSession(found.session);
    }
    return found;
  }

  /** Returns false if a change came in between. */
  async #warm(digest: string): Promise<boolean> {
    if (this.#bridge?.session(digest) !== undefined) return true;
    const found = await this.find(digest);
    if (found === undefined) this.#bridge?.end(digest);
    return found === undefined || this.#bridge?.session(digest) !== undefined;
  }

  /** Returns a known session, or that it is known to have ended; undefined if neither is known. */
  #bridged(digest: string): { readonly found: SessionWithOwner | undefined } | undefined {
    if (this.#bridge?.hasEnded(digest) === true) return { found: undefined };
    const session = this.#coverage.isBridging ? this.#bridge?.session(digest) : undefined;
    const owner = session && this.#owners.get(session.userId);
    return session === undefined || owner === undefined ? undefined : { found: { session, owner } };
  }
}
