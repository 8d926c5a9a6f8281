/** What {@link MessageParser.next} found. */
export type Event =
  | typeof NEED_DATA
  | typeof HEAD
  | typeof INFORMATIONAL
  | typeof DATA
  | typeof END
  | typeof CLOSED
  | typeof FAULT;

/** Nothing more until the next `feed`. */
export const NEED_DATA = 0;
/** A head is complete; its values stand on the parser until the next head. */
export const HEAD = 1;
/** The head of an informational answer (1xx) is complete; the answer is still to come. */
export const INFORMATIONAL = 2;
/** Part of a body, in `data`. */
export const DATA = 3;
/** The message is complete; `trailers` has what came behind a chunked body. */
export const END = 4;
/** This connection brings no further message; unread bytes may belong to another protocol (`takeRest`). */
export const CLOSED = 5;
/** The bytes are refused, and so are all that follow: `fault` and `faultAt` say why and where. */
export const FAULT = 6;
