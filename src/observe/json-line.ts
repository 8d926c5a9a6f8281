import type { LineBuffer } from './line-buffer.js';

/**
 * Members of a JSON line, for the records written with every request. A general serializer has to
 * inspect each value: with it a record took four times as long (a loop in one process).
 */

/** A member with a string value. */
export class TextMember {
  readonly #start: Uint8Array;

  constructor(name: string) {
    this.#start = startOf(name);
  }

  /** Appends the member, preceded by a comma. Nothing is appended for undefined. */
  add(line: LineBuffer, value: string | undefined): void {
    if (value === undefined) return;
    line.bytes(this.#start);
    line.json(value);
  }
}

/** A member with a time in milliseconds, at microsecond precision. */
export class MillisecondsMember {
  readonly #start: Uint8Array;

  constructor(name: string) {
    this.#start = startOf(name);
  }

  /**
   * Appends the member, preceded by a comma. Formatting integers is several times faster than
   * formatting fractions.
   */
  add(line: LineBuffer, ms: number): void {
    const micros = Math.round(ms * 1000);
    const rest = micros % 1000;
    line.bytes(this.#start);
    line.integer((micros - rest) / 1000);
    line.bytes(FRACTIONS[rest] as Uint8Array);
  }
}

/** The decimal part for each number of thousandths. */
const FRACTIONS = Array.from({ length: 1000 }, (_, rest) =>
  Buffer.from(rest === 0 ? '' : `.${String(rest).padStart(3, '0')}`),
);

/** Returns a string member preceded by a comma, or an empty string for undefined. */
export function textMember(name: string, value: string | null | undefined): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

/** How a line with an audit entry ends. No other line can: a quote in a value is escaped. */
export const AUDIT_LINE_END = Buffer.from(',"msg":"audit"}\n');

function startOf(name: string): Uint8Array {
  return Buffer.from(`,"${name}":`);
}

let lineTime = NaN;
let lineBytes: Uint8Array = Buffer.alloc(0);

/**
 * Returns how the logger begins its lines: level, time, process id.
 *
 * @param now milliseconds since 1970
 */
export function lineStart(now: number): Uint8Array {
  if (now !== lineTime) {
    lineTime = now;
    lineBytes = Buffer.from(`{"level":30,"time":"${new Date(now).toISOString()}","pid":${process.pid}`);
  }
  return lineBytes;
}
