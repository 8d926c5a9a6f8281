/** The upstream's answer can't be passed on as one well-formed answer. */
export class InvalidUpstreamResponse extends Error {
  readonly code = 'INVALID_RESPONSE';
}
