/**
 * Whether a response of this status has no content, whatever its framing says.
 *
 * After the head of a 204 or 304, HTTP/1.1 has no body (RFC 9112 6.3). A 205 must be empty too (RFC
 * 9110 15.3.6), but an HTTP/1.1 parser reads the body that its framing announces.
 */
export function forbidsContent(status: number): boolean {
  return status === 204 || status === 205 || status === 304;
}
