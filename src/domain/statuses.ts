/** Whether a response of this status has no content (RFC 9112 6.3, RFC 9110 15.3.6). */
export function forbidsContent(status: number): boolean {
  return status === 204 || status === 205 || status === 304;
}
