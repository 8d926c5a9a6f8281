import {
  BACKSLASH,
  CR,
  EMPTY,
  EQUALS,
  HEX,
  LF,
  QUOTE,
  QUOTED,
  SEMICOLON,
  TEXT,
  TOKEN,
  UnreadBytes,
} from './bytes.js';
import {
  BODY_OF_LENGTH,
  BODY_TO_CLOSE,
  CHUNK_CR,
  CHUNK_DATA,
  CHUNK_LF,
  CHUNK_LINE,
  DATA,
  DONE,
  END,
  type Event,
  type Fault,
  FAULT,
  FINAL,
  INCOMPLETE,
  type MessageLimits,
  NEED_DATA,
  READY,
  REFUSED,
  REFUSING,
  TRAILERS,
} from './events.js';
import { FieldLines } from './lines.js';
import type { Framing } from './framing.js';

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
const GOES_ON = undefined;

/** Parses chunk-size lines byte by byte, across any split. Extensions are validated and discarded. */
class ChunkLine {
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

export const NO_FIELDS: readonly string[] = [];

/** Parses bodies: of a known length, chunked with trailers, or up to the end of the connection. */
export abstract class BodyParser extends UnreadBytes {
  data: Buffer = EMPTY;
  /** Trailers of a chunked body, at `END`; a flat list like `fields`. */
  trailers: readonly string[] = NO_FIELDS;
  /** Whether the connection may carry another message. */
  persistent = true;
  fault: Fault | undefined;
  /** Offset in the message of the refused byte or field, or of the end of a refused head. */
  faultAt = 0;

  protected readonly limits: MessageLimits;
  protected readonly framing: Framing;
  protected readonly lines = new FieldLines();
  protected state = READY;
  readonly #chunkLine = new ChunkLine();
  /** Bytes of the body or chunk still to come. */
  #left = 0;

  constructor(limits: MessageLimits, framing: Framing) {
    super();
    this.framing = framing;
    this.limits = limits;
  }

  protected refuse(fault: Fault, at: number): typeof FAULT {
    this.fault = fault;
    this.faultAt = at;
    this.state = REFUSING;
    this.persistent = false;
    this.drop();
    return FAULT;
  }

  /** @param length bytes; -1 for a body that ends with the connection */
  protected beginBody(chunked: boolean, length: number): void {
    if (chunked) {
      this.#chunkLine.reset();
      this.state = CHUNK_LINE;
    } else {
      this.#left = length;
      if (length > 0) this.state = BODY_OF_LENGTH;
      else this.state = length === 0 ? DONE : BODY_TO_CLOSE;
    }
  }

  protected readBody(): Event {
    switch (this.state) {
      case BODY_OF_LENGTH:
      case CHUNK_DATA:
        return this.#readData(this.#left);
      case BODY_TO_CLOSE:
        return this.#readData(this.end - this.pos);
      case TRAILERS:
        return this.#readTrailers();
      case DONE:
        this.data = EMPTY;
        this.state = this.persistent ? READY : FINAL;
        return END;
      default:
        return this.#readChunks();
    }
  }

  #readData(most: number): Event {
    const { pos, end } = this;
    const taken = Math.min(end - pos, most);
    if (taken === 0) return NEED_DATA;
    const isAll = pos === 0 && taken === this.bytes.length;
    this.data = isAll ? this.bytes : this.bytes.subarray(pos, pos + taken);
    this.pos = pos + taken;
    if (this.state === BODY_TO_CLOSE) return DATA;
    this.#left -= taken;
    if (this.#left === 0) this.state = this.state === CHUNK_DATA ? CHUNK_CR : DONE;
    return DATA;
  }

  #readChunks(): Event {
    while (this.pos < this.end) {
      const code = this.bytes[this.pos] as number;
      if (this.state === CHUNK_LINE) {
        const fault = this.#takeOfLine(code);
        if (fault !== undefined) return this.refuse(fault, this.offset);
        this.pos += 1;
        if (this.state !== CHUNK_LINE) return this.readBody();
      } else {
        if (code !== (this.state === CHUNK_CR ? CR : LF)) return this.refuse('chunk_end', this.offset);
        this.pos += 1;
        this.state = this.state === CHUNK_CR ? CHUNK_LF : CHUNK_LINE;
      }
    }
    return NEED_DATA;
  }

  #takeOfLine(code: number): Fault | undefined {
    const { limits } = this;
    const line = this.#chunkLine;
    if (line.take(code, limits.chunk_line_size, limits.extensions_size) !== true) return line.fault;
    if (line.size === 0) {
      this.keptFrom = this.pos + 1;
      this.lines.begin(0);
      this.framing.inTrailers = true;
      this.state = TRAILERS;
    } else {
      this.#left = line.size;
      line.begin();
      this.state = CHUNK_DATA;
    }
    return undefined;
  }

  #readTrailers(): Event {
    const { lines, limits, framing, keptFrom: from } = this;
    const start = this.base + from;
    const limit = limits.trailer_size;
    const after = lines.scan(this.bytes, from, Math.min(this.end, from + limit), limits.head_fields, framing);
    if (after === REFUSED) return this.refuse(lines.fault as Fault, start + lines.faultAt);
    if (after === INCOMPLETE) {
      if (this.end - from >= limit) return this.refuse('trailers_too_large', start + limit);
      this.pos = this.end;
      return NEED_DATA;
    }
    if (framing.endsInTrailers) this.persistent = false;
    const isNone = after - from === 2;
    this.trailers = isNone ? NO_FIELDS : lines.take(this.bytes.latin1Slice(from, after));
    this.pos = after;
    this.keptFrom = -1;
    this.state = DONE;
    return this.readBody();
  }
}
