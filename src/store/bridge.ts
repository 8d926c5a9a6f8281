import { LRUCache } from 'lru-cache';
import { type Session, sessionOverAt } from '../domain/session.js';

/**
 * What is known of credentials that no cache of tokens holds, for the time in which another master is chosen: which ended for good,
 * and sessions that were read lately.
 */
export class Bridge {
  readonly #ttl: number;
  readonly #ended: LRUCache<string, true>;
  readonly #sessions: LRUCache<string, { readonly session: Session; readonly at: number }>;

  /** @param settings `size` in entries; `ttl`, in milliseconds, is how old a session may be that is used */
  constructor({ size, ttl }: { readonly size: number; readonly ttl: number }) {
    const max = Math.max(1, size);
    this.#ttl = ttl;
    this.#ended = new LRUCache({ max });
    this.#sessions = new LRUCache({ max });
  }

  /** A token or session ended. */
  end(digest: string): void {
    this.#ended.set(digest, true);
    this.#sessions.delete(digest);
  }

  /** A token is there: one that a directory declared may be declared again. */
  noteToken(digest: string): void {
    this.#ended.delete(digest);
  }

  /** Whether a token or session is known to have ended. */
  hasEnded(digest: string): boolean {
    return this.#ended.has(digest);
  }

  /** A session that was read; undefined: there is none. */
  noteSession(digest: string, session: Session | undefined): void {
    if (session === undefined) this.#sessions.delete(digest);
    else this.#sessions.set(digest, { session, at: performance.now() });
  }

  /** A session that is on for certain. One that may have ended by its timeouts is left to the store. */
  session(digest: string): Session | undefined {
    const entry = this.#sessions.get(digest);
    if (entry === undefined || performance.now() - entry.at >= this.#ttl) return undefined;
    return sessionOverAt(entry.session) > Date.now() ? entry.session : undefined;
  }

  /** Notifications were lost: sessions may have ended unseen. */
  forgetSessions(): void {
    this.#sessions.clear();
  }
}
