import type { Bytes } from './bytes.js';

/** Maximum number of bytes to remember. */
const MAX_KEPT = 4 * 1024;

/**
 * Remembers the field section of the last head.
 *
 * A head ends with the first empty line. So equal bytes mean equal fields, and
 * the parser still has those.
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

  /** Erases the remembered fields, which may hold a secret. */
  clear(): void {
    this.#bytes?.fill(0);
    this.#bytes = undefined;
    this.#length = 0;
  }

  /**
   * Returns the index after the remembered fields; 0 if other fields follow, or some are missing.
   */
  find(bytes: Bytes, start: number, end: number): number {
    const length = this.#length;
    const next = start + length;
    if (length === 0 || end < next) return 0;
    return bytes.compare(this.#bytes as Buffer, 0, length, start, next) === 0 ? next : 0;
  }
}
