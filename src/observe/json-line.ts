import { maskTokens, printable } from '../util/text.js';

/** Members of a JSON line, for the records of requests, without a serializer that inspects each value. */

class Member {
  protected readonly start: Uint8Array;

  constructor(name: string) {
    this.start = Buffer.from(`,"${name}":`);
  }
}

export class TextMember extends Member {
  /** Appends the member, preceded by a comma; nothing for undefined. */
  add(line: LineBuffer, value: string | undefined): void {
    if (value === undefined) return;
    line.bytes(this.start);
    line.json(value);
  }
}

export class MillisecondsMember extends Member {
  /** Appends the member, preceded by a comma; integers are formatted faster than fractions. */
  add(line: LineBuffer, ms: number): void {
    const micros = Math.round(ms * 1000);
    const rest = micros % 1000;
    line.bytes(this.start);
    line.integer((micros - rest) / 1000);
    line.bytes(FRACTIONS[rest] as Uint8Array);
  }
}

const FRACTIONS = Array.from({ length: 1000 }, (_, rest) =>
  Buffer.from(rest === 0 ? '' : `.${String(rest).padStart(3, '0')}`),
);

export function textMember(name: string, value: string | null | undefined): string {
  return value === undefined ? '' : `,"${name}":${JSON.stringify(value)}`;
}

/** How a line with an audit entry ends. No other line can: a quote in a value is escaped. */
export const AUDIT_LINE_END = Buffer.from(',"msg":"audit"}\n');

export type LevelFormat = 'number' | 'text';

let lineTime = NaN;
let lineFormat: LevelFormat = 'number';
let lineBytes: Uint8Array = Buffer.alloc(0);

/** Returns how the logger begins its lines of level info, at a time in milliseconds since 1970. */
export function lineStart(now: number, format: LevelFormat): Uint8Array {
  if (now !== lineTime || format !== lineFormat) {
    lineTime = now;
    lineFormat = format;
    const level = format === 'text' ? '"info"' : '30';
    lineBytes = Buffer.from(`{"level":${level},"time":"${new Date(now).toISOString()}","pid":${process.pid}`);
  }
  return lineBytes;
}

const SIZE = 128 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
/** Numbers below this are written digit by digit, without an intermediate string. */
const SHORT = 1_000_000;

/** A buffer of log lines as bytes, which take half as long to write as strings built with `+`. */
export class LineBuffer {
  #bytes = Buffer.allocUnsafeSlow(SIZE);
  #length = 0;
  #complete = 0;

  get length(): number {
    return this.#complete;
  }

  /** Begins a line. A line that was begun but not ended is discarded. */
  begin(): this {
    this.#length = this.#complete;
    return this;
  }

  /** Completes the line, whose terminator the caller has added. */
  end(): void {
    this.#complete = this.#length;
  }

  bytes(piece: Uint8Array): void {
    this.#reserve(piece.length);
    this.#bytes.set(piece, this.#length);
    this.#length += piece.length;
  }

  /** Appends any text as UTF-8, with access tokens masked. */
  text(text: string): void {
    this.#reserve(text.length * 3);
    this.#length += this.#bytes.write(maskTokens(text), this.#length);
  }

  /**
   * Appends a JSON string, with access tokens masked and misleading characters escaped ({@link printable}).
   */
  json(value: string): void {
    const text = maskTokens(value);
    this.#reserve(text.length + 2);
    const bytes = this.#bytes;
    let at = this.#length;
    bytes[at++] = QUOTE;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code < 0x20 || code > 0x7e || code === QUOTE || code === BACKSLASH) {
        this.text(JSON.stringify(printable(text)));
        return;
      }
      bytes[at++] = code;
    }
    bytes[at++] = QUOTE;
    this.#length = at;
  }

  integer(value: number): void {
    this.#reserve(6);
    if (value < SHORT) this.#digits(value);
    else this.text(String(value));
  }

  take(): Buffer {
    const taken = Buffer.from(this.#bytes.subarray(0, this.#complete));
    if (this.#bytes.length > SIZE) this.#bytes = Buffer.allocUnsafeSlow(SIZE);
    this.#length = 0;
    this.#complete = 0;
    return taken;
  }

  #digits(value: number): void {
    const last = value % 10;
    if (value >= 10) this.#digits((value - last) / 10);
    this.#bytes[this.#length++] = ZERO + last;
  }

  #reserve(size: number): void {
    if (this.#length + size <= this.#bytes.length) return;
    const more = Buffer.allocUnsafeSlow((this.#length + size) * 2);
    this.#bytes.copy(more, 0, 0, this.#length);
    this.#bytes = more;
  }
}
