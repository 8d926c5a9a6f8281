import type { Socket } from 'node:net';
import { batchWrites, flushLarge } from '../net/write-batch.js';
import { CHUNK_END, CHUNKED, chunkStart, lastChunk, type Length } from '../http1/write.js';
import type { BodySink } from './upload.js';

/**
 * Writes the body of one request after its head. The last chunk of a body of known length waits for the end
 * of the client's body: the upstream must not accept a body as complete that the client continues or aborts.
 */
export class RequestBodyWriter implements BodySink {
  /** Whether the head was sent, and perhaps a part of the body. */
  hasBegun = false;
  /** What was written while nothing was sent, for {@link takeBack}. */
  #unsent: Buffer[] = [];
  readonly #socket: Socket;
  readonly #fail: (error: Error) => void;
  readonly #isChunked: boolean;
  #isComplete = false;
  #left: number;
  #last: Buffer | undefined;

  constructor(socket: Socket, length: Length, fail: (error: Error) => void) {
    this.#socket = socket;
    this.#fail = fail;
    this.#isChunked = length === CHUNKED;
    this.#left = length;
  }

  /** Whether the whole request was handed to the system. A batch may still hold its end back. */
  get isSent(): boolean {
    return this.#isComplete && this.#socket.writableLength === 0;
  }

  get isFlushed(): boolean {
    return this.#socket.writableLength === 0 && this.#last === undefined;
  }

  write(chunk: Buffer): boolean {
    const socket = this.#socket;
    if (chunk.length === 0) return true;
    this.#noteSent();
    if (!this.hasBegun) this.#unsent.push(chunk);
    if (!this.#isChunked) {
      this.#left -= chunk.length;
      if (this.#left === 0) this.#last = chunk;
      else if (this.#left < 0) this.#fail(new Error('the body is longer than its Content-Length'));
      if (this.#left <= 0) return true;
    }
    batchWrites(socket);
    if (this.#isChunked) socket.write(chunkStart(chunk.length), 'latin1');
    const takesMore = socket.write(chunk);
    if (this.#isChunked) socket.write(CHUNK_END, 'latin1');
    const goesOn = flushLarge(socket, chunk.length, takesMore);
    this.#noteSent();
    return goesOn;
  }

  /** Returns everything that was written. Only if nothing was sent. */
  takeBack(): readonly Buffer[] {
    return this.#unsent;
  }

  end(): void {
    this.#noteSent();
    batchWrites(this.#socket);
    if (this.#last !== undefined) this.#socket.write(this.#last);
    else if (this.#isChunked) this.#socket.write(lastChunk(), 'latin1');
    else {
      this.#fail(new Error('the body is shorter than its Content-Length'));
      return;
    }
    this.#isComplete = true;
  }

  /** The head is held back, if at all, until its socket is first uncorked. */
  #noteSent(): void {
    if (this.hasBegun || this.#socket.writableCorked > 0) return;
    this.hasBegun = true;
    this.#unsent = [];
  }
}
