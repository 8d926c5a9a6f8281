import { reportingUnknown } from '../accounts/unconfirmed.js';
import type { Session } from '../domain/session.js';
import { formatTime } from '../util/time.js';
import { endpoint, sessionOf } from './endpoint.js';
import { session, type SessionObject } from './schema/responses.js';
import { sessionEvent } from '../accounts/sessions.js';

/** They only cover the user's own sessions. */
export const sessionEndpoints = [
  endpoint({
    name: 'list_sessions',
    method: 'GET',
    path: 'sessions',
    credential: 'session',
    summary: "List the user's own sessions",
    response: session.array(),
    handle: async (call, { sessions }) => {
      const { user, session: current } = sessionOf(call);
      const found = await sessions.ofUser(user.id, call.now);
      return { status: 200, json: found.map((each) => sessionObject(each, current)) };
    },
  }),
  endpoint({
    name: 'end_other_sessions',
    method: 'DELETE',
    path: 'sessions',
    credential: 'session',
    summary: "End all of the user's sessions except the one of the request",
    response: null,
    handle: async (call, { sessions }) => {
      const { user, session: current } = sessionOf(call);
      const eventOf = (each: Session) => sessionEvent('session.ended', each, user.customerId, 'user');
      // Others may start or end meanwhile, so only an unknown outcome reports those read before.
      const known = (await sessions.othersOf(current)).map(eventOf);
      const ended = await reportingUnknown(known, async () => sessions.endOthers(current));
      return { status: 204, auditEvents: ended.map(eventOf) };
    },
  }),
  endpoint({
    name: 'end_session',
    method: 'DELETE',
    path: 'sessions/:id',
    credential: 'session',
    summary: "End one of the user's own sessions",
    response: null,
    refusals: ['NotFound'],
    handle: async (call, { sessions }) => {
      const id = call.path.slice(call.path.lastIndexOf('/') + 1);
      const { user } = sessionOf(call);
      const event = sessionEvent('session.ended', { id, userId: user.id }, user.customerId, 'user');
      const ended = await reportingUnknown([event], async () => sessions.endById(user.id, id));
      if (ended === undefined) return { refusal: 'not_found', detail: `Cannot find session '${id}'` };
      return { status: 204, auditEvents: [event] };
    },
  }),
] as const;

function sessionObject(session: Session, current: Session): SessionObject {
  return {
    id: session.id,
    created_at: formatTime(session.createdAt),
    last_seen_at: formatTime(session.lastSeenAt),
    ends_at: formatTime(session.endsAt),
    ip: session.ip,
    user_agent: session.userAgent,
    current: session.digest === current.digest,
    ...(session.provider === undefined ? {} : { provider: session.provider.name }),
  };
}
