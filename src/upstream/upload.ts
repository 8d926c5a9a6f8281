import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';

/** Whom an upload tells how it goes. */
export interface Uploading {
  /** The upstream begins to take the body. */
  uploadStarted(): void;
  /** The upstream took something of it, or it is whole. */
  uploadTaken(): void;
  /** The client paused longer than it may. */
  uploadIdle(): void;
  /** The client broke off in the middle of the body. */
  uploadBroken(): void;
}

/**
 * The body of a request on its way up, at the pace of the upstream.
 *
 * It stands between the two because undici destroys the body it was given when a request fails, and the
 * client's connection has to live on for the answer.
 */
export class Upload extends Readable {
  readonly #req: IncomingMessage;
  readonly #idle: NodeJS.Timeout;
  readonly #owner: Uploading;
  #started = false;

  /** @param idleTimeout milliseconds that the client may pause */
  constructor(req: IncomingMessage, owner: Uploading, idleTimeout: number) {
    super();
    this.#req = req;
    this.#owner = owner;
    this.#idle = setTimeout(this.#onIdle, idleTimeout);
    req.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', this.#onClose);
    req.pause();
  }

  /** Nothing of it was taken, so it can still be given to another connection. */
  get isUntouched(): boolean {
    return !this.#started && !this.destroyed;
  }

  /** More of it is to come, and the upstream would take it. */
  get isAwaited(): boolean {
    return !this.readableEnded && !this.isPaused();
  }

  override _read(): void {
    if (!this.#started) {
      this.#started = true;
      this.#owner.uploadStarted();
    }
    this.#owner.uploadTaken();
    if (!this.#req.isPaused()) return;
    this.#idle.refresh();
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

  /** Nothing came for long. While the upstream takes nothing, nothing is taken from the client, so that is not its pause. */
  readonly #onIdle = (): void => {
    if (this.#req.isPaused()) this.#idle.refresh();
    else this.#owner.uploadIdle();
  };

  readonly #onEnd = (): void => {
    clearTimeout(this.#idle);
    this.#owner.uploadTaken();
    this.push(null);
  };

  readonly #onClose = (): void => {
    if (!this.#req.readableEnded) this.#owner.uploadBroken();
  };
}
