import { sessionEvent, type StartedSession } from '../accounts/sessions.js';
import { reporting, reportingUnknown } from '../accounts/unconfirmed.js';
import type { AuditEvent } from '../domain/audit.js';
import type { User } from '../domain/user.js';
import { formatSessionCookie } from '../http/cookies.js';
import type { Call } from './endpoint.js';
import type { EndpointServices } from './services.js';

/**
 * Ends the session that the browser's cookie named before, even if someone planted the cookie (session
 * fixation).
 * @param before audit events of the login
 * @param secure whether the browser's connection is TLS
 */
export async function beginSession(
  { head, now }: Pick<Call, 'head' | 'now'>,
  { customerId }: User,
  { session, secret, ended }: StartedSession,
  { sessions, sessionCookie }: Pick<EndpointServices, 'sessions' | 'sessionCookie'>,
  before: readonly AuditEvent[],
  secure = head.client.secure,
): Promise<{ readonly cookie: string; readonly auditEvents: readonly AuditEvent[] }> {
  const auditEvents = [...before, sessionEvent('session.started', session, customerId)];
  for (const other of ended)
    auditEvents.push(sessionEvent('session.ended', other, customerId, 'too_many_sessions'));
  const { session: cookie } = head;
  const held =
    cookie === undefined ? undefined : await reporting(auditEvents, () => sessions.find(cookie, now));
  if (held !== undefined) {
    const event = sessionEvent('session.ended', held.session, held.owner.customerId, 'new_login');
    const done = await reporting(auditEvents, async () =>
      reportingUnknown([event], async () => sessions.end(held.session)),
    );
    if (done) auditEvents.push(event);
  }
  const fresh = { name: sessionCookie, value: secret, maxAge: sessions.maxAge, secure };
  return { cookie: formatSessionCookie(fresh), auditEvents };
}
