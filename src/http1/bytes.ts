/** Codes and classes of bytes that the grammar of RFC 9112 is made of. */
export const HTAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SP = 0x20;
export const QUOTE = 0x22;
const HASH = 0x23;
export const COMMA = 0x2c;
export const SLASH = 0x2f;
export const ZERO = 0x30;
export const NINE = 0x39;
export const COLON = 0x3a;
export const SEMICOLON = 0x3b;
export const EQUALS = 0x3d;
export const BACKSLASH = 0x5c;

export const DEL = 0x7f;

/** A table with 1 at each byte of a class. */
function classOf(has: (code: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (has(code) ? 1 : 0));
}

const isVisible = (code: number) => code > SP && code < DEL;

/** `tchar` (RFC 9110 5.6.2): field names, connection options, chunk extensions. */
export const TOKEN = classOf(
  (code) => isVisible(code) && !'"(),/:;<=>?@[\\]{}'.includes(String.fromCharCode(code)),
);

/** A field value or a reason: `field-vchar` with obs-text, space and tab (RFC 9110 5.5). */
export const TEXT = classOf((code) => code === HTAB || (code >= SP && code !== DEL));

/** A request target: visible ASCII without `#`. The rules of paths are those of `http/target`. */
export const TARGET = classOf((code) => isVisible(code) && code !== HASH);

/** A request target, with `#`. */
export const TARGET_WITH_FRAGMENT = classOf(isVisible);

/** A method: upper-case letters and `-`. */
export const METHOD = classOf((code) => (code >= 0x41 && code <= 0x5a) || code === 0x2d);

/** Inside of a quoted string, without what needs a backslash (RFC 9110 5.6.4) and without obs-text. */
export const QUOTED = classOf(
  (code) => code === HTAB || code === SP || (isVisible(code) && code !== QUOTE && code !== BACKSLASH),
);

/** The value of a hexadecimal digit; 255 for any other byte. */
export const HEX = Uint8Array.from({ length: 256 }, (_, code) => {
  const value = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(value) ? 255 : value;
});

/** Bytes with upper-case letters of ASCII made lower-case. */
export const LOWER = Uint8Array.from({ length: 256 }, (_, code) =>
  code >= 0x41 && code <= 0x5a ? code | 0x20 : code,
);

/** What every Buffer has and its types lack: `toString('latin1')` without looking for the encoding first. */
export type Bytes = Buffer & { latin1Slice(start?: number, end?: number): string };

/** The bytes of a Latin-1 text. */
export function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** Whether bytes are a word, whatever the case of their letters. @param word in lower case */
export function isWord(bytes: Uint8Array, start: number, end: number, word: Uint8Array): boolean {
  const { length } = word;
  if (end - start !== length) return false;
  for (let i = 0; i < length; i++) if (LOWER[bytes[start + i] as number] !== word[i]) return false;
  return true;
}

/** The version in a first line; `x` stands for the digit of the minor version. */
export const VERSION = 'HTTP/1.x';
export const MINOR = VERSION.indexOf('x');
