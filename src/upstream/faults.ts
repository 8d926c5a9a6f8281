import type { Refusal } from '../domain/refusal.js';

const TOO_SLOW = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);
/** What a socket fails with: an error of the system (EPIPE), or an alert of TLS. */
const OF_SOCKET = /^(?:E[A-Z]+|ERR_SSL_\w+|UND_ERR_SOCKET)$/;

/** A failure that Latchkey finds itself; those of the system and of TLS have codes of their own. */
export class UpstreamFault extends Error {
  constructor(
    readonly code:
      'UND_ERR_SOCKET' | 'UND_ERR_CONNECT_TIMEOUT' | 'UND_ERR_HEADERS_TIMEOUT' | 'UND_ERR_BODY_TIMEOUT',
    message: string,
  ) {
    super(message);
  }
}

/** The upstream's answer can't be passed on as one well-formed answer. */
export class InvalidUpstreamResponse extends Error {
  readonly code = 'INVALID_RESPONSE';
}

/** The upstream did not begin to speak HTTP/2. Nothing of a request was sent. */
export class NotHttp2 extends Error {
  readonly code = 'NOT_HTTP2';

  constructor(cause: string) {
    super(`the upstream does not speak HTTP/2: ${cause}; if it speaks HTTP/1.1, set protocol: http1`);
  }
}

/** The upstream says that it did nothing with a request: it may be sent again (RFC 9113 8.7). */
export class NotProcessed extends Error {
  readonly code = 'REFUSED_STREAM';
}

/** The refusal when an upstream failed before it answered. @param sent whether the request could be sent */
export function refusalOf(error: Error, sent: boolean): Refusal {
  if (isTimeout(error))
    return { refusal: 'upstream_too_slow', detail: 'The upstream did not answer in time' };
  if (error instanceof NotProcessed)
    return { refusal: 'upstream_unreachable', detail: 'The upstream takes no requests now' };
  if (!sent && isUnreached(error))
    return { refusal: 'upstream_unreachable', detail: 'The upstream cannot be reached' };
  return { refusal: 'upstream_broken', detail: 'The upstream did not send a well-formed answer' };
}

/** Whether a connection that was open broke, so that a request without side effects may be sent again on another one. */
export function isBrokenConnection(error: Error): boolean {
  return OF_SOCKET.test(codeOf(error));
}

/** Whether the upstream was waited for too long. */
export function isTimeout(error: Error): boolean {
  return TOO_SLOW.has(codeOf(error));
}

/** Whether no connection came about, of an error that was met before anything was sent. Others are of our own making. */
export function isUnreached(error: Error): boolean {
  const code = codeOf(error);
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'UND_ERR_SOCKET') return true;
  return code !== '' && code !== 'UNWRITABLE_MESSAGE' && !code.startsWith('UND_ERR_');
}

/** What went wrong in words for operators: the code and the message that the system or the TLS library gave. */
export function causeOf(error: Error): string {
  const code = codeOf(error);
  const { message } = error;
  if (message === '') return code;
  return message.includes(code) ? message : `${code}: ${message}`;
}

/** The code of an error, or of what caused it; empty when it has none. */
export function codeOf(error: Error): string {
  const { code, cause } = error as NodeJS.ErrnoException & { errors?: unknown };
  return code ?? (cause instanceof Error ? codeOf(cause) : '');
}
