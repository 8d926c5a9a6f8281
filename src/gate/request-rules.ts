import type { Subject } from '../domain/credential.js';
import { isRead } from '../domain/methods.js';
import { decodePercent, segmentAt } from '../domain/path.js';
import { malformed, type Refusal } from '../domain/refusal.js';
import type { Client, RequestHead } from '../http/head.js';
import { foldName } from '../http/protected-fields.js';
import type { EndpointRule, Match, Route } from '../policy/route.js';
import { quoted } from '../util/text.js';

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

/** An upstream may leave such a body unread and take it for the next request (RFC 9110 9.3.1). */
export function bodyOnRead(method: string): Refusal {
  return malformed(`a ${method} with a body is accepted only if the route says body_on_read: allow`);
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

/**
 * The service that a request names: null on a route that has none, undefined if the request does not name it.
 */
export type NamedService = string | null | undefined;

/** Characters that every reader takes literally: no lists, no parameters, no second decoding. */
const PLAIN_VALUE = /^[A-Za-z0-9._~:@/-]+$/;

/** Maximum number of parameters. Readers such as PHP ignore further ones. */
const MAX_PARAMETERS = 1_000;

/** Reads the service from the one field or parameter of its exact name; refuses look-alikes beside it. */
export function serviceOf(head: RequestHead, { route, path }: Match): NamedService | Refusal {
  if (route.service === null) return null;
  switch (route.service.from) {
    case 'path':
      return segmentAt(path, route.service.segment);
    case 'header':
      return onlyField(head, route.service.name);
    case 'query':
      return onlyParameter(head.query, route.service.name);
  }
}

export function isRefused(service: NamedService | Refusal): service is Refusal {
  return typeof service === 'object' && service !== null;
}

/** @param name in lower case */
function onlyField({ fields, connection }: RequestHead, name: string): string | undefined | Refusal {
  const folded = foldName(name);
  // Proxies remove what Connection names (RFC 9110 7.6.1), so the upstream would not receive it.
  if (connection?.split(',').some((option) => foldName(option.trim()) === folded) === true)
    return malformed(`Connection must not name the header ${name}, which names the service`);
  let found: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const sent = fields[i] as string;
    if (sent.length !== name.length || foldName(sent) !== folded) continue;
    if (sent.toLowerCase() !== name) return lookAlike('header', sent, name);
    if (found !== undefined) return malformed(`the header ${name}, which names the service, was sent more than once`);
    found = fields[i + 1] as string;
    if (!PLAIN_VALUE.test(found)) return notPlain('header', name);
  } // prettier-ignore
  return found;
}

/** Some readers also separate parameters by `;`, so both readings are checked. */
function onlyParameter(query: string, name: string): string | undefined | Refusal {
  if (query === '') return undefined;
  const folded = foldName(name);
  const pairs = query.split('&', MAX_PARAMETERS + 1);
  if (pairs.length > MAX_PARAMETERS) return tooMany();
  let found: string | undefined;
  let count = 0;
  for (const pair of pairs) {
    for (const part of pair.split(';', MAX_PARAMETERS + 1)) {
      if ((count += 1) > MAX_PARAMETERS) return tooMany();
      const equals = part.indexOf('=');
      const sent = equals < 0 ? part : part.slice(0, equals);
      const read = decodeBytes(sent);
      if (read.includes('%')) return malformed('the query has a parameter whose name can be decoded in two ways');
      if (!isReadAs(read, folded)) continue;
      if (sent !== name) return lookAlike('parameter', sent, name);
      if (found !== undefined) return malformed(`the parameter ${name}, which names the service, was sent more than once`);
      found = equals < 0 || part !== pair ? '' : decodeBytes(part.slice(equals + 1));
      if (!PLAIN_VALUE.test(found)) return notPlain('parameter', name);
    }
  }
  return found;
} // prettier-ignore

/**
 * Whether some reader takes a parameter for the one with a folded name. PHP drops spaces before a name, cuts
 * it at NUL and turns most other characters into `_`; Rack and qs read `name[]` as a list; others ignore
 * case.
 */
function isReadAs(name: string, folded: string): boolean {
  const start = trimStart(name);
  const nul = start.indexOf('\0');
  const wholeValue = nul < 0 ? start : start.slice(0, nul);
  if (foldsTo(trimEnd(wholeValue), folded)) return true;
  const [base = ''] = wholeValue.replace(/^[[\]]+/, '').split(/[[\]]/, 1);
  return base !== wholeValue && foldsTo(trimEnd(trimStart(base)), folded);
}

/** Compares lengths first: folding preserves the length, and folding a long name takes time. */
function foldsTo(name: string, folded: string): boolean {
  return name.length === folded.length && foldName(name) === folded;
}

function isBlank(code: number): boolean {
  return code <= 0x20 || code === 0x2b || code === 0x7f || code === 0xa0;
}

function trimStart(text: string): string {
  let from = 0;
  while (from < text.length && isBlank(text.charCodeAt(from))) from += 1;
  return text.slice(from);
}

function trimEnd(text: string): string {
  let to = text.length;
  while (to > 0 && isBlank(text.charCodeAt(to - 1))) to -= 1;
  return text.slice(0, to);
}

/** Decodes `%XX`, each to one character. A remaining `%` was not an escape, or was an escaped `%`. */
function decodeBytes(text: string): string {
  if (!text.includes('%')) return text;
  const bytes = Buffer.from(text, 'latin1');
  return decodePercent(bytes, 0, bytes.length).toString('latin1');
}

function tooMany(): Refusal {
  return malformed(`the query has more than ${MAX_PARAMETERS} parameters`);
}

function lookAlike(kind: string, sent: string, name: string): Refusal {
  return malformed(
    `the ${kind} ${sent} can be mistaken for ${name}, which names the service; send only ${name}`,
  );
}

function notPlain(kind: string, name: string): Refusal {
  return malformed(
    `the ${kind} ${name}, which names the service, may contain only letters, digits and "-._~:@/"`,
  );
}
