import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';

export interface RawOptions {
  /** Written first; text is sent as Latin-1. */
  readonly bytes?: string | Buffer;
  /** If false, nothing is read before `socket.resume()`. */
  readonly reads?: boolean;
  /** Receives the data, which is then not kept. */
  readonly onData?: (chunk: Buffer) => void;
  /** Our side stays open when the other one ends. */
  readonly halfOpen?: boolean;
  /** The address to connect from. */
  readonly localAddress?: string;
  /**
   * Changes the TLS options; by default, certificates are not verified and ALPN offers HTTP/1.1.
   */
  readonly tls?: ConnectionOptions;
}

export interface RawClient {
  /** To end, reset, pause or watch the connection. */
  readonly socket: Socket;
  /** Whether the peer ended its side, or the connection failed or is closed. */
  readonly ended: boolean;
  /** The error of the connection, if any. */
  readonly error: Error | undefined;
  /** Resolves when both sides are closed. */
  readonly closed: Promise<unknown>;
  /** Writes text as Latin-1. Returns whether there is room for more. */
  readonly write: (bytes: string | Uint8Array) => boolean;
  /** Returns the bytes received so far. */
  readonly bytes: () => Buffer;
  /** Returns the bytes received so far, as Latin-1. */
  readonly text: () => string;
}

/** @param to a base URL, where `https:` means TLS, or a port of loopback */
export function openRaw(to: string | number, options?: RawOptions): RawClient;
export function accepts(port: number): Promise<boolean>;
