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

export const EMPTY = Buffer.alloc(0) as Bytes;
