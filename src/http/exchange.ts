import type { Refusal } from '../domain/refusal.js';
import type { PeerSocket } from './client-address.js';

export interface ParsedRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  /** Flat list of names and values; bytes beyond ASCII are Latin-1. */
  readonly rawHeaders: readonly string[];
  readonly socket: PeerSocket;
  /** The stream, present in HTTP/2 only. */
  readonly stream?: object;
  /** Whether the whole body was read; true from the start for a request without a body. */
  readonly readableEnded?: boolean;
}

/**
 * A request of any HTTP version, whose body arrives as `data`, `end`, and `close` when the connection is
 * lost, none before {@link resume}. A listener of `malformed`, instead of the rest of a malformed body,
 * responds.
 */
export interface IncomingRequest extends ParsedRequest {
  readonly socket: PeerSocket & { destroy(): unknown };
  readonly readableEnded: boolean;
  /** Releases the data emitted last, during the same event: it may be overwritten. */
  release?(): void;
  isPaused(): boolean;
  pause(): unknown;
  resume(): unknown;
  on(event: 'data', listener: (chunk: Buffer) => void): this;
  on(event: 'end' | 'close' | 'error', listener: () => void): this;
  on(event: 'malformed', listener: (refusal: Refusal) => void): this;
  once(event: 'end', listener: () => void): this;
  off(event: 'data', listener: (chunk: Buffer) => void): this;
  off(event: 'end' | 'close' | 'error', listener: () => void): this;
  off(event: 'malformed', listener: (refusal: Refusal) => void): this;
}

export interface ResponseFollower {
  drained(): void;
  /** Called when the response was sent completely, or the client disconnected. */
  clientClosed(): void;
}

/** The response to a request of any HTTP version. */
export interface OutgoingResponse {
  /** Who forwards the response. Reset when done, because an idle connection retains its last response. */
  follower: ResponseFollower | undefined;
  readonly headersSent: boolean;
  /** Whether the client can receive no more of it. */
  readonly destroyed: boolean;
  /** Whether to wait for `drain` before writing more. Over TLS, data is always buffered briefly. */
  readonly writableNeedDrain: boolean;
  /** Whether nothing written so far is still in memory. */
  readonly isFlushed?: boolean;
  /** Bytes of the body that were written so far. */
  readonly bytesSent: number;
  /** Whether trailers may follow the body. */
  readonly chunkedEncoding: boolean;
  /** Whether the connection is kept for another request; HTTP/2 has no such property. */
  shouldKeepAlive?: boolean;
  /**
   * @param isWhole whether the response ends with its head, which HTTP/2 can signal
   * @throws Error for a name or value that cannot be sent; nothing is sent then
   */
  writeHead(status: number, reason: string, fields: readonly string[], isWhole?: boolean): unknown;
  /** Writes part of the body; returns false when the caller should wait for `drain`. */
  write(chunk: Buffer | string, encoding?: 'latin1' | 'utf8'): boolean;
  end(chunk?: Buffer | string): unknown;
  flushHeaders(): void;
  writeContinue(): void;
  /**
   * Ends a gRPC response in progress with these trailers. HTTP/2 only.
   * @returns false when it is not a gRPC response, or can no longer have trailers
   */
  endGrpc?(trailers: readonly (readonly [string, string])[]): boolean;
  /** @throws Error for a name or value that cannot be sent */
  addTrailers(trailers: readonly (readonly [string, string])[]): void;
  destroy(): unknown;
  on(event: 'close' | 'drain', listener: () => void): this;
  once(event: 'close' | 'drain', listener: () => void): this;
  off(event: 'close' | 'drain', listener: () => void): this;
}

export type Serve = (req: IncomingRequest, res: OutgoingResponse) => void;
