import type { Socket } from 'node:net';
import { batchWrites } from '../http/write-batch.js';
import { CHUNK_END, CHUNKED, chunkStart, lastChunk, type Length } from '../http1/write.js';
import type { BodySink } from './upload.js';

/**
 * Writes the body of one request behind its head.
 *
 * What completes a body of a known length waits for the end of the client's: an upstream must not take for whole what the
 * client goes on with, or takes back.
 */
export class RequestBodyWriter implements BodySink {
  /** All of it was written. */
  isComplete = false;
  readonly #socket: Socket;
  readonly #fail: (error: Error) => void;
  readonly #isChunked: boolean;
  #left: number;
  #last: Buffer | undefined;

  /** @param fail called when the body is not as long as the head says */
  constructor(socket: Socket, length: Length, fail: (error: Error) => void) {
    this.#socket = socket;
    this.#fail = fail;
    this.#isChunked = length === CHUNKED;
    this.#left = length;
  }

  write(chunk: Buffer): boolean {
    const socket = this.#socket;
    if (chunk.length === 0) return true;
    batchWrites(socket);
    if (!this.#isChunked) {
      this.#left -= chunk.length;
      if (this.#left > 0) return socket.write(chunk);
      if (this.#left === 0) this.#last = chunk;
      else this.#fail(new Error('the body is longer than its Content-Length'));
      return true;
    }
    socket.write(chunkStart(chunk.length), 'latin1');
    socket.write(chunk);
    return socket.write(CHUNK_END, 'latin1');
  }

  end(): void {
    batchWrites(this.#socket);
    if (this.#last !== undefined) this.#socket.write(this.#last);
    else if (this.#isChunked) this.#socket.write(lastChunk(), 'latin1');
    else {
      this.#fail(new Error('the body is shorter than its Content-Length'));
      return;
    }
    this.isComplete = true;
  }
}
