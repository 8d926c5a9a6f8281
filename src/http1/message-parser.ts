// src/http1: parses and writes HTTP/1.1 messages, without sockets.
// May import policy, http and all below.
// docs/design/engine.md explains it.

import { type Bytes, CR, EMPTY, LF } from './bytes.js';
import { CLOSED, DATA, END, type Event, FAULT, type Fault, type MessageLimits, NEED_DATA } from './events.js';
import type { Framing } from './framing.js';
import { ChunkLine, FieldLines, INCOMPLETE, REFUSED } from './lines.js';

/** The states of a parser; docs/design/engine.md says what each one reads, and which states follow it. */
export const READY = 0;
export const START_LINE = 1;
const FIELDS = 2;
const BODY_OF_LENGTH = 3;
const BODY_TO_CLOSE = 4;
const CHUNK_LINE = 5;
const CHUNK_DATA = 6;
const CHUNK_CR = 7;
const CHUNK_LF = 8;
const TRAILERS = 9;
const DONE = 10;
const FINAL = 11;
const REFUSING = 12;

const NO_FIELDS: readonly string[] = [];

/** The empty line after the fields, in bytes; it is not one of them. */
const LINE_END = 2;

/** Maximum number of bytes of a field section to remember. */
const MAX_KEPT = 4 * 1024;

/**
 * Remembers the field section of the last head. It ends with the first empty line, so equal bytes mean equal
 * fields.
 */
class FieldsMemo {
  #bytes: Buffer | undefined;
  #length = 0;

  keep(bytes: Bytes, start: number, end: number): void {
    const length = end - start;
    this.#length = 0;
    if (length > MAX_KEPT) return;
    if (this.#bytes === undefined || this.#bytes.length < length) this.#bytes = Buffer.allocUnsafe(length);
    bytes.copy(this.#bytes, 0, start, end);
    this.#length = length;
  }

  clear(): void {
    this.#bytes?.fill(0);
    this.#bytes = undefined;
    this.#length = 0;
  }

  /** Returns the index after the remembered fields; 0 if other fields follow, or some are missing. */
  find(bytes: Bytes, start: number, end: number): number {
    const length = this.#length;
    const next = start + length;
    if (length === 0 || end < next) return 0;
    return bytes.compare(this.#bytes as Buffer, 0, length, start, next) === 0 ? next : 0;
  }
}

/** The received but unread bytes of a connection, in one buffer. */
abstract class UnreadBytes {
  /** Unread from `pos` to `end`. */
  protected bytes: Bytes = EMPTY;
  protected pos = 0;
  protected end = 0;
  /** Offset in the message of the first of `bytes`; in a head, `-base` is the index of its first byte. */
  protected base = 0;
  /** Index from which bytes are kept although they were read; -1 if none are. */
  protected keptFrom = -1;
  #isOwn = false;

  get unread(): number {
    return this.end - this.pos;
  }

  /** Adds received bytes. The chunk must not change until it is read, or {@link own} was called. */
  feed(chunk: Buffer): void {
    const from = this.#firstNeeded;
    if (from === this.end) {
      this.#moveTo(chunk as Bytes, from, chunk.length);
      this.#isOwn = false;
      return;
    }
    // A received chunk has no free space.
    if (this.bytes.length - this.end < chunk.length) this.#copy(from, chunk.length);
    chunk.copy(this.bytes, this.end);
    this.end += chunk.length;
  }

  /** Copies the bytes that are still needed, so that the chunk they are in may be overwritten. */
  own(): void {
    const from = this.#firstNeeded;
    if (!this.#isOwn && from < this.end) this.#copy(from, 0);
  }

  /** Gives up the bytes that were read: those still needed move to another buffer. */
  protected dropRead(): void {
    const from = this.#firstNeeded;
    if (from === this.end) this.release();
    else if (from > 0) this.#copy(from, 0);
  }

  /** Index of the first byte that was not read or is kept. */
  get #firstNeeded(): number {
    return this.keptFrom < 0 ? this.pos : this.keptFrom;
  }

  #copy(from: number, more: number): void {
    const length = this.end - from;
    // Double the capacity, so that a head in many pieces is copied only a few times.
    const copy = Buffer.allocUnsafe(2 * (length + more)) as Bytes;
    this.bytes.copy(copy, 0, from, this.end);
    this.#moveTo(copy, from, length);
    this.#isOwn = true;
  }

  #moveTo(bytes: Bytes, from: number, end: number): void {
    this.bytes = bytes;
    this.end = end;
    this.base += from;
    this.pos -= from;
    if (this.keptFrom >= 0) this.keptFrom = 0;
  }

  /** Drops a chunk that was read completely, so that idle connections hold no memory. */
  protected release(): void {
    if (this.keptFrom >= 0 || this.pos < this.end) return;
    this.base += this.pos;
    this.drop();
  }

  protected get offset(): number {
    return this.base + this.pos;
  }

  protected drop(): void {
    this.bytes = EMPTY;
    this.pos = 0;
    this.end = 0;
    this.keptFrom = -1;
  }
}

/**
 * A parser stays with its connection: pass received bytes to `feed`, then call `next` until it needs data.
 * The details of an event are properties of the parser; do not modify their lists and buffers.
 */
export abstract class MessageParser extends UnreadBytes {
  /** Flat list of names, in their original case, and Latin-1 values, in order. */
  fields: readonly string[] = NO_FIELDS;
  /** Content-Length in bytes; -1 if absent. */
  length = -1;
  chunked = false;
  minor = 1;
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
  protected state = READY;
  readonly #lines = new FieldLines();
  readonly #chunkLine = new ChunkLine();
  readonly #memo = new FieldsMemo();
  #fieldsFrom = 0;
  /** Bytes of the body or chunk still to come. */
  #left = 0;
  #finished = false;

  constructor(limits: MessageLimits, framing: Framing) {
    super();
    this.framing = framing;
    this.limits = limits;
  }

  /** Whether a message is incomplete. */
  get hasBegun(): boolean {
    return this.state !== READY || this.unread > 0;
  }

  /** Marks the end of input: the other side has ended the connection. */
  finish(): void {
    this.#finished = true;
  }

  next(): Event {
    const event = this.#step();
    if (event !== NEED_DATA) return event;
    this.release();
    return this.#finished ? this.#cutOff() : NEED_DATA;
  }

  /** Forgets the last head. Only between messages. */
  forget(): void {
    this.fields = NO_FIELDS;
    this.#memo.clear();
    this.dropRead();
  }

  /** Stops parsing and returns the unread bytes, which belong to another protocol. */
  takeRest(): Buffer {
    const rest = Buffer.from(this.bytes.subarray(this.pos, this.end));
    this.state = FINAL;
    this.drop();
    return rest;
  }

  /** Size from which an incomplete start line is refused, in bytes. */
  protected abstract get startLineLimit(): number;

  /** Scans the start line; returns the index after it, INCOMPLETE or REFUSED. */
  protected abstract scanStartLine(origin: number): number;

  /** Copies the values of the start line to the parser. */
  protected abstract takeStartLine(origin: number): void;

  /** Returns the rule that the head as a whole violates. */
  protected abstract checkHead(): Fault | undefined;

  /** Enters the state after a head. */
  protected abstract beginContent(): Event;

  protected abstract readBetween(): Event;

  /** Whether no message is expected, so that the connection may close. */
  protected abstract get isIdle(): boolean;

  #step(): Event {
    switch (this.state) {
      case READY:
        return this.readBetween();
      case START_LINE:
      case FIELDS:
        return this.readHead();
      case FINAL:
        return CLOSED;
      case REFUSING:
        return FAULT;
      default:
        return this.#readBody();
    }
  }

  /** Starts a message at `pos`. */
  protected beginMessage(): void {
    this.base = -this.pos;
    this.keptFrom = this.pos;
    this.state = START_LINE;
    this.trailers = NO_FIELDS;
  }

  /** Returns the index at which the received bytes or the head limit end, whichever is first. */
  protected headEnd(): number {
    return Math.min(this.end, this.#headLimit() - this.base);
  }

  /** The offset at which a start line, or the fields after one, exceed their limit. */
  #headLimit(): number {
    if (this.state === START_LINE) return this.startLineLimit;
    return this.#fieldsFrom + this.limits.head_size + LINE_END;
  }

  protected readHead(): Event {
    const origin = -this.base;
    const { limits } = this;
    const lines = this.#lines;
    if (this.state === START_LINE) {
      const after = this.scanStartLine(origin);
      if (after === REFUSED) return FAULT;
      if (after === INCOMPLETE) return this.#needHead();
      this.#fieldsFrom = after - origin;
      this.state = FIELDS;
      // They were within the limits.
      const same = this.#memo.find(this.bytes, after, this.end);
      if (same > 0) return this.#endHead(origin, same);
      this.framing.reset();
      lines.begin(after - origin);
    }
    const after = lines.scan(this.bytes, origin, this.headEnd(), limits.head_fields, this.framing);
    if (after === REFUSED) return this.refuse(lines.fault as Fault, lines.faultAt);
    if (after === INCOMPLETE) return this.#needHead();
    this.fields = lines.take(this.bytes.latin1Slice(origin, after));
    this.#memo.keep(this.bytes, origin + this.#fieldsFrom, after);
    return this.#endHead(origin, after);
  }

  /** Waits for the rest of a head, or refuses it at the size limit. */
  #needHead(): Event {
    const limit = this.#headLimit();
    if (this.end + this.base >= limit) return this.refuse('head_too_large', limit);
    this.pos = this.end;
    return NEED_DATA;
  }

  #endHead(origin: number, after: number): Event {
    const { framing } = this;
    this.takeStartLine(origin);
    const fault = this.checkHead();
    if (fault !== undefined) return this.refuse(fault, after - origin);
    this.length = framing.length;
    this.chunked = framing.chunked;
    this.pos = after;
    this.keptFrom = -1;
    return this.beginContent();
  }

  #cutOff(): Event {
    if (this.state === BODY_TO_CLOSE) {
      this.state = FINAL;
      return END;
    }
    if (this.isIdle) {
      this.state = FINAL;
      return CLOSED;
    }
    return this.refuse('cut_off', this.state === READY ? 0 : this.offset);
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

  #readBody(): Event {
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
        if (this.state !== CHUNK_LINE) return this.#readBody();
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
      this.#lines.begin(0);
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
    const { limits, framing, keptFrom: from } = this;
    const lines = this.#lines;
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
    return this.#readBody();
  }
}
