import type { Refusal } from './refusal.js';

/** Methods that are forwarded: the registered ones (RFC 9110 16.1) without CONNECT and TRACE, and PURGE. */
export const METHODS = [
  'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE', 'ACL', 'BASELINE-CONTROL', 'BIND', 'CHECKIN',
  'CHECKOUT', 'COPY', 'LABEL', 'LINK', 'LOCK', 'MERGE', 'MKACTIVITY', 'MKCALENDAR', 'MKCOL', 'MKREDIRECTREF',
  'MKWORKSPACE', 'MOVE', 'ORDERPATCH', 'PROPFIND', 'PROPPATCH', 'QUERY', 'REBIND', 'REPORT', 'SEARCH', 'UNBIND',
  'UNCHECKOUT', 'UNLINK', 'UNLOCK', 'UPDATE', 'UPDATEREDIRECTREF', 'VERSION-CONTROL',
] as const; // prettier-ignore

/** Every method that means something: {@link METHODS} and those that are never forwarded. */
export const REGISTERED_METHODS: readonly string[] = [...METHODS, 'CONNECT', 'TRACE'];

const SERVED: ReadonlySet<string> = new Set(METHODS);

const READS: ReadonlySet<string> = new Set([
  'GET', 'HEAD', 'OPTIONS', 'PROPFIND', 'REPORT', 'SEARCH', 'QUERY',
]); // prettier-ignore

/** Returns the refusal of a method that is not forwarded; undefined for all others. */
export function refuseMethod(method: string, target: string): Refusal | undefined {
  if (SERVED.has(method)) return undefined;
  const query = target.indexOf('?');
  const path = query < 0 ? target : target.slice(0, query);
  return REGISTERED_METHODS.includes(method)
    ? { refusal: 'method_not_allowed', detail: `the method ${method} is not forwarded`, method, path }
    : { refusal: 'method_unknown', detail: `the method ${method} is not registered`, method, path };
}

/** Whether a method only reads: actions without a verb then become `:read`, otherwise `:write`. */
export function isRead(method: string): boolean {
  return method === 'GET' || READS.has(method);
}

/** Whether a request with a body is refused unless its route allows it (RFC 9110 9.3.1, 9.3.2). */
export function expectsNoBody(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Whether clients send a body of unknown length with this method that turns out to be empty. */
export function mayHaveEmptyBody(method: string): boolean {
  return expectsNoBody(method) || method === 'OPTIONS';
}

/** Whether content has defined semantics in a request (RFC 9110 9.3), so that servers read it. */
export function definesContent(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH';
}

/** Whether a response of this status has no content (RFC 9112 6.3, RFC 9110 15.3.6). */
export function forbidsContent(status: number): boolean {
  return status === 204 || status === 205 || status === 304;
}
