import { REGISTERED_METHODS } from '../domain/methods.js';

/** Codes and classes of bytes in the grammar of RFC 9112. */
export const HTAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SP = 0x20;
export const QUOTE = 0x22;
const HASH = 0x23;
export const COMMA = 0x2c;
export const ZERO = 0x30;
export const NINE = 0x39;
export const COLON = 0x3a;
export const SEMICOLON = 0x3b;
export const EQUALS = 0x3d;
export const BACKSLASH = 0x5c;

export const DEL = 0x7f;

/** Returns a table with 1 at each byte of a class. */
function classOf(has: (code: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (has(code) ? 1 : 0));
}

const isVisible = (code: number) => code > SP && code < DEL;

/** `tchar` (RFC 9110 5.6.2): field names, connection options, chunk extensions. */
export const TOKEN = classOf(
  (code) => isVisible(code) && !'"(),/:;<=>?@[\\]{}'.includes(String.fromCharCode(code)),
);

/** Bytes of a field value or reason: `field-vchar` with obs-text, space and tab (RFC 9110 5.5). */
export const TEXT = classOf((code) => code === HTAB || (code >= SP && code !== DEL));

/** Bytes of a request target: visible ASCII without `#`. `domain/path` has the rules for paths. */
export const TARGET = classOf((code) => isVisible(code) && code !== HASH);

/** Bytes of a received request target; `domain/path` refuses `#`. */
export const TARGET_WITH_FRAGMENT = classOf(isVisible);

/** Bytes of a quoted string that need no backslash (RFC 9110 5.6.4), without obs-text. */
export const QUOTED = classOf(
  (code) => code === HTAB || code === SP || (isVisible(code) && code !== QUOTE && code !== BACKSLASH),
);

/** Values of hexadecimal digits; 255 for any other byte. */
export const HEX = Uint8Array.from({ length: 256 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(value) ? 255 : value;
});

/** Maps ASCII upper-case letters to lower case, and any other byte to itself. */
export const LOWER = Uint8Array.from({ length: 256 }, (_, code) =>
  code >= 0x41 && code <= 0x5a ? code | 0x20 : code,
);

/** A Buffer with its untyped method: `toString('latin1')` without the look-up of the encoding. */
export type Bytes = Buffer & { latin1Slice(start?: number, end?: number): string };

export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** @param word in lower case */
export function isWord(bytes: Uint8Array, start: number, end: number, word: Uint8Array): boolean {
  const { length } = word;
  if (end - start !== length) return false;
  for (let i = 0; i < length; i++) if (LOWER[bytes[start + i] as number] !== word[i]) return false;
  return true;
}

export const VERSION = 'HTTP/1.x';
export const MINOR = VERSION.indexOf('x');

/** Returns whether a table has every byte of a text. */
export function consistsOf(table: Uint8Array, bytes: Uint8Array): boolean {
  for (const byte of bytes) if (table[byte] !== 1) return false;
  return true;
}

/** Maximum length of a method, in bytes; registered ones have at most 17. */
export const MAX_METHOD_LENGTH = 32;

interface Method {
  readonly text: string;
  readonly bytes: Uint8Array;
}

const table: Method[][] = Array.from({ length: (MAX_METHOD_LENGTH + 1) * 32 }, () => []);
for (const text of REGISTERED_METHODS) {
  const bytes = bytesOf(text);
  (table[bytes.length * 32 + ((bytes[0] as number) & 31)] as Method[]).push({ text, bytes });
}

/** @param end at most {@link MAX_METHOD_LENGTH} after `start` */
export function findMethod(bytes: Uint8Array, start: number, end: number): string | undefined {
  const length = end - start;
  const cell = table[length * 32 + ((bytes[start] as number) & 31)] as Method[];
  for (const { text, bytes: own } of cell) {
    let i = 0;
    while (i < length && own[i] === bytes[start + i]) i++;
    if (i === length) return text;
  }
  return undefined;
}

export const EMPTY = Buffer.alloc(0) as Bytes;

/** The received but unread bytes of a connection, in one buffer. */
export abstract class UnreadBytes {
  /** Unread from `pos` to `end`. */
  protected bytes: Bytes = EMPTY;
  protected pos = 0;
  protected end = 0;
  /** Offset in the message of the first of `bytes`; in a head, `-base` is the index of its first byte. */
  protected base = 0;
  /** Index from which bytes are kept although they were read; -1 if none are. */
  protected keptFrom = -1;
  #isOwn = false;

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

  #copy(from: number, more: number): void {
    const length = this.end - from;
    // Double the capacity, so that a head in many pieces is copied only a few times.
    const copy = Buffer.allocUnsafe(2 * (length + more)) as Bytes;
    this.bytes.copy(copy, 0, from, this.end);
    this.#moveTo(copy, from, length);
    this.#isOwn = true;
  }

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
