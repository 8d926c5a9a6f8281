/** The states of a parser; docs/design/engine.md says what each one reads, and which states follow it. */
export const READY = 0;
export const START_LINE = 1;
export const FIELDS = 2;
export const BODY_OF_LENGTH = 3;
export const BODY_TO_CLOSE = 4;
export const CHUNK_LINE = 5;
export const CHUNK_DATA = 6;
export const CHUNK_CR = 7;
export const CHUNK_LF = 8;
export const TRAILERS = 9;
export const DONE = 10;
export const FINAL = 11;
export const REFUSING = 12;
