import { isHost } from '../util/addresses.js';
import { firstField } from '../http/fields.js';
import {
  type Bytes,
  bytesOf,
  CR,
  EMPTY,
  findMethod,
  LF,
  MAX_METHOD_LENGTH,
  MINOR,
  SLASH,
  SP,
  TARGET,
  TARGET_WITH_FRAGMENT,
  TOKEN,
  VERSION,
  ZERO,
} from './bytes.js';
import {
  type Event,
  type Fault,
  HEAD,
  INCOMPLETE,
  LineScanner,
  type MessageLimits,
  NEED_DATA,
  REFUSED,
  START_LINE,
} from './events.js';
import { Framing } from './framing.js';
import { MessageParser } from './message-parser.js';

const SCHEMES = ['http://', 'https://'];

/**
 * Validates the form of a target, which depends on the method (RFC 9112 3.2). An absolute one must name the
 * same host as Host, because recipients disagree on which counts.
 */
function targetFault(method: string, target: string, host: string | undefined): Fault | undefined {
  if (method === 'CONNECT') return isAuthority(target) ? undefined : 'target_form';
  if (target.charCodeAt(0) === SLASH) return undefined;
  if (target === '*') return method === 'OPTIONS' ? undefined : 'target_form';
  const lower = target.toLowerCase();
  const scheme = SCHEMES.find((each) => lower.startsWith(each));
  if (scheme === undefined) return 'target_form';
  const authority = lower.slice(scheme.length, endOfAuthority(lower, scheme.length));
  if (!isHost(authority)) return 'target_form';
  return host === undefined || host.toLowerCase() === authority ? undefined : 'host_mismatch';
}

/** Returns whether a target is a host with a port, as CONNECT requires (RFC 9112 3.2.3). */
function isAuthority(target: string): boolean {
  return isHost(target) && /:\d+$/.test(target);
}

function endOfAuthority(target: string, from: number): number {
  const slash = target.indexOf('/', from);
  const query = target.indexOf('?', from);
  if (slash < 0) return query < 0 ? target.length : query;
  return query < 0 ? slash : Math.min(slash, query);
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
export class RequestLine extends LineScanner {
  method = '';
  isRegistered = true;
  targetStart = 0;
  targetEnd = 0;
  minor = 1;
  #state = START;
  #at = 0;
  #methodStart = 0;
  #version = 0;
  readonly #target: Uint8Array;

  /** @param target table of the bytes that a target may contain */
  constructor(target = TARGET) {
    super();
    this.#target = target;
  }

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
    const targetBytes = this.#target;
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
        while (i < end && targetBytes[bytes[i] as number] === 1) i++;
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
          return this.refuse(at > MINOR && isLineEnd(code) ? 'line_end' : 'version', i - origin);
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

function isLineEnd(code: number): boolean {
  return code === CR || code === LF;
}

/** Parses the requests of a client connection, in order. */
export class RequestParser extends MessageParser {
  method = '';
  target = '';
  host: string | undefined;
  /** Whether the client asks to upgrade after this request (RFC 9110 7.8); never in HTTP/1.0. */
  upgrade = false;
  /** What the client sent instead of a first request, if its line was refused. */
  notHttp1: Buffer = EMPTY;

  readonly #line: RequestLine;
  readonly #checksHead: boolean;
  #checkedHost: string | undefined;

  /**
   * @param checksHead false if the consumer of the heads validates Host, the target, and the coding against
   *   the version
   */
  constructor(limits: MessageLimits, checksHead = true) {
    super(limits, new Framing(true, checksHead));
    this.#line = new RequestLine(checksHead ? TARGET : TARGET_WITH_FRAGMENT);
    this.#checksHead = checksHead;
  }

  /** Whether a request is incomplete. An empty line before it does not count (RFC 9112 2.2). */
  override get hasBegun(): boolean {
    return super.hasBegun && !(this.state === START_LINE && this.unread === 0 && this.#line.isEmpty);
  }

  override forget(): void {
    super.forget();
    this.target = '';
    this.host = undefined;
    this.#checkedHost = undefined;
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

  /** Interprets the head as a whole. */
  protected checkHead(): Fault | undefined {
    const { framing, minor, method } = this;
    const { length, chunked } = framing;
    this.upgrade = framing.upgradeOption && framing.upgradeField && minor === 1;
    if (method === 'CONNECT' && (chunked || length >= 0)) return 'framing_forbidden';
    return this.#checksHead ? this.#check() : undefined;
  }

  #check(): Fault | undefined {
    const { framing, minor, method } = this;
    this.host = framing.hosts === 0 ? undefined : firstField(this.fields, 'host');
    if (this.host === undefined) {
      if (minor === 1) return 'host_missing';
    } else if (this.host !== this.#checkedHost) {
      if (!isHost(this.host)) return 'host_invalid';
      this.#checkedHost = this.host;
    }
    if (minor === 0 && framing.chunked) return 'coding_version';
    return targetFault(method, this.target, this.host);
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
