/**
 * Pieces of a line of JSON, for the records that are written with every request. A general serializer has to look at each
 * value: with it a record took 4.4 µs, and takes a quarter of that so (a loop in one process). What counts here is the number of
 * pieces: V8 keeps what is put together with `+` as a tree of its parts, and visits each part when the text is written. Below 13
 * characters it copies them together at once.
 */

/** Text that JSON shows as it is. */
const PLAIN = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

/** The same text as V8 keeps one that was read: one part, however often it is written. For texts that are kept. */
export function inOnePiece(text: string): string {
  return Buffer.from(text).toString();
}

/** A member whose value is text. */
export class TextMember {
  readonly #start: string;
  readonly #startOfText: string;

  constructor(name: string) {
    this.#start = inOnePiece(`,"${name}":`);
    this.#startOfText = inOnePiece(`,"${name}":"`);
  }

  /** The member with the comma in front; nothing for undefined. */
  of(value: string | null | undefined): string {
    if (value === undefined) return '';
    return value !== null && PLAIN.test(value)
      ? this.#startOfText + value + '"'
      : this.#start + JSON.stringify(value);
  }
}

/** A text member with the comma in front; nothing for undefined. */
export function textMember(name: string, value: string | null | undefined): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

/** A member with milliseconds and their microseconds. */
export class MillisecondsMember {
  readonly #start: string;

  constructor(name: string) {
    this.#start = inOnePiece(`,"${name}":`);
  }

  /** The member with the comma in front. Whole numbers become text several times faster than fractions. */
  of(ms: number): string {
    const micros = Math.round(ms * 1000);
    const rest = micros % 1000;
    return this.#start + (micros - rest) / 1000 + (FRACTIONS[rest] as string);
  }
}

/** How so many thousandths are written behind a whole number. */
const FRACTIONS = Array.from({ length: 1000 }, (_, rest) =>
  rest === 0 ? '' : `.${String(rest).padStart(3, '0')}`,
);

let lineTime = NaN;
let lineText = '';

/** How the logger begins its lines: level, time, process. @param now milliseconds since 1970 */
export function lineStart(now: number): string {
  if (now !== lineTime) {
    lineTime = now;
    lineText = inOnePiece(`{"level":30,"time":"${new Date(now).toISOString()}","pid":${process.pid}`);
  }
  return lineText;
}
