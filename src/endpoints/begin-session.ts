import { sessionEvent, type StartedSession } from '../accounts/sessions.js';
import { readAfter, unlessUnknown } from '../accounts/unconfirmed.js';
import type { AuditEvent } from '../domain/audit.js';
import { type Refusal, withAuditEvents } from '../domain/refusal.js';
import type { User } from '../domain/user.js';
import { formatSessionCookie } from '../http/cookies.js';
import type { Call } from './endpoint.js';
import type { EndpointServices } from './services.js';

/**
 * Starts a browser's new session, ending the one that its cookie named before.
 *
 * The old session is ended even if someone else planted its cookie (session fixation).
 *
 * @param before audit events of the login
 * @param secure whether the browser's connection is TLS
 * @returns the cookie of the new session and all audit events, or the refusal if ending the old
 * session failed or is not confirmed
 */
export async function beginSession(
  { head, now }: Pick<Call, 'head' | 'now'>,
  { customerId }: User,
  { session, secret, ended }: StartedSession,
  { sessions, sessionCookie }: Pick<EndpointServices, 'sessions' | 'sessionCookie'>,
  before: readonly AuditEvent[],
  secure = head.client.secure,
): Promise<{ readonly cookie: string; readonly auditEvents: readonly AuditEvent[] } | Refusal> {
  const auditEvents = [...before, sessionEvent('session.started', session, customerId)];
  for (const other of ended)
    auditEvents.push(sessionEvent('session.ended', other, customerId, 'too_many_sessions'));
  const { session: cookie } = head;
  const held =
    cookie === undefined ? undefined : await readAfter(auditEvents, () => sessions.find(cookie, now));
  if (held !== undefined && 'refusal' in held) return held;
  if (held !== undefined) {
    const event = sessionEvent('session.ended', held.session, held.owner.customerId, 'new_login');
    const done = await readAfter([], async () =>
      unlessUnknown([event], async () => sessions.end(held.session)),
    );
    if (typeof done !== 'boolean') return withAuditEvents(done, auditEvents);
    if (done) auditEvents.push(event);
  }
  const fresh = { name: sessionCookie, value: secret, maxAge: sessions.maxAge, secure };
  return { cookie: formatSessionCookie(fresh), auditEvents };
}
