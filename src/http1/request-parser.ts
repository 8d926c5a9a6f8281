import { REGISTERED_METHODS } from '../domain/methods.js';
import {
  type Bytes,
  bytesOf,
  CR,
  EMPTY,
  LF,
  MINOR,
  SP,
  TARGET_WITH_FRAGMENT,
  TOKEN,
  VERSION,
  ZERO,
} from './bytes.js';
import { type Event, type Fault, HEAD, type MessageLimits, NEED_DATA } from './events.js';
import { Framing } from './framing.js';
import { INCOMPLETE, LineScanner, REFUSED } from './lines.js';
import { MessageParser, START_LINE } from './message-parser.js';

/** Maximum length of a method, in bytes; registered ones have at most 17. */
const MAX_METHOD_LENGTH = 32;

interface Method {
  readonly text: string;
  readonly bytes: Uint8Array;
}

const methods: Method[][] = Array.from({ length: (MAX_METHOD_LENGTH + 1) * 32 }, () => []);
for (const text of REGISTERED_METHODS) {
  const bytes = bytesOf(text);
  (methods[bytes.length * 32 + ((bytes[0] as number) & 31)] as Method[]).push({ text, bytes });
}

/** @param end at most {@link MAX_METHOD_LENGTH} after `start` */
function findMethod(bytes: Uint8Array, start: number, end: number): string | undefined {
  const length = end - start;
  const cell = methods[length * 32 + ((bytes[start] as number) & 31)] as Method[];
  for (const { text, bytes: own } of cell) {
    let i = 0;
    while (i < length && own[i] === bytes[start + i]) i++;
    if (i === length) return text;
  }
  return undefined;
}

const START = 0;
const EMPTY_LINE_LF = 1;
const METHOD_STATE = 2;
const TARGET_STATE = 3;
const VERSION_STATE = 4;

/** The bytes after the target and its space. */
const VERSION_END = bytesOf(`${VERSION}\r\n`);

/** Maximum bytes of a request line besides its target: an empty line, the method, two spaces. */
const MAX_AROUND_TARGET = 2 + MAX_METHOD_LENGTH + 2 + VERSION_END.length;

/** Parses a request line, after at most one empty line. It resumes like {@link FieldLines}. */
class RequestLine extends LineScanner {
  method = '';
  isRegistered = true;
  targetStart = 0;
  targetEnd = 0;
  minor = 1;
  #state = START;
  #at = 0;
  #methodStart = 0;
  #version = 0;

  begin(): void {
    this.#state = START;
    this.#at = 0;
    this.#version = 0;
    this.fault = undefined;
  }

  /** Whether nothing but an empty line, or a part of one, was scanned. */
  get isEmpty(): boolean {
    return this.#state <= EMPTY_LINE_LF || (this.#state === METHOD_STATE && this.#at === this.#methodStart);
  }

  scan(bytes: Bytes, origin: number, end: number, maxTarget: number): number {
    let i = origin + this.#at;
    let state = this.#state;
    while (i < end) {
      const code = bytes[i] as number;
      if (state === METHOD_STATE) {
        while (i < end && TOKEN[bytes[i] as number] === 1) i++;
        const start = origin + this.#methodStart;
        if (i - start > MAX_METHOD_LENGTH)
          return this.refuse('method', this.#methodStart + MAX_METHOD_LENGTH);
        if (i === end) break;
        if (bytes[i] !== SP || i === start) return this.refuse('method', i - origin);
        const method = findMethod(bytes, start, i);
        this.isRegistered = method !== undefined;
        this.method = method ?? bytes.latin1Slice(start, i);
        i++;
        this.targetStart = i - origin;
        state = TARGET_STATE;
      } else if (state === TARGET_STATE) {
        while (i < end && TARGET_WITH_FRAGMENT[bytes[i] as number] === 1) i++;
        if (i - origin - this.targetStart > maxTarget)
          return this.refuse('target_too_long', this.targetStart + maxTarget);
        if (i === end) break;
        this.targetEnd = i - origin;
        if (bytes[i] !== SP || this.targetEnd === this.targetStart) return this.refuse('target', i - origin);
        i++;
        state = VERSION_STATE;
      } else if (state === VERSION_STATE) {
        const at = this.#version;
        if (at === MINOR) {
          this.minor = code - ZERO;
          if (this.minor !== 0 && this.minor !== 1) return this.refuse('version', i - origin);
        } else if (code !== VERSION_END[at]) {
          return this.refuse(at > MINOR && (code === CR || code === LF) ? 'line_end' : 'version', i - origin);
        }
        i++;
        this.#version = at + 1;
        if (this.#version === VERSION_END.length) return i;
      } else if (state === EMPTY_LINE_LF) {
        if (code !== LF) return this.refuse('line_end', i - origin);
        i++;
        this.#methodStart = i - origin;
        state = METHOD_STATE;
      } else {
        this.#methodStart = 0;
        if (code === CR) i++;
        state = code === CR ? EMPTY_LINE_LF : METHOD_STATE;
      }
    }
    this.#at = i - origin;
    this.#state = state;
    return INCOMPLETE;
  }
}

/**
 * Parses the requests of a client connection, in order. `http/read-head.ts` validates Host, the target, and
 * the coding against the version.
 */
export class RequestParser extends MessageParser {
  method = '';
  target = '';
  /** Whether the client asks to upgrade after this request (RFC 9110 7.8); never in HTTP/1.0. */
  upgrade = false;
  /** What the client sent instead of a first request, if its line was refused. */
  notHttp1: Buffer = EMPTY;

  readonly #line = new RequestLine();

  constructor(limits: MessageLimits) {
    super(limits, new Framing(true));
  }

  /** Whether a request is incomplete. An empty line before it does not count (RFC 9112 2.2). */
  override get hasBegun(): boolean {
    return super.hasBegun && !(this.state === START_LINE && this.unread === 0 && this.#line.isEmpty);
  }

  override forget(): void {
    super.forget();
    this.target = '';
  }

  protected readBetween(): Event {
    if (this.pos === this.end) return NEED_DATA;
    this.beginMessage();
    this.#line.begin();
    return this.readHead();
  }

  protected get isIdle(): boolean {
    return !this.hasBegun;
  }

  /** With a target within its limit, no request line is longer. */
  protected get startLineLimit(): number {
    return this.limits.target_size + MAX_AROUND_TARGET;
  }

  protected scanStartLine(origin: number): number {
    const line = this.#line;
    const next = line.scan(this.bytes, origin, this.headEnd(), this.limits.target_size);
    if (next === REFUSED) {
      if (this.method === '') this.notHttp1 = Buffer.from(this.bytes.subarray(origin, this.end));
      this.refuse(line.fault as Fault, line.faultAt);
    }
    return next;
  }

  protected takeStartLine(origin: number): void {
    const line = this.#line;
    this.method = line.method;
    this.minor = line.minor;
    this.target = this.bytes.latin1Slice(origin + line.targetStart, origin + line.targetEnd);
  }

  protected checkHead(): Fault | undefined {
    const { framing, minor, method } = this;
    this.upgrade = framing.upgradeOption && framing.upgradeField && minor === 1;
    const isFramed = framing.chunked || framing.length >= 0;
    return method === 'CONNECT' && isFramed ? 'framing_forbidden' : undefined;
  }

  protected beginContent(): Event {
    const { framing } = this;
    const persists = this.minor === 1 || framing.keepAlive;
    // After CONNECT comes a tunnel or nothing. What has an unknown method may be no request.
    this.persistent = persists && !framing.close && this.method !== 'CONNECT' && this.#line.isRegistered;
    this.beginBody(this.chunked, Math.max(0, this.length));
    return HEAD;
  }
}
