import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { guarded } from '../util/async.js';
import type { Permit, Use } from '../domain/limiter.js';
import { malformed, type Refusal } from '../domain/refusal.js';
import { type Holder, holderOf } from '../domain/shares.js';
import { acceptedCarrier } from '../http/authorization.js';
import type { Address } from './address.js';
import { peerOf } from './connect.js';
import { handshakeResponseFault, malformedHead, refusedResponse } from './handshake.js';
import { responseHeaders } from './response.js';
import type { ForwardOutcome, ForwardRequest, InFlight } from './forward.js';
import { RetryState } from './upstreams.js';
import { loadProxy, readRefused, type RefusedHandshake, requestTunnel, type Upgraded } from './tunnel.js';
import {
  GAVE_WAY,
  InvalidUpstreamResponse,
  QUEUE_FULL,
  refusalOf,
  UpstreamFault,
  WAITED_TOO_LONG,
} from './faults.js';

/** Maximum bytes that a client may send before its WebSocket is open. */
const MAX_EARLY = 64 * 1024;

const TOO_EARLY = malformed('too many bytes after the WebSocket handshake, before its response');

interface UpgradeRequest extends Pick<
  ForwardRequest,
  'head' | 'subject' | 'upstream' | 'target' | 'limits' | 'responseFields' | 'cors'
> {
  readonly socket: Socket;
  readonly headBytes: Buffer;
  readonly fields: readonly string[];
  /** Called at most once, before anything was sent to the client; ends the socket. */
  readonly refuse: (refusal: Refusal) => void;
  /** Called instead of it with a response of the upstream, after `done`; ends the socket too. */
  readonly pass: (response: Buffer) => void;
  readonly fault: (error: unknown) => void;
  readonly done: (outcome: Pick<ForwardOutcome, 'status' | 'upstreamAddress'>) => void;
}

export type Upgrade = (request: UpgradeRequest) => InFlight;

/**
 * The upstream receives a request built from the authorized head, and none of the client's bytes before its
 * 101.
 */
export function createUpgrade(ownCookies: readonly string[]): Upgrade {
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
  #permit: Permit | undefined;
  #opened: Socket | undefined;
  #isConnecting = false;
  #isOpen = false;
  #limit: NodeJS.Timeout | undefined;
  #hasEnded = false;
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
    loadProxy().then(
      this.#guarded(() => {
        if (!this.#hasEnded) this.#connect(this.#retries.begin());
      }),
      (error: unknown) => this.#broke(error),
    );
  }

  get holder(): Holder {
    const { head, subject } = this.#request;
    return holderOf(head.client.address, subject);
  }

  leave(why: 'waited' | 'yielded'): void {
    this.#guarded(() => {
      this.#finish(null, why === 'waited' ? WAITED_TOO_LONG : GAVE_WAY);
      if (!this.#isOpen) return;
      this.#leave();
      this.#request.socket.destroy();
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

  /** Nothing is sent before the connection is open, so a failed attempt goes on to the next address. */
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
    const next = this.#retries.nextAddress(error, true, false);
    if (next !== undefined) this.#connect(next);
    else this.#finish(null, refusalOf(error, sent));
  }

  #finish(status: number | null, refusal?: Refusal): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    clearTimeout(this.#limit);
    this.#request.socket.off('data', this.#onEarly);
    if (refusal !== undefined) {
      this.#leave();
      this.#request.refuse(refusal);
    }
    this.#request.done({ status, upstreamAddress: this.#retries.peer });
  }

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
    const { head, socket, upstream, target, limits, fields } = this.#request;
    this.#opened = opened;
    this.#retries.begun(peerOf(opened));
    const { responseTimeout, idleTimeout, noResponse } = upstream.waitsOf(limits);
    let late = () => this.#failed(new UpstreamFault(noResponse, 'UND_ERR_HEADERS_TIMEOUT'));
    this.#limit = setTimeout(
      this.#guarded(() => late()),
      responseTimeout,
    );
    const { request, open } = requestTunnel({
      socket,
      opened,
      idleTimeout,
      path: address.prefix + target,
      fields: ['Host', upstream.hostFor(head) ?? address.host, ...fields],
      failed: this.#guarded((error: Error) => this.#failed(error)),
    });
    request.on(
      'upgrade',
      this.#guarded((...upgraded: Upgraded) => {
        const [answer] = upgraded;
        if (this.#isMalformed(answer) || !this.#isOpened(answer)) return;
        const carrier = acceptedCarrier(this.#request.head.fields, answer.rawHeaders);
        const answered = [...this.#fieldsOf(101, answer.rawHeaders), ...carrier];
        this.#finish(101);
        socket.off('end', destroyThis);
        opened.once('close', () => this.#leave());
        this.#isOpen = true;
        open(upgraded, answered, this.#early);
      }),
    );
    request.on(
      'response',
      this.#guarded((answer: IncomingMessage) => {
        // Without the fields of an upgrade, Node.js emits a 101 here.
        if (this.#isMalformed(answer) || (answer.statusCode === 101 && !this.#isOpened(answer))) return;
        late = readRefused(
          answer,
          this.#guarded((refused: RefusedHandshake) => this.#refused(refused)),
        );
      }),
    );
  }

  #isMalformed(answer: IncomingMessage): boolean {
    if (this.#hasEnded) return true;
    const malformed = malformedHead(answer);
    if (malformed !== undefined)
      this.#failed(new InvalidUpstreamResponse(`malformed response: ${malformed}`));
    return malformed !== undefined;
  }

  /** Whether a 101 opens the WebSocket; otherwise the handshake ends. */
  #isOpened(answer: IncomingMessage): boolean {
    this.#retries.answered();
    const fault = handshakeResponseFault(answer.rawHeaders, this.#request.head.fields);
    if (fault === undefined) return true;
    const detail = `The upstream did not open the WebSocket: ${fault} (101)`;
    this.#finish(101, { refusal: 'upstream_broken', detail });
    return false;
  }

  #refused(response: RefusedHandshake): void {
    if (this.#hasEnded) return;
    const { status } = response;
    let bytes: Buffer;
    try {
      bytes = refusedResponse(response, this.#fieldsOf(status, response.fields));
    } catch (error) {
      if (!(error instanceof InvalidUpstreamResponse)) throw error;
      this.#failed(error);
      return;
    }
    this.#retries.answered();
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
