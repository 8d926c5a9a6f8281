import type { Config } from '../config/schema/config.js';
import { digestOf, newId, newSessionId, SESSION_ID_LENGTH } from '../domain/secret.js';
import {
  isSessionActive,
  type PendingLogin,
  type ProviderLogin,
  type RecordedLogout,
  type Session,
} from '../domain/session.js';
import { type EpochMs, wholeSecond } from '../util/time.js';
import type { User, VerifiedOwner } from '../domain/user.js';
import { mapMaybe, type MaybePromise } from '../util/async.js';
import { type Maintenance, removalTime, type Store } from '../store/core/store.js';
import type { SessionStore, SessionWithOwner } from '../store/core/sessions.js';
import { type LastSeen, recordedClient } from './last-seen.js';
import type { AuditEvent } from '../domain/audit.js';
import { idsOf, reportingUnknown } from './audit-events.js';
import type { Subject } from '../domain/credential.js';

const SUDO_MS = 5 * 60_000;

/** With the sessions that ended to make room for it. */
export interface StartedSession {
  readonly session: Session;
  readonly secret: string;
  readonly ended: readonly Session[];
}

/** A login at a provider that starts a session. */
export interface StartingLogin {
  readonly login: ProviderLogin;
  readonly pending: PendingLogin;
}

export class Sessions {
  readonly #store: SessionStore;
  readonly #maintenance: Pick<Maintenance, 'clock'>;
  readonly #lastSeen: Pick<LastSeen, 'sessionSeenAt'>;
  readonly #settings: Config['sessions'];

  constructor(
    store: Pick<Store, 'sessions' | 'maintenance'>,
    lastSeen: Pick<LastSeen, 'sessionSeenAt'>,
    settings: Config['sessions'],
  ) {
    this.#store = store.sessions;
    this.#maintenance = store.maintenance;
    this.#lastSeen = lastSeen;
    this.#settings = settings;
  }

  /** Of the cookie, in seconds. */
  get maxAge(): number {
    return Math.floor(this.#settings.absolute_timeout / 1000);
  }

  /**
   * Starts a session unless the user changed. The secret is never stored. The least recently used sessions
   * beyond the maximum end.
   * @param provider no session is started if this provider has reported the logout meanwhile
   * @param ready what else has to succeed before a session is started
   */
  async start(
    user: User,
    ip: string,
    userAgent: string | undefined,
    now: EpochMs,
    provider?: StartingLogin,
    ready: Promise<unknown> = Promise.resolve(),
  ): Promise<StartedSession | 'owner_changed' | 'logged_out'> {
    // It is awaited within the change.
    ready.catch(() => undefined);
    const secret = newSessionId();
    const session: Session = {
      digest: digestOf(secret),
      id: newId(),
      userId: user.id,
      createdAt: now,
      endsAt: now + this.#settings.absolute_timeout,
      lastSeenAt: now,
      idleEndsAt: now + this.#settings.idle_timeout,
      ...recordedClient(ip, userAgent),
      ...(provider === undefined ? {} : { provider: provider.login }),
    };
    const { max_per_user: most } = this.#settings;
    const ended = await reportingUnknown(
      [sessionEvent('session.started', session, user.customerId)],
      async () => this.#store.create(session, user, most, provider?.pending, ready),
    );
    return typeof ended === 'string' ? ended : { session, secret, ended };
  }

  find(secret: string, now: EpochMs): MaybePromise<SessionWithOwner | undefined> {
    if (secret.length !== SESSION_ID_LENGTH) return undefined;
    return mapMaybe(this.#store.find(digestOf(secret)), (found) => {
      if (found === undefined) return undefined;
      if (this.#isOn(found.session, now)) return found;
      // If that fails now, the background cleaning removes it.
      this.#endTimedOut(found.session, now).catch(() => undefined);
      return undefined;
    });
  }

  /** For good, even if the timeouts are raised later. */
  async #endTimedOut(session: Session, now: EpochMs): Promise<void> {
    if (!this.#isOn(session, await removalTime(this.#maintenance, now)))
      await this.#store.end(session.digest);
  }

  /** Returns the event, unless another request ended it first and reports that. */
  async end(session: Session, customerId: string, reason: string): Promise<AuditEvent[]> {
    const event = sessionEvent('session.ended', session, customerId, reason);
    return (await reportingUnknown([event], async () => this.#store.end(session.digest))) ? [event] : [];
  }

  /** The active ones, most recently used first. */
  async ofUser(userId: string, now: EpochMs): Promise<Session[]> {
    const sessions = await this.#store.listOfUser(userId);
    return sessions
      .filter((session) => this.#isOn(session, now))
      .map((session) => ({ ...session, lastSeenAt: this.#lastSeen.sessionSeenAt(session) }))
      .toSorted((a, b) => b.lastSeenAt - a.lastSeenAt);
  }

  /** Returns no event if the user has no such session. */
  async endById({ id: userId, customerId }: User, id: string): Promise<AuditEvent[]> {
    const sessions = await this.#store.listOfUser(userId);
    const session = sessions.find((one) => one.id === id);
    return session === undefined ? [] : this.end(session, customerId, 'user');
  }

  /** For logins in progress; existing sessions are found by {@link ofProvider}. */
  async noteLogouts(logouts: readonly RecordedLogout[], until: EpochMs): Promise<void> {
    await this.#store.noteLogouts(logouts, until);
  }

  /** @param sids of the provider's own sessions, null for a login without one; undefined for all */
  async ofProvider(userId: string, sids: readonly (string | null)[] | undefined): Promise<Session[]> {
    const sessions = await this.#store.listOfUser(userId);
    return sessions.filter(
      ({ provider }) => provider !== undefined && (sids === undefined || sids.includes(provider.sid)),
    );
  }

  /** Ends all of the user's sessions except this one. */
  async endOthers({ userId, digest }: Session, customerId: string): Promise<AuditEvent[]> {
    const eventOf = (each: Session) => sessionEvent('session.ended', each, customerId, 'user');
    // Others may start or end meanwhile, so only an unknown outcome reports those read before.
    const known = (await this.#store.listOfUser(userId)).filter((each) => each.digest !== digest);
    const ended = await reportingUnknown(known.map(eventOf), async () =>
      this.#store.endOfUser(userId, digest),
    );
    return ended.map(eventOf);
  }

  /** A whole second, as in responses. */
  sudoEndsAt(now: EpochMs): EpochMs {
    return wholeSecond(now + SUDO_MS);
  }

  /**
   * For five minutes after its user confirmed the password, a credential stands in for the login name; every
   * password is still checked.
   */
  async grantSudo(
    subject: Subject,
    owner: VerifiedOwner,
    now: EpochMs,
  ): Promise<'granted' | 'owner_changed'> {
    return this.#store.grantSudo(owner, idOf(subject), this.sudoEndsAt(now));
  }

  /** For five minutes, a login at the provider counts as the user's password. */
  async noteFreshLogin(session: Session, owner: VerifiedOwner, now: EpochMs): Promise<void> {
    await this.#store.grantSudo(owner, freshId(session), this.sudoEndsAt(now));
  }

  /** Never for a user who has a password. */
  async isFresh(subject: Subject, now: EpochMs): Promise<boolean> {
    if (subject.credential !== 'session' || subject.user.passwordHash !== null) return false;
    return this.#store.hasSudo(subject.user.id, freshId(subject.session), now);
  }

  async hasSudo(subject: Subject, now: EpochMs): Promise<boolean> {
    return this.#store.hasSudo(subject.user.id, idOf(subject), now);
  }

  #isOn(session: Session, now: EpochMs): boolean {
    return isSessionActive(session, this.#lastSeen.sessionSeenAt(session), this.#settings, now);
  }
}

export function sessionEvent(
  event: 'session.started' | 'session.ended',
  { id, userId }: Pick<Session, 'id' | 'userId'>,
  customerId: string,
  reason?: string,
): AuditEvent {
  const target = { session_id: id, user_id: userId, customer_id: customerId };
  return { event, outcome: 'success', target, ...(reason === undefined ? {} : { reason }) };
}

export function sudoGrantedEvent(subject: Subject, reason?: string): AuditEvent {
  const credential =
    subject.credential === 'session' ? { session_id: subject.session.id } : { token_id: subject.token.id };
  const target = { ...credential, ...idsOf(subject.user) };
  return { event: 'sudo.granted', outcome: 'success', target, ...(reason === undefined ? {} : { reason }) };
}

/** Differs from the id for sudo grants of the same session. */
function freshId({ id }: Session): string {
  return `fresh-login.${id}`;
}

function idOf(subject: Subject): string {
  return subject.credential === 'session' ? subject.session.id : subject.token.id;
}
