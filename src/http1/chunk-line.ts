import { BACKSLASH, CR, EQUALS, HEX, LF, QUOTE, QUOTED, SEMICOLON, TEXT, TOKEN } from './bytes.js';
import type { Fault } from './faults.js';

const SIZE = 0;
const NAME_START = 1;
const NAME = 2;
const VALUE_START = 3;
const TOKEN_VALUE = 4;
const QUOTED_VALUE = 5;
const ESCAPED = 6;
const AFTER_QUOTED = 7;
const LINE_LF = 8;

const MAX_DIGITS = 8;
/** The maximum of a signed 32-bit integer; some parsers go no further. */
const MAX_SIZE = 0x7fff_ffff;
/** The result of a step when the line continues. */
const GOES_ON = undefined;

/**
 * Parses chunk-size lines byte by byte, across any split. Extensions are validated and discarded.
 */
export class ChunkLine {
  size = 0;
  fault: Fault | undefined;
  #state = SIZE;
  #length = 0;
  #digits = 0;
  /** Bytes of all extensions of the message. */
  #extensions = 0;

  /** Starts a new message. */
  reset(): void {
    this.#extensions = 0;
    this.begin();
  }

  /** Starts a new line. */
  begin(): void {
    this.size = 0;
    this.fault = undefined;
    this.#state = SIZE;
    this.#length = 0;
    this.#digits = 0;
  }

  /**
   * Consumes one byte.
   *
   * @returns true when the line is complete; undefined while it continues, or when `fault` is set
   */
  take(code: number, maxLine: number, maxExtensions: number): true | undefined {
    if (this.#state === LINE_LF) return code === LF ? true : this.#refuse('line_end');
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
        return this.#go(NAME_START);
      case NAME_START:
        return TOKEN[code] === 1 ? this.#go(NAME) : this.#refuse(extensionFault(code));
      case NAME:
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
    return code === SEMICOLON ? this.#go(NAME_START) : this.#refuse(extensionFault(code));
  }

  #endLine(): undefined {
    switch (this.#state) {
      case SIZE:
        return this.#digits === 0 ? this.#refuse('chunk_size') : this.#go(LINE_LF);
      case NAME:
      case TOKEN_VALUE:
      case AFTER_QUOTED:
        return this.#go(LINE_LF);
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
