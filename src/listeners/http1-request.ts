import type { Socket } from 'node:net';
import { firstField } from '../http/fields.js';
import type { IncomingRequest, ParsedRequest } from '../http/exchange.js';
import type { RequestParser } from '../http1/request-parser.js';
import { LazyEmitter } from './lazy-emitter.js';

export interface BodySource {
  readonly socket: Socket;
  read(): void;
  release(): void;
}

export class Http1Request extends LazyEmitter implements IncomingRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: '1.0' | '1.1';
  readonly rawHeaders: readonly string[];
  readableEnded = false;
  /** Whether the reader of the body accepts more data. */
  isFlowing = false;
  readonly #source: BodySource;

  constructor(source: BodySource, { method, target, minor, fields }: RequestParser) {
    super();
    this.#source = source;
    this.method = method;
    this.url = target;
    this.httpVersion = minor === 1 ? '1.1' : '1.0';
    this.rawHeaders = fields;
  }

  get socket(): Socket {
    return this.#source.socket;
  }

  release(): void {
    this.#source.release();
  }

  isPaused(): boolean {
    return !this.isFlowing;
  }

  pause(): this {
    this.isFlowing = false;
    return this;
  }

  /** Data already received is emitted in a later turn. */
  resume(): this {
    if (this.isFlowing) return this;
    this.isFlowing = true;
    process.nextTick(readOn, this.#source);
    return this;
  }

  /** Reads and discards the rest of the body, so that it does not block the next request. */
  dump(): void {
    this.removeAllListeners('data');
    this.resume();
  }
}

function readOn(source: BodySource): void {
  source.read();
}

/** A WebSocket, the only protocol that is forwarded, needs at least HTTP/1.1 (RFC 6455 4.1). */
export function asksForWebSocket({ httpVersion, rawHeaders }: ParsedRequest): boolean {
  return httpVersion === '1.1' && firstField(rawHeaders, 'upgrade')?.toLowerCase() === 'websocket';
}
