import { overloaded, type Refusal } from '../domain/refusal.js';
import type { ResponseParser } from '../http1/response-parser.js';

const TOO_SLOW = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);
/** Codes of socket errors: system errors (EPIPE) and TLS alerts. */
const OF_SOCKET = /^(?:E[A-Z]+|ERR_SSL_\w+|UND_ERR_SOCKET)$/;

/** No more requests may wait for a connection (`max_waiting`). */
export const QUEUE_FULL = overloaded('Too many requests are waiting for the upstream');
/** Another waits, and the request's client, user or credential had the most connections or places. */
export const GAVE_WAY = overloaded('The upstream is busy, and the client has the most requests to it');
export const WAITED_TOO_LONG = overloaded('The upstream is busy, and the request waited too long');

/** A failure that Latchkey detects itself; system and TLS errors have codes of their own. */
export class UpstreamFault extends Error {
  readonly code:
    'UND_ERR_SOCKET' | 'UND_ERR_CONNECT_TIMEOUT' | 'UND_ERR_HEADERS_TIMEOUT' | 'UND_ERR_BODY_TIMEOUT';

  constructor(message: string, code: UpstreamFault['code'] = 'UND_ERR_SOCKET') {
    super(message);
    this.code = code;
  }
}

/** An upstream sent a response that cannot be forwarded as one well-formed response. */
export class InvalidUpstreamResponse extends Error {
  readonly code = 'INVALID_RESPONSE';
}

export function faultOfParser({ fault, faultAt }: Pick<ResponseParser, 'fault' | 'faultAt'>): Error {
  if (fault === undefined || fault === 'cut_off')
    return new UpstreamFault('the upstream closed the connection');
  return new InvalidUpstreamResponse(`malformed response: ${fault} at byte ${faultAt}`);
}

/** The upstream did not start HTTP/2; nothing of a request was sent. */
export class NotHttp2 extends Error {
  readonly code = 'NOT_HTTP2';

  constructor(cause: string) {
    super(`the upstream does not speak HTTP/2: ${cause}; if it speaks HTTP/1.1, set protocol: http1`);
  }
}

/** A connection broke before any part of the request was sent on it, so any request may be resent. */
export class NotSent extends UpstreamFault {}

/** A stream ended without a response, or with a part of it. The upstream may have processed the request. */
export class BrokenStream extends UpstreamFault {}

/** The fields of a request are larger than the upstream accepts; nothing of it was sent. */
export class FieldsTooLarge extends Error {}

/** The upstream states that it did not process a request, which may be resent (RFC 9113 8.7). */
export class NotProcessed extends Error {
  readonly code = 'REFUSED_STREAM';
}

export function refusalOf(error: Error, sent: boolean): Refusal {
  if (isTimeout(error)) return { refusal: 'upstream_too_slow', detail: settingOf(error) };
  if (error instanceof FieldsTooLarge) return { refusal: 'fields_too_large', detail: error.message };
  if (error instanceof NotProcessed)
    return { refusal: 'upstream_unreachable', detail: 'The upstream does not accept requests at the moment' };
  if (!sent && isUnreached(error))
    return { refusal: 'upstream_unreachable', detail: 'The upstream cannot be reached' };
  const broke = isBrokenConnection(error);
  return {
    refusal: 'upstream_broken',
    detail: broke
      ? 'The connection to the upstream broke before it responded'
      : 'The upstream sent a malformed response',
  };
}

/** Returns which timeout has passed, for clients: without names and addresses of the system. */
function settingOf(error: Error): string {
  const code = codeOf(error);
  if (code === 'UND_ERR_CONNECT_TIMEOUT') return "no connection within the upstream's connect_timeout";
  return error instanceof UpstreamFault ? error.message : 'The upstream did not respond in time';
}

/** Returns whether an open connection broke, so that an idempotent request may be resent on another. */
export function isBrokenConnection(error: Error): boolean {
  return OF_SOCKET.test(codeOf(error));
}

export function isTimeout(error: Error): boolean {
  return TOO_SLOW.has(codeOf(error));
}

/**
 * Whether connecting failed, for an error before anything was sent. Other errors of that time are Latchkey's
 * own.
 */
export function isUnreached(error: Error): boolean {
  const code = codeOf(error);
  return code !== '' && code !== 'UNWRITABLE_MESSAGE';
}

const UNKNOWN_AUTHORITY = 'no known authority signed its certificate; set tls.ca of the upstream';

const REMEDIES: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  ERR_SSL_WRONG_VERSION_NUMBER: 'the upstream does not speak TLS; write http:// in its URL',
  ENOENT: 'the socket does not exist; the upstream creates it when it starts',
  EACCES: 'this user needs write permission for the socket and search permission (x) for its folders',
  ERR_TLS_CERT_ALTNAME_INVALID: 'set tls.server_name of the upstream to a name in its certificate',
};

/** Returns the code and message for operators, with a remedy if there is one. */
export function causeOf(error: Error): string {
  const code = codeOf(error);
  const text = messageOf(error);
  const message = /^[\dA-F]+:error:[\dA-F]+:SSL routines:[^:]*:([^:]*):/.exec(text)?.[1] ?? text;
  const cause = message.includes(code) ? message : `${code}: ${message}`;
  return withRemedy(message === '' ? code : cause, error);
}

/** Appends what to do about an error of a connection to an upstream, if that is known. */
export function withRemedy(text: string, error: Error): string {
  const remedy = REMEDIES[codeOf(error)];
  return remedy === undefined ? text : `${text}; ${remedy}`;
}

/** Returns the message of an error. One about several addresses of a host has a list of errors instead. */
function messageOf({ message, errors }: Error & { readonly errors?: unknown }): string {
  if (message !== '' || !Array.isArray(errors)) return message;
  return errors.map((each) => (each instanceof Error ? each.message : '')).join('; ');
}

export function codeOf(error: Error): string {
  const { code, cause } = error as NodeJS.ErrnoException;
  return code ?? (cause instanceof Error ? codeOf(cause) : '');
}
