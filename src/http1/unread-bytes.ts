import type { Bytes } from './bytes.js';

export const EMPTY = Buffer.alloc(0) as Bytes;

/** The received but unread bytes of a connection, in one buffer. */
export abstract class UnreadBytes {
  /** Unread from `pos` to `end`. */
  protected bytes: Bytes = EMPTY;
  protected pos = 0;
  protected end = 0;
  /**
   * Offset in the message of the first of `bytes`; in a head, `-base` is the
   * index of its first byte.
   */
  protected base = 0;
  /** Index from which bytes are kept although they were read; -1 if none are. */
  protected keptFrom = -1;
  /** Whether `bytes` is this parser's own copy, with free space after `end`. */
  #isOwn = false;

  /** Number of unread bytes. */
  get unread(): number {
    return this.end - this.pos;
  }

  /** Adds received bytes. The chunk must not change until it is read, or {@link own} was called. */
  feed(chunk: Buffer): void {
    const from = this.#firstNeeded;
    if (from === this.end) {
      this.#moveTo(chunk as Bytes, from, chunk.length);
      this.#isOwn = false;
      return;
    }
    // A received chunk has no free space.
    if (this.bytes.length - this.end < chunk.length) this.#copy(from, chunk.length);
    chunk.copy(this.bytes, this.end);
    this.end += chunk.length;
  }

  /** Copies the bytes that are still needed, so that the chunk they are in may be overwritten. */
  own(): void {
    const from = this.#firstNeeded;
    if (!this.#isOwn && from < this.end) this.#copy(from, 0);
  }

  /** Gives up the bytes that were read: those still needed move to another buffer. */
  protected dropRead(): void {
    const from = this.#firstNeeded;
    if (from === this.end) this.release();
    else if (from > 0) this.#copy(from, 0);
  }

  /** Index of the first byte that was not read or is kept. */
  get #firstNeeded(): number {
    return this.keptFrom < 0 ? this.pos : this.keptFrom;
  }

  /** Copies the bytes from an index on to a buffer with space for at least as many more. */
  #copy(from: number, more: number): void {
    const length = this.end - from;
    // Double the capacity, so that a head in many pieces is copied only a few times.
    const copy = Buffer.allocUnsafe(2 * (length + more)) as Bytes;
    this.bytes.copy(copy, 0, from, this.end);
    this.#moveTo(copy, from, length);
    this.#isOwn = true;
  }

  /** Continues in a buffer whose first byte is the one at `from` now. */
  #moveTo(bytes: Bytes, from: number, end: number): void {
    this.bytes = bytes;
    this.end = end;
    this.base += from;
    this.pos -= from;
    if (this.keptFrom >= 0) this.keptFrom = 0;
  }

  /** Drops a chunk that was read completely, so that idle connections hold no memory. */
  protected release(): void {
    if (this.keptFrom >= 0 || this.pos < this.end) return;
    this.base += this.pos;
    this.drop();
  }

  /** Offset of `pos` in the message. */
  protected get offset(): number {
    return this.base + this.pos;
  }

  protected drop(): void {
    this.bytes = EMPTY;
    this.pos = 0;
    this.end = 0;
    this.keptFrom = -1;
  }
}
