import { isHost } from '../domain/host.js';
import { firstField } from '../http/fields.js';
import { TARGET, TARGET_WITH_FRAGMENT } from './bytes.js';
import { type Event, HEAD, NEED_DATA } from './events.js';
import type { Fault } from './faults.js';
import { REFUSED } from './line-scanner.js';
import { Framing } from './framing.js';
import type { MessageLimits } from './limits.js';
import { MessageParser } from './message-parser.js';
import { MAX_AROUND_TARGET, RequestLine } from './request-line.js';
import { START_LINE } from './states.js';
import { targetFault } from './target-form.js';

/** Parses the requests of a client connection, in order. */
export class RequestParser extends MessageParser {
  method = '';
  /** The target byte for byte. */
  target = '';
  host: string | undefined;
  /** Whether the client asks to upgrade after this request (RFC 9110 7.8); never in HTTP/1.0. */
  upgrade = false;

  readonly #line: RequestLine;
  readonly #checksHead: boolean;
  #checkedHost: string | undefined;

  /**
   * @param checksHead false if the consumer of the heads validates Host, the target, and the
   *   coding against the version
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
    if (next === REFUSED) this.refuse(line.fault as Fault, line.faultAt);
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
    // After CONNECT comes a tunnel or nothing.
    this.persistent = persists && !framing.close && this.method !== 'CONNECT';
    this.beginBody(this.chunked, Math.max(0, this.length));
    return HEAD;
  }
}
