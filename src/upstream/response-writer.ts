import type { IncomingRequest, OutgoingResponse } from '../http/exchange.js';
import { lingeringEnd, limitRest } from '../http/write-reply.js';
import { grpcTrailers } from '../http/grpc.js';
import { refusalReply } from '../http/replies.js';
import type { Refusal } from '../domain/refusal.js';

/** Bytes of a body that are sent together with the head; the system call for a string takes 16 KiB without memory of its own. */
const MAX_JOINED = 8 * 1024;

/** Writes the body of an upstream's answer to the client. */
export class ResponseWriter {
  readonly #req: IncomingRequest;
  readonly #res: OutgoingResponse;
  readonly #idleTimeout: number;
  #stalled: NodeJS.Timeout | undefined;
  #wrote = false;

  /** @param idleTimeout milliseconds in which the client must take what waits for it */
  constructor(req: IncomingRequest, res: OutgoingResponse, idleTimeout: number) {
    this.#req = req;
    this.#res = res;
    this.#idleTimeout = idleTimeout;
  }

  /** Whether the client has to take what waits for it. */
  get isStalled(): boolean {
    return this.#stalled !== undefined;
  }

  /** Returns whether the client stalls with this chunk. */
  write(chunk: Buffer): boolean {
    const res = this.#res;
    const joins = !this.#wrote && chunk.length <= MAX_JOINED && !res.chunkedEncoding;
    this.#wrote = true;
    // As a string it goes out in one piece with its head.
    if (joins ? res.write(chunk.toString('latin1'), 'latin1') : res.write(chunk)) return false;
    if (this.#stalled !== undefined) return false;
    this.#stalled = awaitDrain(res, this.#idleTimeout);
    return true;
  }

  /** Sends the head if no chunk came along with it: event streams and slow bodies. */
  flushHead(): void {
    if (!this.#wrote) this.#res.flushHeaders();
  }

  /** The client took what waited for it, or need not any more. */
  resume(): void {
    clearTimeout(this.#stalled);
    this.#stalled = undefined;
  }

  /** @param hasUpload whether the request has a body, of which a part may still come */
  end(hasUpload: boolean): void {
    const [req, res] = [this.#req, this.#res];
    const isUnread = hasUpload && !req.readableEnded;
    if (isUnread && res.shouldKeepAlive === false) {
      // Closed while the client still sends, its connection would be reset, and the answer might be lost with it.
      res.flushHeaders();
      lingeringEnd(req, res);
    } else {
      if (isUnread) limitRest(req);
      res.end();
    }
    if (res.writableNeedDrain) destroyUnlessTaken(res, this.#idleTimeout);
  }
}

/** Ends an answer that began so that its client sees that it is not whole; a client of gRPC is told why. */
export function breakOff(res: OutgoingResponse, reason: Refusal): void {
  if (res.endGrpc?.(grpcTrailers(refusalReply(reason))) !== true) res.destroy();
}

/** Receives what happens on the client's side of an answer. */
export interface Following {
  /** It took what waited for it. */
  drained(): void;
  clientClosed(): void;
}

/** Where an answer's follower is found by the listeners below, of which all answers share one each. */
const FOLLOWER = Symbol('follower');
type Followed = OutgoingResponse & { [FOLLOWER]?: Following | undefined };

/** Sends events of the client from now on, until {@link unfollow}. */
export function follow(res: OutgoingResponse, follower: Following): void {
  (res as Followed)[FOLLOWER] = follower;
  res.on('close', onClose);
}

/** An idle connection keeps its last answer, and that would keep everything of its request. */
export function unfollow(res: OutgoingResponse): void {
  res.off('close', onClose);
  (res as Followed)[FOLLOWER] = undefined;
}

/**
 * Calls `drained` when the client took what waits for it.
 *
 * @param timeout milliseconds in which it must, or its connection ends
 * @returns the timer, to be cleared when it is over
 */
function awaitDrain(res: OutgoingResponse, timeout: number): NodeJS.Timeout {
  res.once('drain', onDrain);
  return setTimeout(onStall, timeout, res);
}

/** Ends the connection of a whole answer when a part of it waits for its client for longer than that, in milliseconds. */
function destroyUnlessTaken(res: OutgoingResponse, timeout: number): void {
  const timer = setTimeout(onStall, timeout, res);
  res.once('close', () => clearTimeout(timer));
}

function onClose(this: Followed): void {
  this[FOLLOWER]?.clientClosed();
}

function onDrain(this: Followed): void {
  this[FOLLOWER]?.drained();
}

function onStall(res: OutgoingResponse): void {
  res.destroy();
}
