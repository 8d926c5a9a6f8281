/** Methods that are authorized and forwarded; never TRACE or CONNECT (RFC 9110 9.3.6, 9.3.8). */
export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'] as const;

/**
 * Whether a method only reads.
 *
 * An action without a verb becomes `:read` for these methods and `:write` for all others.
 */
export function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
}

/** Whether content has defined semantics in a request (RFC 9110 9.3), so that servers read it. */
export function definesContent(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH';
}
