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

  /** Adds received bytes. The chunk must not change until it is read. */
  feed(chunk: Buffer): void {
    const keep = this.keptFrom < 0 ? this.pos : this.keptFrom;
    const rest = this.end - keep;
    if (rest === 0) {
      this.bytes = chunk as Bytes;
      this.end = chunk.length;
      this.#isOwn = false;
    } else if (keep === 0 && this.#isOwn && this.bytes.length - this.end >= chunk.length) {
      chunk.copy(this.bytes, this.end);
      this.end += chunk.length;
      return;
    } else {
      // Double the capacity, so that a head in many pieces is copied only a few times.
      const joined = Buffer.allocUnsafe(2 * (rest + chunk.length)) as Bytes;
      this.bytes.copy(joined, 0, keep, this.end);
      chunk.copy(joined, rest);
      this.bytes = joined;
      this.end = rest + chunk.length;
      this.#isOwn = true;
    }
    this.base += keep;
    this.pos -= keep;
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
