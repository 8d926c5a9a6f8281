import type { Sessions } from '../accounts/sessions.js';
import { unlessUnknown } from '../accounts/unconfirmed.js';
import type { Session } from '../domain/session.js';
import { formatTime } from '../domain/time.js';
import { type Handler, sessionOf } from './call.js';
import type { SessionObject } from './schema/answers.js';
import { sessionEvent } from './session-audit-events.js';

/** The endpoints under {path of the page}sessions: everybody's own, and nobody else's. */
export class SessionEndpoints {
  readonly #sessions: Sessions;

  constructor(sessions: Sessions) {
    this.#sessions = sessions;
  }

  /** GET sessions */
  list: Handler<SessionObject[]> = async ({ subject, now }) => {
    const { user, session: current } = sessionOf(subject);
    const sessions = await this.#sessions.ofUser(user.id, now);
    return { status: 200, json: sessions.map((session) => sessionObject(session, current)) };
  };

  /** DELETE sessions/:id; another user's session is not there. */
  end: Handler<undefined> = async ({ subject, path }) => {
    const id = path.slice(path.lastIndexOf('/') + 1);
    const { user } = sessionOf(subject);
    const event = sessionEvent('session.ended', { id, userId: user.id }, user.customerId, 'user');
    const ended = await unlessUnknown([event], async () => this.#sessions.endById(user.id, id));
    if (ended === undefined) return { refusal: 'not_found', detail: `Cannot find session '${id}'` };
    return 'refusal' in ended ? ended : { status: 204, auditEvents: [event] };
  };

  /** DELETE sessions: all but the one that asks. */
  endOthers: Handler<undefined> = async ({ subject }) => {
    const { user, session: current } = sessionOf(subject);
    const ended = await this.#sessions.endOthers(current);
    const eventOf = (session: Session) => sessionEvent('session.ended', session, user.customerId, 'user');
    return { status: 204, auditEvents: ended.map(eventOf) };
  };
}

/** A session as answers show it: by its public id, never by what the cookie carries. */
function sessionObject(session: Session, current: Session): SessionObject {
  return {
    id: session.id,
    created_at: formatTime(session.createdAt),
    last_seen_at: formatTime(session.lastSeenAt),
    ends_at: formatTime(session.endsAt),
    ip: session.ip,
    user_agent: session.userAgent,
    current: session.digest === current.digest,
  };
}
