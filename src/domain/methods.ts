/** Methods that are authorized and forwarded. TRACE and CONNECT never are (RFC 9110 9.3.6, 9.3.8). */
export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'] as const;

/** Methods that only read; an action without a verb becomes `:read` for these and `:write` for the rest. */
export function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS';
}

/** Whether content has a defined meaning in a request of this method (RFC 9110 9.3), so that servers read it. */
export function definesContent(method: string): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH';
}
