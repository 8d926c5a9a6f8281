import type { Refusal } from '../domain/refusal.js';

const UNREACHABLE = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EADDRNOTAVAIL',
]);
const TOO_SLOW = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);
const CONNECTION = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE', 'ECONNREFUSED']);

/** What a client is told when the upstream failed before it answered. */
export function refusalOf(error: Error): Refusal {
  const code = codeOf(error);
  if (UNREACHABLE.has(code)) {
    return { refusal: 'upstream_unreachable', detail: 'The upstream can not be reached' };
  }
  if (TOO_SLOW.has(code))
    return { refusal: 'upstream_too_slow', detail: 'The upstream did not answer in time' };
  return { refusal: 'upstream_broken', detail: 'The upstream did not send a well-formed answer' };
}

/** Whether the connection failed, so that a request without side effects may be sent again on another one. */
export function isConnectionFault(error: Error): boolean {
  return CONNECTION.has(codeOf(error));
}

function codeOf(error: Error): string {
  const { code, cause } = error as NodeJS.ErrnoException & { errors?: unknown };
  return code ?? (cause instanceof Error ? codeOf(cause) : '');
}
