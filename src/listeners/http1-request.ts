import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { firstField } from '../http/fields.js';
import type { IncomingRequest, ParsedRequest } from '../http/exchange.js';
import type { RequestParser } from '../http1/request-parser.js';

/** Reads on where a request stopped. */
export interface BodySource {
  readonly socket: Socket;
  read(): void;
}

/** A request of HTTP/1.1. */
export class Http1Request extends EventEmitter implements IncomingRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: '1.0' | '1.1';
  readonly rawHeaders: readonly string[];
  readableEnded = false;
  /** Whoever reads the body takes more of it. */
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

  isPaused(): boolean {
    return !this.isFlowing;
  }

  pause(): this {
    this.isFlowing = false;
    return this;
  }

  /** What is here already comes in a later turn. */
  resume(): this {
    if (this.isFlowing) return this;
    this.isFlowing = true;
    process.nextTick(readOn, this.#source);
    return this;
  }

  /** Reads the rest of the body for nobody, so that it does not stand in front of the next request. */
  dump(): void {
    this.removeAllListeners('data');
    this.resume();
  }
}

function readOn(source: BodySource): void {
  source.read();
}

/** Whether a request asks for the one protocol that is forwarded (RFC 6455 4.1: HTTP/1.1 at least). */
export function asksForWebSocket({ httpVersion, rawHeaders }: ParsedRequest): boolean {
  return httpVersion === '1.1' && firstField(rawHeaders, 'upgrade')?.toLowerCase() === 'websocket';
}
