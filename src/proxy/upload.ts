import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

/**
 * The body of a request on its way up, at the pace of the upstream.
 *
 * It stands between the two because undici destroys the body it was given when a request fails, and the
 * client's connection has to live on for the answer.
 */
export class Upload extends Readable {
  readonly #req: IncomingMessage;
  readonly #idle: NodeJS.Timeout;
  readonly #onStart: () => void;
  #started = false;

  /**
   * @param onStart called once, when the upstream begins to take the body
   * @param idleTimeout milliseconds that the client may pause
   * @param onIdle called when it paused longer
   */
  constructor(req: IncomingMessage, onStart: () => void, idleTimeout: number, onIdle: () => void) {
    super();
    this.#req = req;
    this.#onStart = onStart;
    this.#idle = setTimeout(onIdle, idleTimeout);
    req.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', this.#onClose);
    req.pause();
  }

  /** Nothing of it was taken, so it can still be given to another connection. */
  get isUntouched(): boolean {
    return !this.#started && !this.destroyed;
  }

  override _read(): void {
    if (!this.#started) {
      this.#started = true;
      this.#onStart();
    }
    this.#req.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    clearTimeout(this.#idle);
    const req = this.#req;
    req
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onClose)
      .off('error', this.#onClose);
    req.on('error', () => undefined);
    // What still comes is dropped; it must not stay in front of the next request.
    req.resume();
    callback(error);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#idle.refresh();
    if (!this.push(chunk)) this.#req.pause();
  };

  readonly #onEnd = (): void => {
    clearTimeout(this.#idle);
    this.push(null);
  };

  readonly #onClose = (): void => {
    if (!this.#req.readableEnded)
      this.destroy(new Error('the client closed the connection in the middle of the body'));
  };
}
