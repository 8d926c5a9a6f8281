import type { WritesLeft } from '../accounts/write-limit.js';
import type { Subject } from '../domain/credential.js';
import { isRead } from '../domain/methods.js';
import type { Refusal } from '../domain/refusal.js';
import type { Client, RequestHead } from '../http/head.js';
import type { Decision } from '../policy/decide.js';
import type { EndpointRule, Route } from '../policy/route.js';
import type { Match } from '../policy/routes.js';
import { quoted } from '../util/text.js';

/** A request that was allowed, with the gate's findings. */
export interface Admitted {
  readonly refusal?: undefined;
  readonly route: Route;
  /** The canonical path, which contains the route's parameters. */
  readonly path: string;
  readonly action: string | null;
  /** The sender; null on a route without authentication. */
  readonly subject: Subject | null;
  /** The policy's decision; null where the policy was not asked. */
  readonly decision: Decision | null;
  /** The user's remaining writes; absent when the request was not counted. */
  readonly writes?: WritesLeft;
  /**
   * Present when the request asks a built-in endpoint for a record that is not the caller's own.
   */
  readonly isOthers?: true;
  /** The user that `refuse_if_active_tokens` guards; absent where the guard did not run. */
  readonly guarded?: { readonly userId: string; readonly isActive: boolean };
}

/** A request that was refused, with the findings up to then for the log. */
interface Refused {
  readonly refusal: Refusal;
  readonly route: Route | null;
  readonly action: string | null;
  readonly subject: Subject | null;
  readonly decision: Decision | null;
  readonly isOthers?: true;
  readonly guarded?: Admitted['guarded'];
}

/** The gate's verdict on a request. */
export type Verdict = Admitted | Refused;

export function admitted(
  { route, path }: Match,
  action: string | null,
  subject: Subject | null,
  decision: Decision | null,
): Admitted {
  return { route, path, action, subject, decision };
}

export function refused(
  refusal: Refusal,
  route: Route | null,
  action: string | null,
  subject: Subject | null,
  decision: Decision | null = null,
): Refused {
  return { refusal, route, action, subject, decision };
}

/**
 * Refuses requests that another site made a browser send with the session cookie, or with a
 * password that the browser repeats by itself (CSRF).
 *
 * A request that changes something or opens a WebSocket must come from the same origin.
 * `Sec-Fetch-Site`, or an `Origin` that is configured or equal to the host shows that. With neither
 * field, the client is assumed not to be a browser.
 *
 * @param ownOrigins configured origins of this server
 */
export function refuseCrossOrigin(head: RequestHead, ownOrigins: ReadonlySet<string>): Refusal | undefined {
  if (isRead(head.method) && !head.webSocket) return undefined;
  const { fetchSite, origin, client } = head;
  if (fetchSite === undefined && origin === undefined) return undefined;
  if (fetchSite === 'same-origin' || fetchSite === 'none') return undefined;
  if (origin !== undefined) {
    if (ownOrigins.has(origin)) return undefined;
    if (fetchSite === undefined && isOwnOrigin(origin, client)) return undefined;
  }
  return { refusal: 'cross_origin', detail: crossOriginDetail(head, ownOrigins) };
}

/** Names what the browser sent and what was expected: behind a proxy, `Host` may be wrong. */
function crossOriginDetail({ fetchSite, origin, client }: RequestHead, own: ReadonlySet<string>): string {
  const site = fetchSite === undefined ? '' : `Sec-Fetch-Site ${quoted(fetchSite)}`;
  const start = 'The request comes from another origin: it has';
  if (origin === undefined) return `${start} ${site}, expected same-origin`;
  const host = quoted(client.host.toLowerCase());
  const expected = [`https://${host}`, ...(client.secure ? [] : [`http://${host}`]), ...own].join(' or ');
  return `${start} ${site === '' ? '' : `${site} and `}Origin ${quoted(origin)}, expected ${expected}`;
}

/**
 * Returns whether an `Origin` is the one that the client requested.
 *
 * An origin omits its scheme's default port (RFC 6454 6.2), which proxies may add to `Host`. Without
 * TLS here, a proxy that is not trusted may have ended it, so the origin may be `https`. With TLS, a
 * page over `http` is another origin: whoever is on the network can write it.
 */
function isOwnOrigin(origin: string, { host, secure }: Client): boolean {
  const own = host.toLowerCase();
  if (own === '') return false;
  return hasOrigin(origin, 'https', own, ':443') || (!secure && hasOrigin(origin, 'http', own, ':80'));
}

function hasOrigin(origin: string, scheme: string, host: string, defaultPort: string): boolean {
  if (origin === `${scheme}://${host}`) return true;
  return host.endsWith(defaultPort) && origin === `${scheme}://${host.slice(0, -defaultPort.length)}`;
}

/**
 * Refuses the script of a service worker, unless its route allows one.
 *
 * A service worker of the guarded application sees every request of its origin. That includes those
 * of Latchkey's page, with passwords and the secrets of new tokens.
 */
export function refuseServiceWorker(head: RequestHead, route: Route): Refusal | undefined {
  if (!head.serviceWorker || route.allowsServiceWorker) return undefined;
  return {
    refusal: 'service_worker',
    detail: 'Service worker scripts are not served here; a route can allow them with service_worker: allow',
  };
}

/** Returns the refusal for a decision of the policy; undefined when it allows. */
export function policyRefusal(decision: Decision, action: string): Refusal | undefined {
  return decision.allowed ? undefined : { refusal: decision.reason, action, detail: decision.detail };
}

/**
 * Refuses a body on a read. An upstream that expects no content leaves it unread and takes it for
 * the next request (RFC 9110 9.3.1).
 */
export function bodyOnRead(method: string): Refusal {
  return {
    refusal: 'malformed',
    detail: `a ${method} with a body is accepted only if the route says body_on_read: allow`,
  };
}

export function refuseCredentialKind(subject: Subject, endpoint: EndpointRule): Refusal | undefined {
  if (subject.credential === 'jwt' && !endpoint.acceptsJwt) {
    return wrongKind('This endpoint does not accept JWTs from other issuers');
  }
  const isSession = subject.credential === 'session';
  if (endpoint.credential === 'session' && !isSession) {
    return wrongKind('This endpoint requires a session, not an API token: log in with POST /login');
  }
  if (endpoint.credential === 'token' && isSession) {
    return wrongKind('This endpoint requires an API token, not a session');
  }
  return undefined;
}

function wrongKind(detail: string): Refusal {
  return { refusal: 'wrong_credential_kind', detail };
}
