import { CR, LF } from './bytes.js';
import { ChunkLine } from './chunk-line.js';
import { DATA, END, type Event, FAULT, NEED_DATA } from './events.js';
import type { Fault } from './faults.js';
import { FieldLines } from './field-lines.js';
import { INCOMPLETE, REFUSED } from './line-scanner.js';
import type { Framing } from './framing.js';
import type { MessageLimits } from './limits.js';
import * as states from './states.js';
import { EMPTY, UnreadBytes } from './unread-bytes.js';

export const NO_FIELDS: readonly string[] = [];

/** Parses bodies: of a known length, chunked with trailers, or up to the end of the connection. */
export abstract class BodyParser extends UnreadBytes {
  /** Part of a body, at `DATA`. */
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
  protected state = states.READY;
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
    this.state = states.REFUSING;
    this.persistent = false;
    this.drop();
    return FAULT;
  }

  /**
   * Enters the state that reads the body.
   *
   * @param length bytes; -1 for a body that ends with the connection
   */
  protected beginBody(chunked: boolean, length: number): void {
    if (chunked) {
      this.#chunkLine.reset();
      this.state = states.CHUNK_LINE;
    } else {
      this.#left = length;
      if (length > 0) this.state = states.BODY_OF_LENGTH;
      else this.state = length === 0 ? states.DONE : states.BODY_TO_CLOSE;
    }
  }

  /** Parses up to the next event, in any body state. */
  protected readBody(): Event {
    switch (this.state) {
      case states.BODY_OF_LENGTH:
      case states.CHUNK_DATA:
        return this.#readData(this.#left);
      case states.BODY_TO_CLOSE:
        return this.#readData(this.end - this.pos);
      case states.TRAILERS:
        return this.#readTrailers();
      case states.DONE:
        this.data = EMPTY;
        this.state = this.persistent ? states.READY : states.FINAL;
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
    if (this.state === states.BODY_TO_CLOSE) return DATA;
    this.#left -= taken;
    if (this.#left === 0) this.state = this.state === states.CHUNK_DATA ? states.CHUNK_CR : states.DONE;
    return DATA;
  }

  #readChunks(): Event {
    while (this.pos < this.end) {
      const code = this.bytes[this.pos] as number;
      if (this.state === states.CHUNK_LINE) {
        const fault = this.#takeOfLine(code);
        if (fault !== undefined) return this.refuse(fault, this.offset);
        this.pos += 1;
        if (this.state !== states.CHUNK_LINE) return this.readBody();
      } else {
        if (code !== (this.state === states.CHUNK_CR ? CR : LF)) return this.refuse('chunk_end', this.offset);
        this.pos += 1;
        this.state = this.state === states.CHUNK_CR ? states.CHUNK_LF : states.CHUNK_LINE;
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
      this.state = states.TRAILERS;
    } else {
      this.#left = line.size;
      line.begin();
      this.state = states.CHUNK_DATA;
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
    this.state = states.DONE;
    return this.readBody();
  }
}
