import { BodyParser, NO_FIELDS } from './body-parser.js';
import { CLOSED, END, type Event, FAULT, NEED_DATA } from './events.js';
import type { Fault } from './faults.js';
import { INCOMPLETE, REFUSED } from './line-scanner.js';
import { FieldsMemo } from './fields-memo.js';
import * as states from './states.js';

/**
 * What the parsers of requests and responses have in common.
 *
 * One parser stays with a connection for its life. `feed` it what comes, and ask `next` until it needs data; what an
 * event is about stands on the parser, and lists and buffers must not be changed.
 */
export abstract class MessageParser extends BodyParser {
  /** Names in their case and values as Latin-1, flat, in order. */
  fields: readonly string[] = NO_FIELDS;
  /** Content-Length; -1 without one. */
  length = -1;
  chunked = false;
  /** Minor version of HTTP/1: 0 or 1. */
  minor = 1;

  readonly #memo = new FieldsMemo();
  /** Where the fields of the present head begin, as an offset in the message. */
  #fieldsFrom = 0;
  #finished = false;

  /** A message has begun that is not complete. */
  get hasBegun(): boolean {
    return this.state !== states.READY || this.unread > 0;
  }

  /** The other side sends nothing more. */
  finish(): void {
    this.#finished = true;
  }

  /** Reads up to the next event. */
  next(): Event {
    const event = this.#step();
    if (event !== NEED_DATA) return event;
    this.release();
    return this.#finished ? this.#cutOff() : NEED_DATA;
  }

  /** Ends the parsing: what was not read yet belongs to another protocol. */
  takeRest(): Buffer {
    const rest = this.bytes.subarray(this.pos, this.end);
    this.state = states.FINAL;
    this.drop();
    return rest;
  }

  /** Scans the first line: the index behind it, INCOMPLETE or REFUSED. */
  protected abstract scanStartLine(origin: number): number;

  /** Takes the values of the first line over. */
  protected abstract takeStartLine(origin: number): void;

  /** What the head as a whole breaks. */
  protected abstract checkHead(): Fault | undefined;

  /** Goes to the state behind a head. */
  protected abstract beginContent(): Event;

  /** Reads nothing until something asks for a message, or begins one. */
  protected abstract readBetween(): Event;

  /** Whether no message is awaited, so that the connection may close. */
  protected abstract get isIdle(): boolean;

  #step(): Event {
    switch (this.state) {
      case states.READY:
        return this.readBetween();
      case states.START_LINE:
      case states.FIELDS:
        return this.readHead();
      case states.FINAL:
        return CLOSED;
      case states.REFUSING:
        return FAULT;
      default:
        return this.readBody();
    }
  }

  /** The first byte of a message is at `pos`. */
  protected beginMessage(): void {
    this.base = -this.pos;
    this.keptFrom = this.pos;
    this.state = states.START_LINE;
    this.trailers = NO_FIELDS;
  }

  /** Index where the bytes or the limit of a head end. */
  protected headEnd(): number {
    return Math.min(this.end, this.limits.head_size - this.base);
  }

  protected readHead(): Event {
    const origin = -this.base;
    const { lines, limits } = this;
    if (this.state === states.START_LINE) {
      const behind = this.scanStartLine(origin);
      if (behind === REFUSED) return FAULT;
      if (behind === INCOMPLETE) return this.#needHead();
      this.#fieldsFrom = behind - origin;
      const same = this.#memo.find(this.bytes, behind, this.headEnd());
      if (same > 0) return this.#endHead(origin, same);
      this.framing.reset();
      lines.begin(behind - origin);
      this.state = states.FIELDS;
    }
    const behind = lines.scan(this.bytes, origin, this.headEnd(), limits.head_fields, this.framing);
    if (behind === REFUSED) return this.refuse(lines.fault as Fault, lines.faultAt);
    if (behind === INCOMPLETE) return this.#needHead();
    this.fields = lines.take(this.bytes.latin1Slice(origin, behind));
    this.#memo.keep(this.bytes, origin + this.#fieldsFrom, behind);
    return this.#endHead(origin, behind);
  }

  /** What there is of a head does not end it. */
  #needHead(): Event {
    const limit = this.limits.head_size;
    if (this.end + this.base >= limit) return this.refuse('head_too_large', limit);
    this.pos = this.end;
    return NEED_DATA;
  }

  #endHead(origin: number, behind: number): Event {
    const { framing } = this;
    this.takeStartLine(origin);
    const fault = this.checkHead();
    if (fault !== undefined) return this.refuse(fault, behind - origin);
    this.length = framing.length;
    this.chunked = framing.chunked;
    framing.inTrailers = false;
    framing.endsInTrailers = false;
    this.pos = behind;
    this.keptFrom = -1;
    return this.beginContent();
  }

  #cutOff(): Event {
    if (this.state === states.BODY_TO_CLOSE) {
      this.state = states.FINAL;
      return END;
    }
    if (this.state === states.READY && this.isIdle) {
      this.state = states.FINAL;
      return CLOSED;
    }
    return this.refuse('cut_off', this.state === states.READY ? 0 : this.offset);
  }
}
