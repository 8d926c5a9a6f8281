// src/net: sockets, the client of outgoing requests, values refreshed in the background.
// May import files and all below.
// `fetch-limited.ts` is the one outgoing HTTP client.

import { Buffer } from 'node:buffer';
import type { Socket } from 'node:net';

export interface ReadOption {
  readonly buffer: () => Uint8Array;
  readonly callback: (count: number, buffer: Uint8Array) => boolean;
}

const SIZE = 64 * 1024;
/** Size from which a read belongs to a bulk transfer, whose next read has a buffer of its own. */
const BULK = 32 * 1024;
/** Maximum number of bulk buffers in use. Transfers beyond it use the shared buffer. */
const MAX_BULK = 256;
/** Maximum number of unused bulk buffers that are kept for reuse. */
const MAX_SPARE = 16;

/** The buffer for small reads of all sockets: each read is handled before the next one. */
const shared = Buffer.allocUnsafeSlow(SIZE);
const spare: Buffer[] = [];
let inUse = 0;

/**
 * Reads a socket into reused buffers: node would allocate 64 KiB outside of V8's heap for each read. So bytes
 * are valid only during the call to `onBytes`, unless {@link keep} was called for them.
 */
export class SocketReader {
  onBytes: (bytes: Buffer) => void = () => undefined;
  /** The option of `net.Socket` that makes a socket use this reader. */
  readonly onread: ReadOption = {
    buffer: () => this.#next(),
    callback: (count, buffer) => this.#received(buffer as Buffer, count),
  };
  #bulk: Buffer | undefined;
  #count = 0;
  /** How often bytes of the last read were kept and not released. */
  #kept = 0;
  #stream: Socket | undefined;
  #isClosed = false;

  /** Returns the bytes in a form that lasts: themselves, or a copy. */
  keep(bytes: Buffer): Buffer {
    this.#kept += 1;
    return bytes.buffer === shared.buffer ? Buffer.from(bytes) : bytes;
  }

  /** Releases the bytes kept last, during the same call of `onBytes`: they may be overwritten. */
  release(): void {
    this.#kept -= 1;
  }

  /** From now on, what is read goes to the stream of the socket instead of `onBytes`. */
  pushTo(stream: Socket): void {
    this.#stream = stream;
    this.close();
  }

  /** Gives up the buffer of a bulk transfer for good. Called when the socket closes. */
  close(): void {
    this.#isClosed = true;
    if (this.#bulk !== undefined) inUse -= 1;
    this.#bulk = undefined;
  }

  #received(buffer: Buffer, count: number): boolean {
    this.#count = count;
    const bytes = buffer.subarray(0, count);
    if (this.#stream !== undefined) return this.#stream.push(this.keep(bytes));
    this.onBytes(bytes);
    return true;
  }

  #next(): Buffer {
    const unused = this.#kept === 0 ? this.#bulk : undefined;
    this.#kept = 0;
    if (this.#bulk !== undefined) inUse -= 1;
    this.#bulk = undefined;
    if (this.#count >= BULK && inUse < MAX_BULK && !this.#isClosed) {
      inUse += 1;
      this.#bulk = unused ?? spare.pop() ?? Buffer.allocUnsafeSlow(SIZE);
      return this.#bulk;
    }
    if (unused !== undefined && spare.length < MAX_SPARE) spare.push(unused);
    return shared;
  }
}

export function bulkBuffers(): number {
  return inUse;
}

/** Maximum sockets in a batch: the first waits until the requests of the others are read. */
const MAX_BATCH = 32;

/** Sockets corked until the end of this turn of the event loop. */
const corked: Socket[] = [];

/**
 * Corks a socket until all events of this turn are handled, so that its writes are sent in one piece,
 * together with those of other sockets: waking a process is most of the cost of a small request.
 */
export function batchWrites(socket: Socket): void {
  if (socket.writableCorked > 0) return;
  socket.cork();
  const size = corked.push(socket);
  if (size === 1) setImmediate(flush);
  else if (size === MAX_BATCH) flush();
}

/** Size from which holding a chunk back saves nothing, and would only keep its memory in use. */
const LARGE = 16 * 1024;

/**
 * Flushes a socket after the write of a large chunk.
 * @param takesMore result of the write
 * @returns whether the socket takes more now; if not, `drain` follows
 */
export function flushLarge(socket: Socket, size: number, takesMore: boolean): boolean {
  if (size < LARGE) return takesMore;
  flushWrites(socket);
  // Mostly the system took all of it during the call, which the result of the write does not show.
  return socket.writableLength < socket.writableHighWaterMark;
}

export function flushWrites(socket: Socket): void {
  while (socket.writableCorked > 0) socket.uncork();
}

function flush(): void {
  for (const socket of corked) socket.uncork();
  corked.length = 0;
}
