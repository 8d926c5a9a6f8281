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
/**
 * The connection carries no further message; unread bytes may belong to
 * another protocol (`takeRest`).
 */
export const CLOSED = 5;
/** The bytes and all that follow are refused; `fault` and `faultAt` say why and where. */
export const FAULT = 6;
