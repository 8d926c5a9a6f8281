import type { Refusal } from '../domain/refusal.js';
import type { RequestHead } from '../http/head.js';
import { isRead } from '../domain/methods.js';
import type { Route } from '../policy/route.js';
import type { EndpointRule } from '../policy/endpoint-rule.js';
import type { Subject } from '../domain/credential.js';
import type { Decision } from '../policy/decide.js';

/**
 * Refuses requests that another site made a browser send with the session cookie (CSRF).
 *
 * A request that changes something, or opens a WebSocket, must come from the same origin by `Sec-Fetch-Site`
 * or by an `Origin` equal to the host. With neither field, the client is assumed not to be a browser.
 */
export function refuseCrossOrigin(head: RequestHead): Refusal | undefined {
  if (isRead(head.method) && !head.webSocket) return undefined;
  const { fetchSite, origin } = head;
  if (fetchSite === undefined && origin === undefined) return undefined;
  if (fetchSite === 'same-origin' || fetchSite === 'none') return undefined;
  if (fetchSite === undefined && origin !== undefined && isOriginOf(origin, head.client.host))
    return undefined;
  return { refusal: 'cross_origin', detail: 'The request comes from another origin' };
}

function isOriginOf(origin: string, host: string): boolean {
  const own = host.toLowerCase();
  return own !== '' && (origin === `http://${own}` || origin === `https://${own}`);
}

/**
 * Refuses the script of a service worker, unless its route allows one.
 *
 * A service worker of the guarded application sees each request of its origin, also those of Latchkey's page:
 * passwords, and the secret of a new token.
 */
export function refuseServiceWorker(head: RequestHead, route: Route): Refusal | undefined {
  if (!head.serviceWorker || route.allowsServiceWorker) return undefined;
  return {
    refusal: 'service_worker',
    detail:
      'Scripts of service workers are not served here; a route can allow them with service_worker: allow',
  };
}

/** The refusal that a decision of the policy stands for; undefined when it allows. */
export function policyRefusal(decision: Decision, action: string): Refusal | undefined {
  return decision.allowed ? undefined : { refusal: decision.reason, action, detail: decision.detail };
}

/** An upstream that expects no content there leaves it unread and takes it for the next request (RFC 9110 9.3.1). */
export function bodyOnRead(method: string): Refusal {
  return {
    refusal: 'malformed',
    detail: `a ${method} with a body is accepted only where the route says body_on_read: allow`,
  };
}

export function refuseCredentialKind(subject: Subject, endpoint: EndpointRule): Refusal | undefined {
  if (subject.credential === 'jwt' && !endpoint.takesJwt) {
    return wrongKind('This endpoint does not accept a JWT of another issuer');
  }
  const isSession = subject.credential === 'session';
  if (endpoint.takes === 'session' && !isSession) {
    return wrongKind('This endpoint takes a session, not an API token: log in with POST /login');
  }
  if (endpoint.takes === 'token' && isSession) {
    return wrongKind('This endpoint takes an API token, not a session');
  }
  return undefined;
}

function wrongKind(detail: string): Refusal {
  return { refusal: 'wrong_credential_kind', detail };
}
