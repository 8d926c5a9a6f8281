import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';

export interface RawOptions {
  /** What is written first: text goes out as latin1. */
  readonly bytes?: string | Buffer;
  /** false: nothing is read before `socket.resume()`. */
  readonly reads?: boolean;
  /** Takes what comes, which is then not kept. */
  readonly onData?: (chunk: Buffer) => void;
  /** Our side stays open when the other one ends. */
  readonly halfOpen?: boolean;
  /** Changes how TLS is spoken: without a look at the certificate, and for HTTP/1.1. */
  readonly tls?: ConnectionOptions;
}

export interface RawClient {
  /** To end, reset, pause or watch it. */
  readonly socket: Socket;
  /** The other side ended, or the connection broke or is closed. */
  readonly ended: boolean;
  /** What broke it. */
  readonly error: Error | undefined;
  /** Both sides are closed. */
  readonly closed: Promise<unknown>;
  /** Writes text as latin1. Whether there is room for more. */
  readonly write: (bytes: string | Uint8Array) => boolean;
  /** What came so far. */
  readonly bytes: () => Buffer;
  /** What came so far, as latin1. */
  readonly text: () => string;
}

/** @param to a base URL, where `https:` means TLS, or a port of loopback */
export function openRaw(to: string | number, options?: RawOptions): RawClient;
export function accepts(port: number): Promise<boolean>;
