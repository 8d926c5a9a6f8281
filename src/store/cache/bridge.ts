import { LRUCache } from 'lru-cache';
import { type Session, sessionOverAt } from '../../domain/session.js';
import type { Token } from '../../domain/token.js';
import type { Revocations } from '../revocations.js';

/** What this process knows to have ended. */
export type KnownRevocations = Pick<Revocations, 'hasToken' | 'hasSession'>;

/**
 * What is known about credentials outside the token cache, while another master is being chosen: which ended for
 * good, and sessions.
 */
export class Bridge {
  readonly #revocations: KnownRevocations;
  readonly #ended: LRUCache<string, true>;
  /** Revocations name a token by its id, requests by its digest. */
  readonly #ids: LRUCache<string, string>;
  readonly #sessions: LRUCache<string, Session>;

  /** @param size how many of each are kept */
  constructor(size: number, revocations: KnownRevocations) {
    const max = Math.max(1, size);
    this.#revocations = revocations;
    this.#ids = new LRUCache({ max });
    this.#ended = new LRUCache({ max });
    this.#sessions = new LRUCache({ max });
  }

  /** A token or session no longer exists. */
  end(digest: string): void {
    this.#ended.set(digest, true);
    this.#sessions.delete(digest);
  }

  /** A token is there: one that a directory declared may be declared again. */
  noteToken({ digest, id }: Token): void {
    this.#ended.delete(digest);
    this.#ids.set(digest, id);
  }

  /** Whether a token or session is known to have ended. */
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

  /** A session that is certain to be active. One that may have timed out is left to the store. */
  session(digest: string): Session | undefined {
    const session = this.#sessions.get(digest);
    return session !== undefined && sessionOverAt(session) > Date.now() ? session : undefined;
  }

  /** A session changed, or may have. */
  dropSession(digest: string): void {
    this.#sessions.delete(digest);
  }

  /** Changes may have been missed: sessions may have ended unseen. @returns digests of those that were known */
  forgetSessions(): string[] {
    const digests = [...this.#sessions.keys()];
    this.#sessions.clear();
    return digests;
  }
}

/** Most look-ups in progress, and most that wait; further ones are skipped. */
const AT_ONCE = 4;
const MAX_WAITING = 1_000;
/** An answer from before another change is not kept, so that it is asked for again. */
const ATTEMPTS = 3;

/** Looks up in the background what may be needed while the store is unavailable. */
export class Warming {
  readonly #lookUp: (digest: string) => Promise<boolean>;
  readonly #waiting = new Set<string>();
  #running = 0;

  /** @param lookUp returns whether its answer is known from now on */
  constructor(lookUp: (digest: string) => Promise<boolean>) {
    this.#lookUp = lookUp;
  }

  add(digests: Iterable<string>): void {
    for (const digest of digests) {
      if (this.#waiting.size >= MAX_WAITING) break;
      this.#waiting.add(digest);
    }
    const more = Math.min(AT_ONCE - this.#running, this.#waiting.size);
    for (let count = 0; count < more; count++) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running += 1;
    // What comes with one message of the store is handled first.
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
