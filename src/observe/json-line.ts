import type { LineBuffer } from './line-buffer.js';

/**
 * Members of a line of JSON, for the records that are written with every request. A general serializer has to look at each
 * value: with it a record took four times as long (a loop in one process).
 */

/** A member whose value is text. */
export class TextMember {
  readonly #start: Uint8Array;

  constructor(name: string) {
    this.#start = startOf(name);
  }

  /** Adds the member with the comma in front; nothing for undefined. */
  add(line: LineBuffer, value: string | undefined): void {
    if (value === undefined) return;
    line.bytes(this.#start);
    line.json(value);
  }
}

/** A member with milliseconds and their microseconds. */
export class MillisecondsMember {
  readonly #start: Uint8Array;

  constructor(name: string) {
    this.#start = startOf(name);
  }

  /** Adds the member with the comma in front. Whole numbers become text several times faster than fractions. */
  add(line: LineBuffer, ms: number): void {
    const micros = Math.round(ms * 1000);
    const rest = micros % 1000;
    line.bytes(this.#start);
    line.integer((micros - rest) / 1000);
    line.bytes(FRACTIONS[rest] as Uint8Array);
  }
}

/** How so many thousandths are written behind a whole number. */
const FRACTIONS = Array.from({ length: 1000 }, (_, rest) =>
  Buffer.from(rest === 0 ? '' : `.${String(rest).padStart(3, '0')}`),
);

/** A text member with the comma in front, as text; nothing for undefined. */
export function textMember(name: string, value: string | null | undefined): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

function startOf(name: string): Uint8Array {
  return Buffer.from(`,"${name}":`);
}

let lineTime = NaN;
let lineBytes: Uint8Array = Buffer.alloc(0);

/** How the logger begins its lines: level, time, process. @param now milliseconds since 1970 */
export function lineStart(now: number): Uint8Array {
  if (now !== lineTime) {
    lineTime = now;
    lineBytes = Buffer.from(`{"level":30,"time":"${new Date(now).toISOString()}","pid":${process.pid}`);
  }
  return lineBytes;
}
