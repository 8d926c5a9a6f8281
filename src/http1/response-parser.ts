import { type Bytes, bytesOf, CR, LF, MINOR, NINE, SP, TEXT, VERSION, ZERO } from './bytes.js';
import { type Event, type Fault, HEAD, INFORMATIONAL, type MessageLimits, NEED_DATA } from './events.js';
import { Framing } from './framing.js';
import { INCOMPLETE, LineScanner, REFUSED } from './lines.js';
import { MessageParser, READY } from './message-parser.js';

const VERSION_STATE = 0;
const STATUS_STATE = 1;
const AFTER_STATUS = 2;
const REASON_STATE = 3;
const LINE_LF = 4;

const VERSION_START = bytesOf(`${VERSION} `);
const DIGITS = 3;

/** Parses a status line; resumes like {@link FieldLines}. The space after the status is optional. */
class StatusLine extends LineScanner {
  status = 0;
  reasonStart = 0;
  reasonEnd = 0;
  minor = 1;
  #state = VERSION_STATE;
  #at = 0;

  begin(): void {
    this.#state = VERSION_STATE;
    this.#at = 0;
    this.status = 0;
    this.fault = undefined;
  }

  scan(bytes: Bytes, origin: number, end: number): number {
    let i = origin + this.#at;
    let state = this.#state;
    while (i < end) {
      const code = bytes[i] as number;
      const at = i - origin;
      if (state === REASON_STATE) {
        while (i < end && TEXT[bytes[i] as number] === 1) i++;
        if (i === end) break;
        this.reasonEnd = i - origin;
        if (bytes[i] !== CR) return this.refuse(bytes[i] === LF ? 'line_end' : 'reason', i - origin);
        i++;
        state = LINE_LF;
      } else if (state === VERSION_STATE) {
        if (at === MINOR) {
          this.minor = code - ZERO;
          if (this.minor !== 0 && this.minor !== 1) return this.refuse('version', at);
        } else if (code !== VERSION_START[at]) return this.refuse('version', at);
        i++;
        if (at + 1 === VERSION_START.length) state = STATUS_STATE;
      } else if (state === STATUS_STATE) {
        if (code < ZERO || code > NINE) return this.refuse('status', at);
        this.status = this.status * 10 + code - ZERO;
        i++;
        if (at + 1 === VERSION_START.length + DIGITS) {
          if (this.status < 100 || this.status > 599) return this.refuse('status', VERSION_START.length);
          state = AFTER_STATUS;
        }
      } else if (state === AFTER_STATUS) {
        if (code !== SP && code !== CR) return this.refuse(code === LF ? 'line_end' : 'status', at);
        i++;
        this.reasonStart = code === SP ? at + 1 : at;
        this.reasonEnd = at;
        state = code === SP ? REASON_STATE : LINE_LF;
      } else {
        if (code !== LF) return this.refuse('line_end', at);
        return i + 1;
      }
    }
    this.#at = i - origin;
    this.#state = state;
    return INCOMPLETE;
  }
}

/** Parses the responses of an upstream connection: one per request, announced with {@link expect}. */
export class ResponseParser extends MessageParser {
  status = 0;
  reason = '';

  readonly #line = new StatusLine();
  /** Method of the request in flight; undefined between requests. */
  #method: string | undefined;
  #informational = 0;

  constructor(limits: MessageLimits) {
    super(limits, new Framing(false));
  }

  /**
   * Announces a request that is about to be sent. Bytes that arrived earlier are refused, not taken for its
   * response.
   * @throws Error before the previous response has ended, or if the connection takes no more requests
   */
  expect(method: string): void {
    if (this.state !== READY || this.#method !== undefined || !this.persistent)
      throw new Error('the connection does not wait for a request');
    if (this.pos < this.end) {
      this.refuse('surplus', 0);
      return;
    }
    this.#method = method;
    this.#informational = 0;
  }

  protected readBetween(): Event {
    if (this.pos === this.end) return NEED_DATA;
    if (this.#method === undefined) return this.refuse('surplus', 0);
    this.beginMessage();
    this.#line.begin();
    return this.readHead();
  }

  protected get isIdle(): boolean {
    return this.state === READY && this.#method === undefined;
  }

  protected get startLineLimit(): number {
    return this.limits.head_size;
  }

  protected scanStartLine(origin: number): number {
    const line = this.#line;
    const next = line.scan(this.bytes, origin, this.headEnd());
    if (next === REFUSED) this.refuse(line.fault as Fault, line.faultAt);
    return next;
  }

  protected takeStartLine(origin: number): void {
    const line = this.#line;
    this.status = line.status;
    this.minor = line.minor;
    this.reason = this.bytes.latin1Slice(origin + line.reasonStart, origin + line.reasonEnd);
  }

  protected beginContent(): Event {
    if (this.status < 200) {
      this.#informational += 1;
      this.state = READY;
      return INFORMATIONAL;
    }
    this.#beginBody(this.#method === 'HEAD');
    this.#method = undefined;
    return HEAD;
  }

  /** Applies RFC 9112 6.3 and 9.3. */
  #beginBody(isHead: boolean): void {
    const { framing, status, length, chunked } = this;
    const isBodiless = status === 204 || status === 304;
    const persists = !framing.close && (this.minor === 1 || framing.keepAlive);
    const hasFraming = chunked || length >= 0;
    // Some servers send the body all the same (gunicorn and waitress, to HEAD), and it would be read as the
    // next response.
    const isDoubtful = (isHead || isBodiless) && (chunked || length > 0);
    this.persistent = persists && !isDoubtful && (isBodiless || hasFraming);
    if (isHead || isBodiless) this.beginBody(false, 0);
    else this.beginBody(chunked, length);
  }

  protected checkHead(): Fault | undefined {
    const { framing, status, minor } = this;
    if (minor === 0 && framing.chunked) return 'coding_version';
    if (status >= 200) return undefined;
    if (minor === 0) return 'status';
    if (framing.chunked || framing.length >= 0 || framing.close) return 'framing_forbidden';
    if (status === 101) return 'unexpected_switch';
    return this.#informational >= this.limits.informational ? 'too_many_informational' : undefined;
  }
}
