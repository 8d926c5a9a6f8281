import type { HeadLimits } from '../http/read-head.js';

/** The result of {@link MessageParser.next}. */
export type Event =
  | typeof NEED_DATA
  | typeof HEAD
  | typeof INFORMATIONAL
  | typeof DATA
  | typeof END
  | typeof CLOSED
  | typeof FAULT;

/** Nothing to report until the next `feed`. */
export const NEED_DATA = 0;
/** A head is complete; its values stay on the parser until the next head. */
export const HEAD = 1;
/** The head of an informational response (1xx) is complete; the final response is still to come. */
export const INFORMATIONAL = 2;
/** Part of a body, in `data`. */
export const DATA = 3;
/** The message is complete; `trailers` holds those of a chunked body. */
export const END = 4;
/** The connection carries no further message; unread bytes may belong to another protocol. */
export const CLOSED = 5;
/** The bytes and all that follow are refused; `fault` and `faultAt` say why and where. */
export const FAULT = 6;

/** Reasons for refusing a message: each tag with the rule that it violates. */
export const FAULTS = {
  method: 'RFC 9110 9.1, RFC 9112 3.1: a token of at most 32 bytes, and one space',
  target: 'RFC 9112 3.2: visible ASCII, and one space',
  target_too_long: 'RFC 9112 3: the target is over the limit',
  version: 'RFC 9112 2.3: HTTP/1.1 or HTTP/1.0, in upper case',
  status: 'RFC 9110 15: three digits from 100 to 599; RFC 1945 9.1: no 1xx in HTTP/1.0',
  reason: 'RFC 9112 4: a reason of tabs, spaces, visible ASCII and bytes beyond ASCII',
  line_end: 'RFC 9112 2.2: lines end with CRLF; no bare CR or LF',
  field_name: 'RFC 9112 5: a token and a colon',
  space_before_colon: 'RFC 9112 5.1: no whitespace between name and colon',
  folded_line: 'RFC 9112 5.2, 2.2: no line of a head begins with whitespace',
  field_value: 'RFC 9110 5.5: no control character except the tab',
  head_too_large: 'RFC 9110 5.4: the fields of the head are over the limit',
  too_many_fields: 'RFC 9110 5.4: the field lines are over the limit',
  length_invalid: 'RFC 9110 8.6: 1 to 15 digits, not followed by a tab',
  length_repeated: 'RFC 9112 6.3: one Content-Length, even if both are equal',
  coding_unknown: 'RFC 9112 6.1: the only Transfer-Encoding accepted is "chunked", not followed by a tab',
  coding_repeated: 'RFC 9112 6.1: one Transfer-Encoding',
  coding_version: 'RFC 9112 6.1: no Transfer-Encoding in HTTP/1.0',
  length_and_coding: 'RFC 9112 6.3: not both Content-Length and Transfer-Encoding',
  framing_forbidden:
    'RFC 9110 9.3.6, 8.6, RFC 9112 6.1: no framing fields in CONNECT and 1xx; no close in 1xx',
  connection_invalid: 'RFC 9110 7.6.1: a list of tokens',
  chunk_size: 'RFC 9112 7.1: 1 to 8 hexadecimal digits, below 2 GiB',
  chunk_extension: 'RFC 9112 7.1.1: ";" name, or name "=" a token or a quoted string, without whitespace',
  chunk_line_too_long: 'RFC 9112 7.1.1: the chunk-size line is over the limit',
  extensions_too_large: 'RFC 9112 7.1.1: the chunk extensions of the message are over the limit',
  chunk_end: 'RFC 9112 7.1: CRLF after the data of a chunk',
  trailers_too_large: 'RFC 9110 6.5: the trailers are over the limit',
  trailer_forbidden:
    'RFC 9110 6.5.1: no Content-Length in trailers, and no Host or connection field in those of a request',
  too_many_informational: 'RFC 9110 15.2: the 1xx responses before a final one are over the limit',
  unexpected_switch: 'RFC 9110 15.2.2: no 101, because no request asks for one',
  surplus: 'RFC 9112 9.2: bytes from an upstream while no request is open',
  cut_off: 'RFC 9112 8: the connection closed inside the message',
} as const;

export type Fault = keyof typeof FAULTS;

/** Limits of one message, in bytes unless noted otherwise. Exceeding one is a fault. */
export interface MessageLimits extends HeadLimits {
  readonly chunk_line_size: number;
  readonly extensions_size: number;
  /** All trailers with the final empty line; their number is limited by `head_fields`. */
  readonly trailer_size: number;
  /** Number of informational responses (1xx) before a final response. */
  readonly informational: number;
}

export const DEFAULT_LIMITS: MessageLimits = {
  head_size: 16 * 1024,
  head_fields: 100,
  target_size: 8 * 1024,
  chunk_line_size: 128,
  extensions_size: 4 * 1024,
  trailer_size: 8 * 1024,
  informational: 50,
};

/** What HTTP/2 clients send first (RFC 9113 3.4). */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1');
/** The content type of a TLS handshake, and the major version of every TLS record (RFC 8446 5.1). */
const HANDSHAKE = 22;
const TLS_MAJOR = 3;

/** A protocol that clients begin on a port for HTTP/1.1. */
export type OtherProtocol = 'HTTP/2' | 'TLS';

/** @param bytes the first ones of a connection; the rest may still be in transit */
export function otherProtocolOf(bytes: Buffer): OtherProtocol | undefined {
  if (bytes[0] === HANDSHAKE && (bytes[1] ?? TLS_MAJOR) === TLS_MAJOR) return 'TLS';
  const length = Math.min(bytes.length, PREFACE.length);
  const isPreface = length > 0 && bytes.compare(PREFACE, 0, length, 0, length) === 0;
  return isPreface ? 'HTTP/2' : undefined;
}
