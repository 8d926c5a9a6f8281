import type { Grant, LoggedIn } from '../accounts/login.js';
import { sessionEvent, type StartedSession } from '../accounts/sessions.js';
import { reporting, reportingUnknown } from '../accounts/unconfirmed.js';
import type { AuditEvent } from '../domain/audit.js';
import type { SessionSubject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
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

/**
 * Grants what a password would to a user without one, who has a session from a fresh login at the provider.
 * @param status of the refusal when the account changed since the login
 * @returns undefined for a user of no configured provider
 */
export async function checkFreshLogin<Granted extends object | null>(
  { head, now }: Pick<Call, 'head' | 'now'>,
  { oidc, identify, sudoGrants, page }: EndpointServices,
  status: 400 | 403,
  grant: Grant<Granted>,
): Promise<LoggedIn<Granted> | Refusal | undefined> {
  if (oidc === null || identify === null) return undefined;
  const subject = await identify(head, now);
  if ('refusal' in subject || subject.credential !== 'session') return undefined;
  const { user } = subject;
  const provider = user.provider === undefined ? undefined : oidc.logins.ofIssuer(user.provider.issuer);
  if (provider === undefined) return undefined;
  if (!(await sudoGrants.isFresh(subject, now))) {
    const login = `${page.path}oidc/${provider.name}/login?fresh=1`;
    const detail = `You have no password; log in at the provider again: ${login}`;
    return { refusal: 'grant', status: 400, code: 'invalid_request', detail };
  }
  const granted = await grant(user);
  if (granted === 'owner_changed') {
    const detail = 'Your account changed since the login; log in again';
    return { refusal: 'grant', status, code: 'invalid_grant', detail };
  }
  if (granted !== null && 'refusal' in granted) return granted;
  return { user, granted, auditEvents: [] };
}

/** Returns where a logout continues at the session's provider; undefined if it does not. */
export async function providerLogout(
  { session, user }: SessionSubject,
  { oidc }: Pick<EndpointServices, 'oidc'>,
): Promise<string | undefined> {
  const { provider } = session;
  if (oidc === null || provider === undefined || user.provider === undefined) return undefined;
  const found = oidc.logins.ofIssuer(user.provider.issuer);
  return found === undefined ? undefined : oidc.logins.logoutUrl(found.name, oidc.pageUrl, provider);
}
