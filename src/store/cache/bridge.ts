import { LRUCache } from 'lru-cache';
import { type Session, sessionEndsAt } from '../../domain/session.js';
import type { Token } from '../../domain/token.js';
import type { Revocations } from '../revocations.js';
import { upTo } from '../../util/collections.js';

export type KnownRevocations = Pick<Revocations, 'hasToken' | 'hasSession'>;

/** Sessions and ended credentials that are known while another master is being elected. */
export class Bridge {
  readonly #revocations: KnownRevocations;
  readonly #ended: LRUCache<string, true>;
  /** Token ids by digest: revocations name a token by its id, requests by its digest. */
  readonly #ids: LRUCache<string, string>;
  readonly #sessions: LRUCache<string, Session>;

  constructor(size: number, revocations: KnownRevocations) {
    const max = Math.max(1, size);
    this.#revocations = revocations;
    this.#ids = new LRUCache(upTo(max));
    this.#ended = new LRUCache(upTo(max));
    this.#sessions = new LRUCache(upTo(max));
  }

  end(digest: string): void {
    this.#ended.set(digest, true);
    this.#sessions.delete(digest);
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
    this.#sessions.set(session.digest, session);
  }

  /** One that may have timed out is left to the store. */
  session(digest: string): Session | undefined {
    const session = this.#sessions.get(digest);
    return session !== undefined && sessionEndsAt(session) > Date.now() ? session : undefined;
  }

  dropSession(digest: string): void {
    this.#sessions.delete(digest);
  }

  /** Returns the digests of those that were dropped: changes may have been missed. */
  forgetSessions(): string[] {
    const digests = [...this.#sessions.keys()];
    this.#sessions.clear();
    return digests;
  }
}

const MAX_CONCURRENT = 4;
const MAX_WAITING = 1_000;
/** Maximum reads per digest. A read is repeated if another change came in between. */
const ATTEMPTS = 3;

/** Reads in the background what may be needed while the store is unavailable. */
export class Warming {
  readonly #lookUp: (digest: string) => Promise<boolean>;
  readonly #waiting = new Set<string>();
  #running = 0;

  /** @param lookUp returns whether its result is cached now */
  constructor(lookUp: (digest: string) => Promise<boolean>) {
    this.#lookUp = lookUp;
  }

  add(digests: Iterable<string>): void {
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
    for (let next = this.#take(); next !== undefined; next = this.#take())
      await this.#repeat(next).catch(() => undefined);
    this.#running -= 1;
  }

  async #repeat(digest: string): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) if (await this.#lookUp(digest)) return;
  }

  #take(): string | undefined {
    const [next] = this.#waiting;
    if (next !== undefined) this.#waiting.delete(next);
    return next;
  }
}
