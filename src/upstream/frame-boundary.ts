/** A close frame with the status 1013, "try again later" (RFC 6455 5.5.1). */
export const TRY_AGAIN_LATER = Buffer.from([0x88, 2, 1013 >> 8, 1013 & 0xff]);

/** Follows a server's frames (RFC 6455 5.2), to tell where a close frame may be inserted. */
export class FrameBoundary {
  /** Bytes read of a head that is incomplete. */
  #read = 0;
  /** Bytes of its extended length. */
  #lengthBytes = 0;
  #left = 0;

  get isReached(): boolean {
    return this.#read === 0 && this.#left === 0;
  }

  take(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#read === 0 && this.#left > 0) {
        const part = Math.min(this.#left, bytes.length - at);
        this.#left -= part;
        at += part;
      } else this.#takeHead(bytes[at++] as number);
    }
  }

  #takeHead(byte: number): void {
    this.#read += 1;
    if (this.#read === 2) {
      const length = byte & 0x7f;
      this.#lengthBytes = length === 127 ? 8 : length === 126 ? 2 : 0;
      this.#left = this.#lengthBytes === 0 ? length : 0;
    } else if (this.#read > 2) this.#left = this.#left * 256 + byte;
    if (this.#read === 2 + this.#lengthBytes) this.#read = 0;
  }
}
