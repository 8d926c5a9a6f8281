import { throttledRefusal } from '../accounts/login.js';
import { LOGIN_TIME_MS } from '../accounts/oidc/login-states.js';
import type { EndedLogin, ProviderLogout } from '../accounts/oidc/provider-logins.js';
import type { LoginFailure } from '../accounts/oidc/settings.js';
import { idsOf, reporting, reportingUnknown } from '../accounts/audit-events.js';
import type { AuditEvent } from '../domain/audit.js';
import { ownPath } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { Session } from '../domain/session.js';
import type { User } from '../domain/user.js';
import { cookiesFrom, cookieValues, formatSessionCookie, LOGIN_STATE_COOKIE } from '../http/cookies.js';
import { fieldValues } from '../http/fields.js';
import type { Reply } from '../http/replies.js';
import type { RequestHead } from '../http/head.js';
import { beginSession } from './login.js';
import { type Call, endpoint, type EndpointServices, type Resource } from './endpoint.js';
import { loginMethods } from './schema/responses.js';
import { sudoGrantedEvent } from '../accounts/sessions.js';

type Oidc = NonNullable<EndpointServices['oidc']>;

const navigation = {
  method: 'GET',
  credential: 'none',
  success: null,
  summary: null,
  response: null,
} as const;

/**
 * Logins at OpenID Connect providers. Browsers navigate through most of these endpoints, so the
 * responses are redirects.
 */
export const oidc = {
  tag: 'OpenID Connect',
  description: 'Logins at OpenID Connect providers, under the path of the web page',
  base: (settings) => (settings.oidc ? settings.page : null),
  endpoints: [
    endpoint({
      name: 'list_login_methods',
      method: 'GET',
      path: 'login-methods',
      credential: 'none',
      summary: 'List the ways to log in',
      response: loginMethods,
      handle: async (_call, services) => {
        const { logins, hasPasswords } = oidcOf(services);
        return { status: 200, json: { password: await hasPasswords(), providers: logins.list } };
      },
    }),
    endpoint({
      ...navigation,
      name: 'oidc_login',
      path: 'oidc/:provider/login',
      handle: ofProvider(async (name, call, services, { logins, pageUrl }) => {
        const query = new URLSearchParams(call.head.query);
        const [returnTo, ...others] = query.getAll('return_to');
        const backTo = others.length > 0 ? null : (ownPath(returnTo, services.page.publicUrl) ?? null);
        const fresh = query.get('fresh') === '1';
        const started = await logins.begin(name, backTo, fresh, call.head.client.address, call.now);
        if (typeof started === 'object' && 'wait' in started) return throttledRefusal(started.wait);
        if (typeof started === 'string') return redirect(pageWith(services, started, backTo));
        const { url, state, cookie } = started;
        return redirect(url, ...stateCookies(call.head, pageUrl, state, cookie));
      }),
    }),
    endpoint({
      ...navigation,
      name: 'oidc_callback',
      path: 'oidc/:provider/callback',
      writes: true,
      handle: ofProvider(async (name, call, services, { logins, pageUrl }) => {
        const { head } = call;
        const state = new URLSearchParams(head.query).get('state') ?? '';
        const cookie = readStateCookie(head, pageUrl, state);
        const ended = await logins.end(name, head.query, cookie, head.client.address, call.now);
        return endLogin(call, name, state, ended, services);
      }),
    }),
    endpoint({
      ...navigation,
      name: 'oidc_logout',
      path: 'oidc/:provider/logout',
      /**
       * A link alone must not end anything: only the provider's own session, which it asks about
       * unless a page of this origin sent the browser here.
       */
      handle: ofProvider(async (name, call, services, { logins, pageUrl }) => {
        const { fetchSite } = call.head;
        const isForeign = fetchSite === 'cross-site' || fetchSite === 'same-site';
        const session = isForeign ? undefined : await sessionOf(call, services);
        const url = await logins.logoutUrl(name, pageUrl, session?.provider ?? null);
        return redirect(url ?? services.page.path);
      }),
    }),
    endpoint({
      ...navigation,
      name: 'oidc_backchannel_logout',
      path: 'oidc/:provider/backchannel-logout',
      method: 'POST',
      handle: ofProvider(async (name, call, services, { logins }) => {
        const token = call.body.params.one('logout_token') ?? '';
        const logout = await logins.loggedOut(name, token, call.now);
        if (typeof logout !== 'string') return endSessions(logout, services);
        const event = {
          event: 'logout.refused',
          outcome: 'failure',
          reason: logout,
          target: { provider: name },
        } as const;
        return { refusal: 'malformed', detail: 'The logout token is not valid', auditEvents: [event] };
      }),
    }),
  ],
} as const satisfies Resource;

/**
 * Completes a login: sets the session as `POST /login` does, or redirects to the web page with the
 * reason why it failed.
 */
async function endLogin(
  call: Call,
  name: string,
  state: string,
  { result, returnTo, auditEvents }: EndedLogin,
  services: EndpointServices,
): Promise<Reply<undefined> | Refusal> {
  const { sessions, page } = services;
  const { logins, pageUrl } = oidcOf(services);
  const { head, now } = call;
  const failed = (failure: LoginFailure, user: User | null) => ({
    ...redirect(
      pageWith(services, failure, returnTo),
      // Any page can send a browser here, so a login in progress must not be affected.
      ...(failure === 'not_begun' ? [] : [stateCookie(stateCookieName(pageUrl, state), '')]),
    ),
    auditEvents: [...auditEvents, failedEvent(name, failure, user)],
  });
  if ('wait' in result) return throttledRefusal(result.wait);
  if ('failure' in result) {
    const answer = failed(result.failure, result.user);
    const goesOn = result.failure === 'not_begun' && (await sessionOf(call, services)) !== undefined;
    return goesOn ? { ...answer, ...redirect(returnTo ?? page.path) } : answer;
  }
  const { user } = result;
  const target = { ...idsOf(user), provider: name };
  const succeeded: AuditEvent = { event: 'login.succeeded', outcome: 'success', target };
  const events = [...auditEvents, succeeded];
  const started = await reporting(events, async () =>
    sessions.start(user, head.client.address, head.userAgent, now, result),
  );
  if (typeof started === 'string') {
    const failure = started === 'logged_out' ? started : 'locked';
    logins.report(name, failure);
    return failed(failure, user);
  }
  logins.report(name, 'succeeded');
  // The browser returned to the page's URL, even if a proxy terminates its TLS.
  const secure = head.client.secure || pageUrl.startsWith('https:');
  const { cookie, auditEvents: all } = await beginSession(call, user, started, services, events, secure);
  const { session } = started;
  const noted = result.fresh
    ? [sudoGrantedEvent({ credential: 'session', user, session }, 'fresh_login')]
    : [];
  if (result.fresh)
    await reporting(all, async () =>
      reportingUnknown(noted, async () => sessions.noteFreshLogin(session, user, now)),
    );
  // The state cookie stays: it has the target for whoever comes back here with the back button.
  return { ...redirect(returnTo ?? page.path, cookie), auditEvents: [...all, ...noted] };
}

async function sessionOf({ head, now }: Call, { identify }: EndpointServices): Promise<Session | undefined> {
  const subject = await identify?.(head, now);
  return subject !== undefined && 'session' in subject ? subject.session : undefined;
}

/**
 * Ends the sessions that a provider ended, on every sidecar, including sessions that are just being
 * created.
 */
async function endSessions(
  { userIds, sids, noted, until, done }: ProviderLogout,
  { sessions, directory }: EndpointServices,
): Promise<Reply<undefined> | Refusal> {
  const auditEvents: AuditEvent[] = [];
  // This must come first, so that a session created in the meantime is either refused or found.
  await sessions.noteLogouts(noted, until);
  await reporting(auditEvents, async () => {
    for (const id of userIds) {
      const customerId = (await directory.getUser(id))?.customerId ?? '';
      for (const each of await sessions.ofProvider(id, sids))
        auditEvents.push(...(await sessions.end(each, customerId, 'provider_logout')));
    }
    await done();
  });
  return { status: 200, auditEvents };
}

function oidcOf({ oidc }: EndpointServices): Oidc {
  if (oidc === null) throw new Error('an endpoint of providers is served without any');
  return oidc;
}

/** Wraps a handler of a provider's endpoint. Unknown provider names are refused. */
function ofProvider(
  handle: (
    name: string,
    call: Call,
    services: EndpointServices,
    oidc: Oidc,
  ) => Promise<Reply<undefined> | Refusal>,
) {
  return async (call: Call, services: EndpointServices): Promise<Reply<undefined> | Refusal> => {
    const name = call.path.split('/').at(-2) ?? '';
    const known = oidcOf(services);
    if (known.logins.has(name)) return handle(name, call, services, known);
    return { refusal: 'not_found', detail: `There is no provider '${name}'` };
  };
}

function redirect(location: string, ...cookies: string[]): Reply<undefined> {
  const fields = ['Location', location, 'Referrer-Policy', 'no-referrer'];
  return { status: 303, headers: [...fields, ...cookies.flatMap((cookie) => ['Set-Cookie', cookie])] };
}

/** URL of the web page with the reason of a failed login and the return path. */
function pageWith({ page }: EndpointServices, failure: LoginFailure, returnTo: string | null): string {
  const query = new URLSearchParams({ login_error: failure, ...(returnTo === null ? {} : { return_to: returnTo }) });
  return `${page.path}?${query.toString()}`;
} // prettier-ignore

/** Maximum number and bytes of the login states in one browser: servers refuse long heads. */
const MAX_STATES = 5;
const MAX_STATES_SIZE = 4_096;

/**
 * Returns the `Set-Cookie` values for a login that begins: its state, and the removal of the oldest
 * others if they are too many. Browsers send the oldest first (RFC 6265 5.4).
 */
function stateCookies({ fields }: RequestHead, pageUrl: string, state: string, sealed: string): string[] {
  const name = stateCookieName(pageUrl, state);
  const all = fieldValues(fields, 'cookie').flatMap((field) =>
    cookiesFrom(field, stateCookieName(pageUrl, '')),
  );
  let left = MAX_STATES_SIZE - name.length - sealed.length;
  const removed = all.toReversed().filter(([other, value], i) => {
    left -= other.length + value.length;
    return left < 0 || i >= MAX_STATES - 1;
  });
  return [stateCookie(name, sealed), ...removed.map(([other]) => stateCookie(other, ''))];
}

/**
 * Browsers accept a `__Host-` cookie only from this host and over TLS (RFC 6265bis 4.1.3.2).
 *
 * @param state empty: the common start of all names
 */
function stateCookieName(pageUrl: string, state: string): string {
  const prefix = pageUrl.startsWith('https:') ? '__Host-' : '';
  return prefix + LOGIN_STATE_COOKIE + state.slice(0, 12);
}

function stateCookie(name: string, value: string): string {
  const maxAge = value === '' ? 0 : LOGIN_TIME_MS / 1000;
  return formatSessionCookie({ name, value, maxAge, secure: false });
}

/** The cookie of a login state; undefined when there is none, or when someone planted a second one. */
function readStateCookie({ fields }: RequestHead, pageUrl: string, state: string): string | undefined {
  const name = stateCookieName(pageUrl, state);
  const found = fieldValues(fields, 'cookie').flatMap((field) => cookieValues(field, name));
  return found.length === 1 ? found[0] : undefined;
}

function failedEvent(provider: string, reason: LoginFailure, user: User | null): AuditEvent {
  return { event: 'login.failed', outcome: 'failure', reason, target: { ...idsOf(user), provider } };
}
