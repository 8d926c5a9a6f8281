import {
  BACKSLASH,
  type Bytes,
  COLON,
  CR,
  DEL,
  EQUALS,
  HEX,
  HTAB,
  LF,
  QUOTE,
  QUOTED,
  SEMICOLON,
  SP,
  TEXT,
  TOKEN,
} from './bytes.js';
import type { Fault } from './events.js';
import { type FieldName, findName, type Framing, PLAIN } from './framing.js';

/** Results of a scan other than an index. */
export const INCOMPLETE = -1;
export const REFUSED = -2;

export abstract class LineScanner {
  fault: Fault | undefined;
  faultAt = 0;

  protected refuse(fault: Fault, at: number): typeof REFUSED {
    this.fault = fault;
    this.faultAt = at;
    return REFUSED;
  }
}

const LINE = 0;
const NAME = 1;
const BEFORE_VALUE = 2;
const VALUE = 3;
const LINE_LF = 4;
const LAST_LF = 5;

/**
 * Parses field lines up to and including the empty line after them. A scan resumes where the bytes ended;
 * indexes are relative to the section's first byte.
 */
export class FieldLines extends LineScanner {
  /** Those beyond `#count` are left from longer sections: most peers repeat the same names in order. */
  readonly #names: FieldName[] = [];
  readonly #values: number[] = [];
  #count = 0;
  #state = LINE;
  #at = 0;
  #nameStart = 0;
  #valueStart = 0;

  /** @param at index of the first byte, relative to the section */
  begin(at: number): void {
    this.#count = 0;
    this.#state = LINE;
    this.#at = at;
    this.fault = undefined;
  }

  /**
   * @param origin index of the section's first byte
   * @param end index after the last byte
   * @returns the index after the empty line, {@link INCOMPLETE} or {@link REFUSED}
   */
  scan(bytes: Bytes, origin: number, end: number, maxFields: number, framing: Framing): number {
    let i = origin + this.#at;
    let state = this.#state;
    let valueStart = origin + this.#valueStart;
    while (i < end) {
      if (state === NAME) {
        while (i < end && TOKEN[bytes[i] as number] === 1) i++;
        if (i === end) break;
        if (bytes[i] !== COLON) return this.refuse(nameFault(bytes[i] as number), i - origin);
        this.#names[this.#count] = findName(bytes, origin + this.#nameStart, i);
        i++;
        state = BEFORE_VALUE;
      } else if (state === BEFORE_VALUE) {
        while (i < end && (bytes[i] === SP || bytes[i] === HTAB)) i++;
        valueStart = i;
        if (i < end) state = VALUE;
      } else if (state === VALUE) {
        i = endOfText(bytes, i, end);
        if (i === end) break;
        if (bytes[i] !== CR) return this.refuse(bytes[i] === LF ? 'line_end' : 'field_value', i - origin);
        i++;
        state = LINE_LF;
      } else if (state === LINE_LF) {
        if (bytes[i] !== LF) return this.refuse('line_end', i - origin);
        const fault = this.#add(bytes, origin, valueStart, i - 1, framing);
        if (fault !== undefined) return this.refuse(fault, this.#nameStart);
        i++;
        state = LINE;
      } else if (state === LINE) {
        const code = bytes[i] as number;
        this.#nameStart = i - origin;
        if (TOKEN[code] === 1) {
          if (this.#count >= maxFields) return this.refuse('too_many_fields', i - origin);
          const next = endOfName(this.#names[this.#count], bytes, i, end);
          state = next > i ? BEFORE_VALUE : NAME;
          i = next;
        } else if (code === CR) {
          i++;
          state = LAST_LF;
        } else return this.refuse(lineFault(code), i - origin);
      } else {
        if (bytes[i] !== LF) return this.refuse('line_end', i - origin);
        return i + 1;
      }
    }
    this.#at = i - origin;
    this.#state = state;
    this.#valueStart = valueStart - origin;
    return INCOMPLETE;
  }

  take(text: string): string[] {
    const names = this.#names;
    const values = this.#values;
    const fields: string[] = [];
    for (let i = 0, end = 2 * this.#count; i < end; i += 2)
      fields.push((names[i >> 1] as FieldName).text, text.slice(values[i], values[i + 1]));
    return fields;
  }

  #add(bytes: Bytes, origin: number, valueStart: number, cr: number, framing: Framing): Fault | undefined {
    const count = this.#count;
    let valueEnd = cr;
    while (valueEnd > valueStart && (bytes[valueEnd - 1] === SP || bytes[valueEnd - 1] === HTAB)) valueEnd--;
    this.#values[2 * count] = valueStart - origin;
    this.#values[2 * count + 1] = valueEnd - origin;
    this.#count = count + 1;
    const { meaning } = this.#names[count] as FieldName;
    return meaning === PLAIN ? undefined : framing.note(meaning, bytes, valueStart, valueEnd, cr);
  }
}

function nameFault(code: number): Fault {
  return code === SP || code === HTAB ? 'space_before_colon' : 'field_name';
}

function lineFault(code: number): Fault {
  if (code === SP || code === HTAB) return 'folded_line';
  return code === LF ? 'line_end' : 'field_name';
}

/** Returns the index after the colon if exactly this name is next; otherwise `start`. */
function endOfName(name: FieldName | undefined, bytes: Bytes, start: number, end: number): number {
  if (name === undefined) return start;
  const own = name.bytes;
  const colon = start + own.length;
  if (colon >= end || bytes[colon] !== COLON) return start;
  for (let i = 0; i < own.length; i++) if (own[i] !== bytes[start + i]) return start;
  return colon + 1;
}

/** Returns the index of the first byte that is not text, at most `end`; compares four bytes at a time. */
function endOfText(bytes: Bytes, start: number, end: number): number {
  let i = start;
  for (const last = end - 3; i < last; i += 4) {
    const a = bytes[i] as number;
    const b = bytes[i + 1] as number;
    const c = bytes[i + 2] as number;
    const d = bytes[i + 3] as number;
    // Negative if one of them is a control character, tab included.
    if (((a - SP) | (b - SP) | (c - SP) | (d - SP)) < 0) break;
    if (a === DEL || b === DEL || c === DEL || d === DEL) break;
  }
  while (i < end && TEXT[bytes[i] as number] === 1) i++;
  return i;
}

const SIZE = 0;
const EXTENSION_START = 1;
const EXTENSION = 2;
const VALUE_START = 3;
const TOKEN_VALUE = 4;
const QUOTED_VALUE = 5;
const ESCAPED = 6;
const AFTER_QUOTED = 7;
const SIZE_LF = 8;

const MAX_DIGITS = 8;
/** The maximum of a signed 32-bit integer; some parsers go no further. */
const MAX_SIZE = 0x7fff_ffff;
const GOES_ON = undefined;

/** Parses chunk-size lines byte by byte, across any split. Extensions are validated and discarded. */
export class ChunkLine {
  size = 0;
  fault: Fault | undefined;
  #state = SIZE;
  #length = 0;
  #digits = 0;
  #extensions = 0;

  reset(): void {
    this.#extensions = 0;
    this.begin();
  }

  begin(): void {
    this.size = 0;
    this.fault = undefined;
    this.#state = SIZE;
    this.#length = 0;
    this.#digits = 0;
  }

  /** @returns true when the line is complete; undefined while it continues, or when `fault` is set */
  take(code: number, maxLine: number, maxExtensions: number): true | undefined {
    if (this.#state === SIZE_LF) return code === LF ? true : this.#refuse('line_end');
    if (code === CR) return this.#endLine();
    this.#length += 1;
    if (this.#length > maxLine) return this.#refuse('chunk_line_too_long');
    if (this.#state === SIZE && code !== SEMICOLON) return this.#takeDigit(code);
    this.#extensions += 1;
    if (this.#extensions > maxExtensions) return this.#refuse('extensions_too_large');
    return this.#takeExtension(code);
  }

  #takeDigit(code: number): undefined {
    const value = HEX[code] as number;
    this.#digits += 1;
    if (value > 15 || this.#digits > MAX_DIGITS) return this.#refuse(code === LF ? 'line_end' : 'chunk_size');
    this.size = this.size * 16 + value;
    return this.size > MAX_SIZE ? this.#refuse('chunk_size') : GOES_ON;
  }

  #takeExtension(code: number): undefined {
    switch (this.#state) {
      case SIZE:
        if (this.#digits === 0) return this.#refuse('chunk_size');
        return this.#go(EXTENSION_START);
      case EXTENSION_START:
        return TOKEN[code] === 1 ? this.#go(EXTENSION) : this.#refuse(extensionFault(code));
      case EXTENSION:
        if (TOKEN[code] === 1) return GOES_ON;
        if (code === EQUALS) return this.#go(VALUE_START);
        return this.#endExtension(code);
      case VALUE_START:
        if (code === QUOTE) return this.#go(QUOTED_VALUE);
        return TOKEN[code] === 1 ? this.#go(TOKEN_VALUE) : this.#refuse(extensionFault(code));
      case TOKEN_VALUE:
        return TOKEN[code] === 1 ? GOES_ON : this.#endExtension(code);
      case QUOTED_VALUE:
        if (QUOTED[code] === 1) return GOES_ON;
        if (code === QUOTE) return this.#go(AFTER_QUOTED);
        return code === BACKSLASH ? this.#go(ESCAPED) : this.#refuse(extensionFault(code));
      case ESCAPED:
        return TEXT[code] === 1 && code < 0x80 ? this.#go(QUOTED_VALUE) : this.#refuse(extensionFault(code));
      default:
        return this.#endExtension(code);
    }
  }

  #endExtension(code: number): undefined {
    return code === SEMICOLON ? this.#go(EXTENSION_START) : this.#refuse(extensionFault(code));
  }

  #endLine(): undefined {
    switch (this.#state) {
      case SIZE:
        return this.#digits === 0 ? this.#refuse('chunk_size') : this.#go(SIZE_LF);
      case EXTENSION:
      case TOKEN_VALUE:
      case AFTER_QUOTED:
        return this.#go(SIZE_LF);
      default:
        return this.#refuse('chunk_extension');
    }
  }

  #go(state: number): undefined {
    this.#state = state;
    return GOES_ON;
  }

  #refuse(fault: Fault): undefined {
    this.fault = fault;
    return undefined;
  }
}

function extensionFault(code: number): Fault {
  return code === LF ? 'line_end' : 'chunk_extension';
}
