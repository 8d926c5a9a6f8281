import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { IncomingRequest } from '../http/exchange.js';
import { LazyEmitter } from './lazy-emitter.js';

/**
 * An HTTP/2 request.
 *
 * A request that its client resets never looks complete here, although node ends the body cleanly
 * when the reset has the code NO_ERROR.
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
  /** Whether the body ended before it was read. */
  #isEmpty = false;
  #hasEnded: boolean;

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
    if (this.#isEmpty) process.nextTick(this.#onEnd);
    else this.stream.resume();
    return this;
  }

  readonly #onData = (chunk: Buffer): void => {
    if (!this.#hasEnded) this.emit('data', chunk);
  };

  readonly #onEnd = (): void => {
    if (this.#hasEnded) return;
    // Node emits the end of an empty body at once, even while the stream is paused.
    if (!this.#isRead) {
      this.#isEmpty = true;
      return;
    }
    this.#hasEnded = true;
    this.readableEnded = true;
    this.emit('end');
  };

  readonly #onClose = (): void => {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.emit('close');
  };
}
