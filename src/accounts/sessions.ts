import { digestOf, newId, newSessionId, SESSION_ID_LENGTH } from '../domain/secret.js';
import type { Session } from '../domain/session.js';
import type { EpochMs } from '../domain/time.js';
import type { User } from '../domain/user.js';
import { type Awaitable, whenReady } from '../domain/awaitable.js';
import type { SessionWithOwner, Store } from '../store/store.js';
import type { LastSeen } from './last-seen.js';

/** Settings of `sessions`, in milliseconds. */
export interface SessionSettings {
  readonly idle_timeout: number;
  readonly absolute_timeout: number;
}

/** Starts, finds and ends login sessions. */
export class Sessions {
  readonly #store: Store;
  readonly #lastSeen: Pick<LastSeen, 'sessionSeenAt'>;
  readonly #settings: SessionSettings;

  constructor(store: Store, lastSeen: Pick<LastSeen, 'sessionSeenAt'>, settings: SessionSettings) {
    this.#store = store;
    this.#lastSeen = lastSeen;
    this.#settings = settings;
  }

  /** Seconds for the cookie's `Max-Age`. */
  get maxAge(): number {
    return Math.floor(this.#settings.absolute_timeout / 1000);
  }

  /** Starts a session under a new secret; that is shown to the client and kept nowhere. */
  async start(
    user: User,
    ip: string,
    userAgent: string | undefined,
    now: EpochMs,
  ): Promise<{ session: Session; secret: string }> {
    const secret = newSessionId();
    const session = {
      digest: digestOf(secret),
      id: newId(),
      userId: user.id,
      customerId: user.customerId,
      createdAt: now,
      endsAt: now + this.#settings.absolute_timeout,
      lastSeenAt: now,
      ip,
      userAgent: userAgent ?? null,
    };
    await this.#store.createSession(session);
    return { session, secret };
  }

  /** Finds a session that is still on; undefined for one that is unknown, ended, idle too long or too old. */
  find(secret: string, now: EpochMs): Awaitable<SessionWithOwner | undefined> {
    if (secret.length !== SESSION_ID_LENGTH) return undefined;
    return whenReady(this.#store.findSession(digestOf(secret)), (found) =>
      found !== undefined && this.#isOn(found.session, now) ? found : undefined,
    );
  }

  async end(session: Session): Promise<void> {
    await this.#store.endSession(session.digest);
  }

  /** The sessions of a user that are still on, the latest use first. */
  async ofUser(userId: string, now: EpochMs): Promise<Session[]> {
    const sessions = await this.#store.listSessions(userId);
    return sessions
      .filter((session) => this.#isOn(session, now))
      .map((session) => ({ ...session, lastSeenAt: this.#lastSeen.sessionSeenAt(session) }))
      .toSorted((a, b) => b.lastSeenAt - a.lastSeenAt);
  }

  /** Ends a session of a user by its public id and returns it; undefined when the user has none of this id. */
  async endById(userId: string, id: string): Promise<Session | undefined> {
    const sessions = await this.#store.listSessions(userId);
    const session = sessions.find((one) => one.id === id);
    const ended = session !== undefined && (await this.#store.endSession(session.digest));
    return ended ? session : undefined;
  }

  /** Ends every session of a user but one, and returns those that were known before. */
  async endOthers({ userId, digest }: Session): Promise<Session[]> {
    const sessions = await this.#store.listSessions(userId);
    await this.#store.endSessionsOfUser(userId, digest);
    return sessions.filter((session) => session.digest !== digest);
  }

  #isOn(session: Session, now: EpochMs): boolean {
    if (now >= session.endsAt) return false;
    return now - this.#lastSeen.sessionSeenAt(session) < this.#settings.idle_timeout;
  }
}
