import type { WritesLeft } from '../accounts/write-limit.js';
import type { Subject } from '../domain/credential.js';
import { isRead } from '../domain/methods.js';
import type { Refusal } from '../domain/refusal.js';
import type { Client, RequestHead } from '../http/head.js';
import type { Decision } from '../policy/decide.js';
import type { EndpointRule, Route } from '../policy/route.js';
import type { Match } from '../policy/routes.js';
import { quoted } from '../util/text.js';

export interface Admitted {
  readonly refusal?: undefined;
  readonly route: Route;
  readonly path: string;
  readonly action: string | null;
  readonly subject: Subject | null;
  readonly decision: Decision | null;
  /** The user's remaining writes; absent when the request was not counted. */
  readonly writes?: WritesLeft;
  /** Present when the request asks a built-in endpoint for a record that is not the caller's own. */
  readonly isOthers?: true;
  /** The user that `refuse_if_active_tokens` guards; absent where the guard did not run. */
  readonly guarded?: { readonly userId: string; readonly isActive: boolean };
}

interface Refused {
  readonly refusal: Refusal;
  readonly route: Route | null;
  readonly action: string | null;
  readonly subject: Subject | null;
  readonly decision: Decision | null;
  readonly isOthers?: true;
  readonly guarded?: Admitted['guarded'];
}

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
/**
 * Refuses requests that another site made a browser send with its cookie or a repeated password (CSRF). A
 * change or a WebSocket must come from the same origin: `Sec-Fetch-Site`, or an `Origin` that is configured or
 * equal to the host. With neither field, the client is assumed not to be a browser.
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
 * Whether an `Origin` is the requested one; it omits a default port (RFC 6454 6.2). Without TLS here, an
 * untrusted proxy may have ended it, so `https` is accepted; with TLS, `http` is another origin.
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

/** A service worker would see every request of its origin, with the page's passwords and new tokens. */
export function refuseServiceWorker(head: RequestHead, route: Route): Refusal | undefined {
  if (!head.serviceWorker || route.allowsServiceWorker) return undefined;
  return {
    refusal: 'service_worker',
    detail: 'Service worker scripts are not served here; a route can allow them with service_worker: allow',
  };
}

export function policyRefusal(decision: Decision, action: string): Refusal | undefined {
  return decision.allowed ? undefined : { refusal: decision.reason, action, detail: decision.detail };
}

/** An upstream may leave such a body unread and take it for the next request (RFC 9110 9.3.1). */
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
