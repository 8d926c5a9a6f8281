import type { Bytes } from './bytes.js';

/** Longer ones are not kept. */
const MAX_KEPT = 4 * 1024;

/**
 * The bytes of the last head behind its first line. The same bytes again are the same fields, because a head ends with
 * the first empty line: what they say is what the parser still has.
 */
export class FieldsMemo {
  #bytes: Buffer | undefined;
  #length = 0;

  keep(bytes: Bytes, start: number, end: number): void {
    const length = end - start;
    this.#length = 0;
    if (length > MAX_KEPT) return;
    if (this.#bytes === undefined || this.#bytes.length < length) this.#bytes = Buffer.allocUnsafe(length);
    bytes.copy(this.#bytes, 0, start, end);
    this.#length = length;
  }

  /** The index behind the same fields; 0 when others begin at `start`, or not all of them are there. */
  find(bytes: Bytes, start: number, end: number): number {
    const length = this.#length;
    const behind = start + length;
    if (length === 0 || end < behind) return 0;
    return bytes.compare(this.#bytes as Buffer, 0, length, start, behind) === 0 ? behind : 0;
  }
}
