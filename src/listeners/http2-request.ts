import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { IncomingRequest } from '../http/exchange.js';
import { LazyEmitter } from './lazy-emitter.js';

/**
 * A request that its client resets never looks complete here, although node ends its body cleanly after
 * NO_ERROR.
 */
export class Http2Request extends LazyEmitter implements IncomingRequest {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly httpVersion = '2.0';
  readonly rawHeaders: readonly string[];
  readonly socket: Socket;
  readonly stream: ServerHttp2Stream;
  readableEnded: boolean;
  #isFlowing = false;
  #isRead = false;
  #isEmpty = false;
  #hasEnded: boolean;
  #known: (() => void) | undefined;
  /** The first part of the body, received before a reader asked for it. */
  #first: Buffer | undefined;

  /** @param rawHeaders flat, pseudo-header fields included */
  constructor(
    socket: Socket,
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ) {
    super();
    this.socket = socket;
    this.stream = stream;
    this.method = headers[':method'];
    this.url = headers[':path'];
    this.rawHeaders = rawHeaders;
    this.readableEnded = stream.endAfterHeaders;
    this.#hasEnded = this.readableEnded;
    if (this.#hasEnded) return;
    stream.once('end', this.#onEnd).once('aborted', this.#onClose).once('close', this.#onClose);
  }

  /** @param patience milliseconds */
  whenKnown(known: () => void, patience: number): void {
    const { stream } = this;
    const timer = setTimeout(() => this.#tell(), patience);
    this.#known = () => {
      clearTimeout(timer);
      known();
    };
    this.#isRead = true;
    stream.on('data', this.#onData).resume();
  }

  #tell(): void {
    const known = this.#known;
    this.#known = undefined;
    if (!this.#hasEnded) this.stream.pause();
    known?.();
  }

  isPaused(): boolean {
    return !this.#isFlowing;
  }

  pause(): this {
    this.#isFlowing = false;
    this.stream.pause();
    return this;
  }

  resume(): this {
    this.#isFlowing = true;
    if (this.#hasEnded) return this;
    if (!this.#isRead) this.stream.on('data', this.#onData);
    this.#isRead = true;
    if (this.#first !== undefined) process.nextTick(this.#emitFirst);
    else if (this.#isEmpty) process.nextTick(this.#onEnd);
    else this.stream.resume();
    return this;
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#known !== undefined) {
      this.#first = chunk;
      this.#tell();
    } else if (!this.#hasEnded) this.emit('data', chunk);
  };

  readonly #emitFirst = (): void => {
    const first = this.#first;
    if (first === undefined || !this.#isFlowing || this.#hasEnded) return;
    this.#first = undefined;
    this.emit('data', first);
    if (this.#isFlowing) this.resume();
  };

  readonly #onEnd = (): void => {
    if (this.#hasEnded) return;
    // Node emits the end of an empty body at once, even while the stream is paused.
    if (!this.#isRead || this.#first !== undefined) {
      this.#isEmpty = true;
      return;
    }
    this.#hasEnded = true;
    this.readableEnded = true;
    if (this.#known === undefined) this.emit('end');
    else this.#tell();
  };

  readonly #onClose = (): void => {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#known === undefined) this.emit('close');
    else this.#tell();
  };
}
