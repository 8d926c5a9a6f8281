import type { IncomingRequest, OutgoingResponse } from '../http/exchange.js';
import { lingeringEnd, limitRest } from '../http/write-reply.js';
import { awaitDrain, destroyUnlessTaken } from './client-side.js';

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
