import type { Socket } from 'node:net';
import type { CorsHeaders } from '../domain/cors.js';
import type { Subject } from '../domain/credential.js';
import { guarded } from '../util/async.js';
import type { Permit, Use } from '../domain/limiter.js';
import type { Refusal } from '../domain/refusal.js';
import { type Holder, holderOf } from '../domain/shares.js';
import type { RequestHead } from '../http/head.js';
import { responseHead, UNFRAMED } from '../http1/write.js';
import type { RouteLimits } from '../policy/route.js';
import type { Address } from './address.js';
import { FrameBoundary, TRY_AGAIN_LATER } from './frame-boundary.js';
import { handshakeResponseFault, refusedResponse } from './handshake.js';
import { HandshakeExchange, type RefusedHandshake } from './handshake-exchange.js';
import { responseHeaders } from './response-headers.js';
import type { InFlight } from './forward-request.js';
import { RetryState } from './retry-state.js';
import { openTunnel } from './tunnel.js';
import { GAVE_WAY, QUEUE_FULL, refusalOf, UpstreamFault, WAITED_TOO_LONG } from './faults.js';
import type { Upstream } from './upstreams.js';

/** Maximum bytes that a client may send before its WebSocket is open. */
const MAX_EARLY = 64 * 1024;

const TOO_EARLY: Refusal = {
  refusal: 'malformed',
  detail: 'too many bytes after the WebSocket handshake, before its response',
};

/** An authorized WebSocket handshake to forward. */
interface UpgradeRequest {
  readonly head: RequestHead;
  /** The subject that the handshake was allowed for. */
  readonly subject: Subject | null;
  readonly socket: Socket;
  /** Bytes that the client sent after the handshake. */
  readonly headBytes: Buffer;
  readonly upstream: Upstream;
  /** The target for the upstream, without the address's path prefix. */
  readonly target: string;
  /** Limits of the route; null: those of the upstream. */
  readonly limits: RouteLimits | null;
  readonly fields: readonly string[];
  readonly responseFields: readonly string[];
  /** CORS fields that replace those of the upstream; null keeps the upstream's. */
  readonly cors: CorsHeaders | null;
  /**
   * Called at most once, before anything was sent to the client; it responds and ends the socket.
   */
  readonly refuse: (refusal: Refusal) => void;
  /** Called instead of it with a response of the upstream, after `done`; ends the socket too. */
  readonly pass: (response: Buffer) => void;
  /** Logs an unexpected error. */
  readonly fault: (error: unknown) => void;
  /** Called once: at the end of the handshake, or after `refuse`. */
  readonly done: (outcome: { readonly status: number | null }) => void;
}

/** Forwards WebSocket handshakes, and then the bytes of both sides. */
export type Upgrade = (request: UpgradeRequest) => InFlight;

/**
 * Creates the forwarder of handshakes.
 *
 * The upstream receives a request built from the authorized head, on a connection that is already
 * open. It receives none of the client's bytes before its 101. Any other response is passed on.
 */
export function createUpgrade({ ownCookies }: { readonly ownCookies: readonly string[] }): Upgrade {
  return (request) => {
    const handshake = new Handshake(request, ownCookies);
    handshake.start();
    return handshake;
  };
}

class Handshake implements Use, InFlight {
  readonly #request: UpgradeRequest;
  readonly #ownCookies: readonly string[];
  readonly #retries: RetryState;
  /** Held until the tunnel ends. */
  #permit: Permit | undefined;
  /** The connection to the upstream. */
  #opened: Socket | undefined;
  #isConnecting = false;
  /** Whether bytes of both sides are forwarded. */
  #isOpen = false;
  #limit: NodeJS.Timeout | undefined;
  #hasEnded = false;
  /** What the upstream sent to the client. */
  readonly #sent = new FrameBoundary();
  /** What the client sent before its WebSocket is open. */
  #early: Buffer;

  constructor(request: UpgradeRequest, ownCookies: readonly string[]) {
    this.#request = request;
    this.#ownCookies = ownCookies;
    this.#retries = new RetryState(request.upstream);
    this.#early = request.headBytes;
  }

  start(): void {
    const { socket, upstream } = this.#request;
    if (socket.destroyed) {
      this.#finish(null);
      return;
    }
    this.#permit = upstream.limiter.acquire(this);
    if (this.#permit === undefined) {
      this.#finish(null, QUEUE_FULL);
      return;
    }
    if (this.#hasEnded) return;
    socket.once(
      'close',
      this.#guarded(() => this.#closed()),
    );
    // A client that ends its side before the response no longer waits for it. Only reading shows it.
    socket.once('end', destroyThis).on('data', this.#onEarly);
    if (this.#permit.isHeld) this.go();
  }

  go(): void {
    this.#guarded(() => this.#connect(this.#retries.begin()))();
  }

  get holder(): Holder {
    const { head, subject } = this.#request;
    return holderOf(head.client.address, subject);
  }

  /** Closes an open WebSocket: with a close frame, unless another frame is incomplete. */
  leave(why: 'waited' | 'yielded'): void {
    this.#guarded(() => {
      this.#finish(null, why === 'waited' ? WAITED_TOO_LONG : GAVE_WAY);
      if (!this.#isOpen) return;
      const { socket } = this.#request;
      if (this.#sent.isReached) socket.write(TRY_AGAIN_LATER);
      this.#leave();
      socket.destroy();
    })();
  }

  /** Refuses the handshake, if it has not ended. */
  abort(reason: Refusal): void {
    this.#guarded(() => this.#finish(null, reason))();
  }

  /** Called when the client's connection closed; the tunnel closes an open one to the upstream. */
  #closed(): void {
    this.#finish(null);
    if (!this.#isOpen) this.#leave();
  }

  readonly #onEarly = (bytes: Buffer): void => {
    this.#early = Buffer.concat([this.#early, bytes]);
    if (this.#early.length > MAX_EARLY) this.#guarded(() => this.#finish(null, TOO_EARLY))();
  };

  /** Releases its resources; a pending connection attempt keeps its permit until it completes. */
  #leave(): void {
    this.#opened?.destroy();
    if (this.#isConnecting) return;
    this.#retries.end();
    this.#permit?.release();
  }

  /**
   * Connects to an address.
   *
   * Nothing is sent before the connection is open, so a failed attempt goes on to the next address.
   */
  #connect(address: Address): void {
    this.#isConnecting = true;
    address.connect(
      this.#guarded((opened: Socket | Error) => {
        this.#isConnecting = false;
        if (this.#hasEnded) {
          if (!(opened instanceof Error)) opened.destroy();
          this.#leave();
        } else if (opened instanceof Error) this.#failed(opened);
        else this.#send(address, opened);
      }),
    );
  }

  #failed(error: Error): void {
    if (this.#hasEnded) return;
    const { sent } = this.#retries;
    const next = this.#retries.nextAddress(error, { bodyUnsent: true, idempotent: false });
    if (next !== undefined) this.#connect(next);
    else this.#finish(null, refusalOf(error, sent));
  }

  /**
   * Ends the handshake.
   *
   * @param refusal of a failed handshake, whose upstream connection is closed
   */
  #finish(status: number | null, refusal?: Refusal): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#limit);
    this.#request.socket.off('data', this.#onEarly);
    if (refusal !== undefined) {
      this.#leave();
      this.#request.refuse(refusal);
    }
    this.#request.done({ status });
  }

  /** Wraps a listener so that its errors end only this handshake. */
  #guarded<Args extends unknown[]>(listener: (...args: Args) => void): (...args: Args) => void {
    return guarded(listener, (...[error]: [unknown, ...Args]) => this.#broke(error));
  }

  #broke(error: unknown): void {
    const { socket, fault } = this.#request;
    fault(error);
    this.#leave();
    if (this.#hasEnded) socket.destroy();
    else
      guarded(
        () => this.#finish(null, { refusal: 'fault' }),
        () => socket.destroy(),
      )();
  }

  #send(address: Address, opened: Socket): void {
    const { head, upstream, target, limits, fields } = this.#request;
    this.#opened = opened;
    this.#retries.sent = true;
    const { responseTimeout, noResponse } = upstream.waitsOf(limits);
    const exchange = new HandshakeExchange(opened, upstream.settings.max_response_head, {
      switched: this.#guarded((received: readonly string[], rest: Buffer) => this.#switched(received, rest)),
      refused: this.#guarded((response: RefusedHandshake) => this.#refused(response)),
      failed: this.#guarded((error: Error) => this.#failed(error)),
    });
    this.#limit = setTimeout(
      () => exchange.fail(new UpstreamFault('UND_ERR_HEADERS_TIMEOUT', noResponse)),
      responseTimeout,
    );
    exchange.send({ target: address.prefix + target, host: upstream.hostFor(head) ?? address.host }, fields);
  }

  #switched(received: readonly string[], rest: Buffer): void {
    if (this.#hasEnded) return;
    this.#retries.answered();
    const { head, socket, upstream, limits } = this.#request;
    const opened = this.#opened as Socket;
    const fault = handshakeResponseFault(received, head.fields);
    if (fault !== undefined) {
      const detail = `The upstream did not open the WebSocket: ${fault} (101)`;
      this.#finish(101, { refusal: 'upstream_broken', detail });
      return;
    }
    const fields = ['Connection', 'Upgrade', 'Upgrade', 'websocket', ...this.#fieldsOf(101, received)];
    const answer = responseHead(101, 'Switching Protocols', fields, UNFRAMED);
    this.#finish(101);
    socket.off('end', destroyThis);
    opened.once('close', () => this.#leave());
    this.#isOpen = true;
    socket.write(answer, 'latin1');
    if (rest.length > 0) socket.write(rest);
    if (this.#early.length > 0) opened.write(this.#early);
    openTunnel(socket, opened, upstream.waitsOf(limits).idleTimeout);
    this.#sent.take(rest);
    opened.on('data', (bytes: Buffer) => this.#sent.take(bytes));
  }

  /** Passes a response on that does not open the WebSocket. */
  #refused(response: RefusedHandshake): void {
    if (this.#hasEnded) return;
    this.#retries.answered();
    const { status } = response;
    const bytes = refusedResponse(response, this.#fieldsOf(status, response.fields));
    this.#finish(status);
    this.#leave();
    this.#request.pass(bytes);
  }

  #fieldsOf(status: number, received: readonly string[]): string[] {
    const { responseFields, cors } = this.#request;
    return responseHeaders(status, received, responseFields, this.#ownCookies, false, cors);
  }
}

function destroyThis(this: Socket): void {
  this.destroy();
}
