import type { IncomingRequest } from '../http/exchange.js';

/** Whom an upload tells how it goes. */
export interface Uploading {
  /** The answer began and goes on, so that the client may be silent. */
  readonly isAnswering: boolean;
  /** The upstream begins to take the body. */
  uploadStarted(): void;
  /** The upstream took something of it, or it is whole. */
  uploadTaken(): void;
  /** The client paused longer than it may. */
  uploadIdle(): void;
  /** The client broke off in the middle of the body. */
  uploadBroken(): void;
}

/** Where a body goes. */
export interface BodySink {
  /** Returns whether it takes more now; if not, {@link Upload.drained} is called once it does. */
  write(chunk: Buffer): boolean;
  /** The body is whole. */
  end(): void;
}

/**
 * The body of a request on its way up, at the pace of the upstream. Nothing of it is read before {@link start}, so that until
 * then it can be given to another connection.
 */
export class Upload {
  readonly #req: IncomingRequest;
  readonly #idle: NodeJS.Timeout;
  readonly #owner: Uploading;
  #sink: BodySink | undefined;
  /** What a sink was given in vain: the next one gets it first. */
  #takenBack: readonly Buffer[] = [];
  #isBlocked = false;
  /** The client sent all of it. */
  #isWhole = false;
  #isDestroyed = false;

  /** @param idleTimeout milliseconds that the client may pause */
  constructor(req: IncomingRequest, owner: Uploading, idleTimeout: number) {
    this.#req = req;
    this.#owner = owner;
    this.#idle = setTimeout(this.#onIdle, idleTimeout);
    req.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose).on('error', this.#onClose);
    req.pause();
  }

  /** Nothing of it was taken, so it can still be given to another connection. */
  get isUntouched(): boolean {
    return this.#sink === undefined && !this.#isDestroyed;
  }

  /** More of it is to come, and the upstream would take it. */
  get isAwaited(): boolean {
    return !this.#isWhole && !this.#isDestroyed && !this.#isBlocked;
  }

  /** The upstream takes it from now on. */
  start(sink: BodySink): void {
    this.#sink = sink;
    this.#owner.uploadStarted();
    for (const chunk of this.#takenBack) sink.write(chunk);
    this.#takenBack = [];
    // An empty one may end before it is read.
    if (this.#isWhole) sink.end();
    else this.#goOn();
  }

  /** Makes it untouched again. @param chunks all that its sink was given, of which the upstream took nothing */
  takeBack(chunks: readonly Buffer[]): void {
    if (this.#isDestroyed) return;
    this.#req.pause();
    this.#sink = undefined;
    this.#isBlocked = false;
    this.#takenBack = chunks;
  }

  /** The upstream takes more. */
  drained(): void {
    if (!this.#isBlocked) return;
    this.#isBlocked = false;
    this.#goOn();
  }

  /** Gives up what was not taken yet. */
  destroy(): void {
    this.#isDestroyed = true;
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
  }

  #goOn(): void {
    if (this.#isDestroyed) return;
    this.#owner.uploadTaken();
    this.#idle.refresh();
    this.#req.resume();
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#idle.refresh();
    if (this.#sink?.write(chunk) === true) {
      this.#owner.uploadTaken();
      return;
    }
    this.#isBlocked = true;
    this.#req.pause();
  };

  /** Nothing came for long. While the upstream takes nothing, nothing is taken from the client, so that is not its pause. */
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

  readonly #onClose = (): void => {
    if (!this.#req.readableEnded) this.#owner.uploadBroken();
  };
}
