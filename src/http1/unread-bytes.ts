import type { Bytes } from './bytes.js';

export const EMPTY = Buffer.alloc(0) as Bytes;

/** What came on a connection and was not read yet, in one piece. */
export abstract class UnreadBytes {
  /** Unread from `pos` to `end`. */
  protected bytes: Bytes = EMPTY;
  protected pos = 0;
  protected end = 0;
  /** Offset in the message of the first of `bytes`; in a head, `-base` is the index of its first byte. */
  protected base = 0;
  /** Index from which bytes must stay together although they were read; -1 for none. */
  protected keptFrom = -1;
  /** `bytes` are a copy of our own, with room behind `end`. */
  #isOwn = false;

  /** Bytes that wait to be read. */
  get unread(): number {
    return this.end - this.pos;
  }

  /** Takes what came on the connection. The bytes must not change until they are read. */
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
      // Twice the room, so that a head in many pieces is copied a few times only.
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

  /** Keeps no chunk for a connection that waits. */
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
