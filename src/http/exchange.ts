import type { PeerSocket } from './client-address.js';

/** A request as the parser of its connection gives it. */
export interface ParsedRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly httpVersion: string;
  /** Name, value, name, value; bytes beyond ASCII as Latin-1. */
  readonly rawHeaders: readonly string[];
  readonly socket: PeerSocket;
  /** The stream of HTTP/2, which alone says that it is; and whether nothing comes behind the head. */
  readonly stream?: { readonly endAfterHeaders: boolean };
}

/**
 * A request of any version whose body comes as events: `data`, `end`, and `close` when its connection is gone. Nothing comes
 * before {@link resume}.
 */
export interface IncomingRequest extends ParsedRequest {
  readonly socket: PeerSocket & { destroy(): unknown };
  /** All of the body was read; in HTTP/1.1 a request without a body is so from the beginning. */
  readonly readableEnded: boolean;
  isPaused(): boolean;
  pause(): unknown;
  resume(): unknown;
  on(event: 'data', listener: (chunk: Buffer) => void): this;
  on(event: 'end' | 'close' | 'error', listener: () => void): this;
  once(event: 'end', listener: () => void): this;
  off(event: 'data', listener: (chunk: Buffer) => void): this;
  off(event: 'end' | 'close' | 'error', listener: () => void): this;
}

/** The answer to a request of any version. */
export interface OutgoingResponse {
  /** {@link writeHead} was called. */
  readonly headersSent: boolean;
  /** Its client does not get any more of it. */
  readonly destroyed: boolean;
  /** More waits for the client than is written at once; `drain` follows. Over TLS something always waits for a moment. */
  readonly writableNeedDrain: boolean;
  /** Trailers may follow its body. */
  readonly chunkedEncoding: boolean;
  /** Whether its connection takes another request; HTTP/2 has no such property. */
  shouldKeepAlive?: boolean;
  /**
   * @param fields flat
   * @param isWhole the answer ends with its head, which HTTP/2 can say
   * @throws Error for what can't be sent; nothing is sent then
   */
  writeHead(status: number, reason: string, fields: readonly string[], isWhole?: boolean): unknown;
  /** Returns whether the client takes more; if not, `drain` follows. */
  write(chunk: Buffer | string, encoding?: 'latin1' | 'utf8'): boolean;
  end(chunk?: Buffer | string): unknown;
  /** Sends the head without waiting for a body. */
  flushHeaders(): void;
  writeContinue(): void;
  /**
   * Ends an answer of gRPC that began, with these trailers. Only HTTP/2 has this.
   *
   * @returns false when it is none, or can't have trailers any more
   */
  endGrpc?(trailers: readonly (readonly [string, string])[]): boolean;
  /** @param trailers pairs */
  addTrailers(trailers: readonly (readonly [string, string])[]): void;
  /** Breaks it off. */
  destroy(): unknown;
  /** `close`: it was taken whole, or its client is gone. */
  on(event: 'close' | 'drain', listener: () => void): this;
  once(event: 'close' | 'drain', listener: () => void): this;
  off(event: 'close' | 'drain', listener: () => void): this;
}

export type Serve = (req: IncomingRequest, res: OutgoingResponse) => void;
