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
