import { reporting } from '../accounts/audit-events.js';
import type { AuditEvent } from '../domain/audit.js';
import { formatSessionCookie } from '../http/cookies.js';
import { acceptsHtml, firstField } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { type Call, endpoint, type EndpointServices, type Resource } from './endpoint.js';
import { loggedIn } from './schema/responses.js';
import { loginRequest, readLogin } from './schema/requests.js';
import { sessionEvent, type StartedSession } from '../accounts/sessions.js';
import type { Grant, LoggedIn, LoginAttempt } from '../accounts/login.js';
import type { SessionSubject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import type { User } from '../domain/user.js';
import type { DirectoryStore } from '../store/core/directory.js';

/** The field that the web page sends when it logs in and out. */
const PAGE_FIELD = 'latchkey-page';

export const login = {
  tag: 'Sessions',
  description: 'Log in and out',
  endpoints: [
    endpoint({
      name: 'login',
      method: 'POST',
      path: '/login',
      credential: 'none',
      summary: 'Log in',
      description:
        'The response sets the session cookie. Each login starts a new session and ends the one of the request.',
      request: { schema: loginRequest },
      otp: true,
      response: loggedIn,
      headers: ['Set-Cookie'],
      codes: { 400: ['invalid_request', 'account_locked', '2fa.verify'], 401: ['invalid_grant'] },
      refusals: ['Throttled'],
      handle: async (call, services) => {
        const { head, now } = call;
        const { logins, sessions, directory } = services;
        const { address } = head.client;
        const checked = await logins.check(
          { ...readLogin(call.body), otp: head.otp, address },
          401,
          async (user) => {
            // Read before the session starts: nothing may fail between that and its audit entry.
            const reading = customerObject(directory, user);
            const started = await sessions.start(user, address, head.userAgent, now, undefined, reading);
            return typeof started === 'string' ? 'owner_changed' : { started, customer: await reading };
          },
        );
        if ('refusal' in checked) return checked;
        const { user } = checked;
        const { started, customer } = checked.granted;
        const { cookie, auditEvents } = await beginSession(
          call,
          user,
          started,
          services,
          checked.auditEvents,
        );
        return {
          auditEvents,
          status: 200,
          // "storage" includes service workers but not cookies, so the new session is kept.
          headers: ['Set-Cookie', cookie, ...clearSiteData(head, '"storage"')],
          json: { user: userObject(user), customer },
        };
      },
    }),
    endpoint({
      name: 'logout',
      method: 'POST',
      path: '/logout',
      credential: 'session',
      summary: 'Log out',
      description:
        'Ends the session of the request. `Location` is where the logout continues at its identity provider; a browser that submits a form is sent there, or to the web page.',
      response: null,
      redirects: 'To the identity provider or the web page, if `Accept` names HTML',
      headers: ['Set-Cookie', 'Location'],
      handle: async ({ head, subject }, { sessions, sessionCookie, oidc, page }) => {
        const cookie = { name: sessionCookie, value: '', maxAge: 0, secure: head.client.secure };
        let auditEvents: AuditEvent[] = [];
        let next: string | undefined;
        if (subject?.credential === 'session') {
          auditEvents = await sessions.end(subject.session, subject.user.customerId, 'logout');
          next = await providerLogout(subject, oidc);
        }
        const clear = clearSiteData(head, '"cache", "storage"');
        const isForm = acceptsHtml(head.fields);
        if (isForm) next ??= page.files === null ? '/' : page.path;
        const fields = ['Set-Cookie', formatSessionCookie(cookie), ...clear];
        if (next !== undefined) fields.push('Location', next, 'Referrer-Policy', 'no-referrer');
        return { status: isForm ? 303 : 204, auditEvents, headers: fields };
      },
    }),
  ],
} as const satisfies Resource;

export function userObject({ id, name, login, role, customerId }: User) {
  return { id, name, login, role, customer_id: customerId };
}

export async function customerObject(directory: DirectoryStore, { customerId }: User) {
  const customer = await directory.getCustomer(customerId);
  return { id: customerId, name: customer?.name ?? '' };
}

/**
 * Tells the browser to clear what it stored for this origin, if the web page asks with a field of
 * its own. Other pages of the origin may have reasons to keep their data.
 */
function clearSiteData(head: RequestHead, kinds: string): string[] {
  return firstField(head.fields, PAGE_FIELD) === undefined ? [] : ['Clear-Site-Data', kinds];
}

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
    const { session: old, owner } = held;
    const ended = reporting(auditEvents, async () => sessions.end(old, owner.customerId, 'new_login'));
    auditEvents.push(...(await ended));
  }
  const fresh = { name: sessionCookie, value: secret, maxAge: sessions.maxAge, secure };
  return { cookie: formatSessionCookie(fresh), auditEvents };
}

/** @param hasProof whether the body has a login name or a password; if not, a fresh login may stand in for both */
export async function checkProof<Granted extends object | null>(
  call: Call,
  services: EndpointServices,
  {
    hasProof,
    ...attempt
  }: Pick<LoginAttempt, 'login' | 'password' | 'caller'> & { readonly hasProof: boolean },
  status: 400 | 403,
  grant: Grant<Granted>,
): Promise<LoggedIn<Granted> | Refusal> {
  const byProvider = hasProof ? undefined : await checkFreshLogin(call, services, status, grant);
  const { otp, client } = call.head;
  return byProvider ?? services.logins.check({ ...attempt, otp, address: client.address }, status, grant);
}

/**
 * Grants what a password would to a user without one, who has a session from a fresh login at the provider.
 * @param status of the refusal when the account changed since the login
 * @returns undefined for a user of no configured provider
 */
async function checkFreshLogin<Granted extends object | null>(
  { head, now }: Pick<Call, 'head' | 'now'>,
  { oidc, identify, sessions, page }: EndpointServices,
  status: 400 | 403,
  grant: Grant<Granted>,
): Promise<LoggedIn<Granted> | Refusal | undefined> {
  if (oidc === null || identify === null) return undefined;
  const subject = await identify(head, now);
  if ('refusal' in subject || subject.credential !== 'session') return undefined;
  const { user } = subject;
  const provider = user.provider === undefined ? undefined : oidc.logins.ofIssuer(user.provider.issuer);
  if (provider === undefined) return undefined;
  if (!(await sessions.isFresh(subject, now))) {
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
async function providerLogout(
  { session: { provider }, user }: SessionSubject,
  oidc: EndpointServices['oidc'],
): Promise<string | undefined> {
  const found = provider && user.provider && oidc?.logins.ofIssuer(user.provider.issuer);
  return found && oidc?.logins.logoutUrl(found.name, oidc.pageUrl, provider);
}
