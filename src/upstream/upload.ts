import type { Refusal } from '../domain/refusal.js';
import type { IncomingRequest } from '../http/exchange.js';

export const TOO_LARGE: Refusal = {
  refusal: 'body_too_large',
  detail: 'the body is longer than max_body of the route',
};

export interface Uploading {
  /** Whether a response is in progress, so that the client may be silent. */
  readonly isAnswering: boolean;
  uploadStarted(): void;
  /** Called when the upstream has accepted part of the body, or the body is complete. */
  uploadTaken(): void;
  uploadIdle(): void;
  /**
   * Called when the client left in the middle of the body, or the rest is malformed or too large.
   * @param refusal the response, if there is one
   */
  uploadBroken(refusal?: Refusal): void;
}

export interface BodySink {
  /** Whether nothing written so far is still in memory. */
  readonly isFlushed?: boolean;
  /** Writes a chunk; if it returns false, {@link Upload.drained} follows when there is room. */
  write(chunk: Buffer): boolean;
  end(): void;
}

/** Streams a request body with backpressure. Until {@link start} nothing is read, and it can go elsewhere. */
export class Upload {
  readonly #req: IncomingRequest;
  readonly #idle: NodeJS.Timeout;
  readonly #owner: Uploading;
  #sink: BodySink | undefined;
  /** Chunks that a previous sink received in vain; the next one receives them first. */
  #takenBack: readonly Buffer[] = [];
  #isBlocked = false;
  #isWhole = false;
  #isDestroyed = false;
  #left: number;

  /** @param idleTimeout milliseconds that the client may pause */
  constructor(req: IncomingRequest, owner: Uploading, idleTimeout: number, limit = Infinity) {
    this.#left = limit;
    this.#req = req;
    this.#owner = owner;
    this.#idle = setTimeout(this.#onIdle, idleTimeout);
    req.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', this.#onClose);
    req.on('malformed', this.#onMalformed);
    req.pause();
  }

  /** Whether none of the body was consumed, so that it can go to another connection. */
  get isUntouched(): boolean {
    return this.#sink === undefined && !this.#isDestroyed;
  }

  /** Whether the body is incomplete and the upstream is ready for more. */
  get isAwaited(): boolean {
    return !this.#isWhole && !this.#isDestroyed && !this.#isBlocked;
  }

  start(sink: BodySink): void {
    this.#sink = sink;
    this.#owner.uploadStarted();
    for (const chunk of this.#takenBack) sink.write(chunk);
    this.#takenBack = [];
    // An empty body may end before it is read.
    if (this.#isWhole) sink.end();
    else this.#goOn();
  }

  /** @param chunks everything that its sink received, none of which the upstream processed */
  takeBack(chunks: readonly Buffer[]): void {
    if (this.#isDestroyed) return;
    this.#req.pause();
    this.#sink = undefined;
    this.#isBlocked = false;
    this.#takenBack = chunks;
  }

  drained(): void {
    if (!this.#isBlocked) return;
    this.#isBlocked = false;
    this.#goOn();
  }

  destroy(): void {
    this.#isDestroyed = true;
    clearTimeout(this.#idle);
    const req = this.#req;
    req
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onClose)
      .off('error', this.#onClose)
      .off('malformed', this.#onMalformed);
    req.on('error', () => undefined);
    // The rest is read and dropped; it must not block the next request.
    req.resume();
  }

  #goOn(): void {
    if (this.#isDestroyed) return;
    this.#owner.uploadTaken();
    this.#idle.refresh();
    this.#req.resume();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#idle.refresh();
    this.#left -= chunk.length;
    if (this.#left < 0) {
      this.#owner.uploadBroken(TOO_LARGE);
      return;
    }
    const sink = this.#sink;
    // The rest would look like a whole body to an upstream that receives it in chunks.
    if (sink === undefined) throw new Error('a part of a body arrived before it was requested');
    const takesMore = sink.write(chunk);
    if (sink.isFlushed === true) this.#req.release?.();
    if (takesMore) {
      this.#owner.uploadTaken();
      return;
    }
    this.#isBlocked = true;
    this.#req.pause();
  };

  /** Handles a pause. While backpressure pauses the client, the pause is not the client's. */
  readonly #onIdle = (): void => {
    if (this.#req.isPaused() || this.#owner.isAnswering) this.#idle.refresh();
    else this.#owner.uploadIdle();
  };

  readonly #onEnd = (): void => {
    this.#isWhole = true;
    clearTimeout(this.#idle);
    this.#owner.uploadTaken();
    this.#sink?.end();
  };

  readonly #onMalformed = (refusal: Refusal): void => this.#owner.uploadBroken(refusal);

  readonly #onClose = (): void => {
    if (!this.#req.readableEnded) this.#owner.uploadBroken();
  };
}
