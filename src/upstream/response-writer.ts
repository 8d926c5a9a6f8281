import type { IncomingRequest, OutgoingResponse } from '../http/exchange.js';
import { lingeringEnd, limitRest } from '../http/write-reply.js';
import { grpcTrailers } from '../http/http2-fields.js';
import { refusalReply } from '../http/replies.js';
import type { Refusal } from '../domain/refusal.js';

/** Maximum bytes of a body that are sent as one string with the head, which needs no buffer. */
const MAX_JOINED = 8 * 1024;

export class ResponseWriter {
  readonly #req: IncomingRequest;
  readonly #res: OutgoingResponse;
  readonly #idleTimeout: number;
  #stalled: NodeJS.Timeout | undefined;
  #wrote = false;

  constructor(req: IncomingRequest, res: OutgoingResponse, idleTimeout: number) {
    this.#req = req;
    this.#res = res;
    this.#idleTimeout = idleTimeout;
  }

  get isStalled(): boolean {
    return this.#stalled !== undefined;
  }

  /** Writes a chunk; returns whether the client stalls with it, until {@link resume}. */
  write(chunk: Buffer): boolean {
    const res = this.#res;
    const joins = !this.#wrote && chunk.length <= MAX_JOINED && !res.chunkedEncoding;
    this.#wrote = true;
    if (joins ? res.write(chunk.toString('latin1'), 'latin1') : res.write(chunk)) return false;
    if (this.#stalled !== undefined) return false;
    this.#stalled = setTimeout(onStall, this.#idleTimeout, res);
    return true;
  }

  /** Sends the head if no chunk arrived with it, as in event streams and slow bodies. */
  flushHead(): void {
    if (!this.#wrote) this.#res.flushHeaders();
  }

  /** Ends a stall: the client has read the buffered data, or no longer needs to. */
  resume(): void {
    clearTimeout(this.#stalled);
    this.#stalled = undefined;
  }

  /** @param hasUpload whether the request has a body, which may be incomplete */
  end(hasUpload: boolean): void {
    const [req, res] = [this.#req, this.#res];
    const isUnread = hasUpload && !req.readableEnded;
    if (isUnread && res.shouldKeepAlive === false) {
      // If the connection were closed while the client sends, it would be reset, and the response might be
      // lost with it.
      res.flushHeaders();
      lingeringEnd(req, res);
    } else {
      if (isUnread) limitRest(req);
      res.end();
    }
    if (res.writableNeedDrain) destroyUnlessTaken(res, this.#idleTimeout);
  }
}

/** Aborts a response so that the client sees that it is incomplete; a gRPC client receives the reason. */
export function breakOff(res: OutgoingResponse, reason: Refusal): void {
  if (res.endGrpc?.(grpcTrailers(refusalReply(reason))) !== true) res.destroy();
}

/** Closes the connection if the client does not read a complete response in time. */
function destroyUnlessTaken(res: OutgoingResponse, timeout: number): void {
  const timer = setTimeout(onStall, timeout, res);
  res.once('close', () => clearTimeout(timer));
}

function onStall(res: OutgoingResponse): void {
  res.destroy();
}
