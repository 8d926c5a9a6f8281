/** Returns a number with its noun, which is plural unless the number is 1: `2 records`. */
export function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** A character that is invisible or moves others, so that a name could look like another one. */
export const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** The form of an access token, real or not, with the letters and digits that follow. */
const TOKEN = /lk[0-9A-Za-z]{38,}/g;
const TOKEN_LENGTH = 40;

/**
 * Masks the access tokens that people send where they do not belong. The length stays, so no cut shows a part
 * of one.
 */
export function maskTokens(text: string): string {
  return text.includes('lk') ? text.replace(TOKEN, (token) => `lk${'*'.repeat(token.length - 2)}`) : text;
}

/** Returns the start of a text, masked, including a token that the cut would split. */
export function maskedStart(text: string, length: number): string {
  return maskTokens(text.length <= length ? text : text.slice(0, length + TOKEN_LENGTH)).slice(0, length);
}

/** Maximum difference in length after one edit, in UTF-16 code units: non-BMP characters take two. */
const MAX_DIFFERENCE = 2;

/**
 * Whether two texts differ by one insertion, deletion or replacement, or two swapped neighbours. Linear in
 * time.
 */
export function isOneEdit(one: string, other: string): boolean {
  if (Math.abs(one.length - other.length) > MAX_DIFFERENCE) return false;
  const [a, b] = [Array.from(one), Array.from(other)];
  const [short, long] = a.length <= b.length ? [a, b] : [b, a];
  if (long.length - short.length > 1) return false;
  let same = 0;
  while (same < short.length && short[same] === long[same]) same += 1;
  const [x, y] = [short.slice(same), long.slice(same)];
  if (y.length === 0) return false;
  if (x.length < y.length) return isSame(x, y.slice(1));
  if (isSame(x.slice(1), y.slice(1))) return true;
  return x[0] === y[1] && x[1] === y[0] && isSame(x.slice(2), y.slice(2));
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((character, i) => character === b[i]);
}

/** Copies a string that outlives its request: V8 keeps the whole head alive for a substring of it. */
export function ownCopy(text: string): string {
  return Buffer.from(text).toString();
}

/** Escapes characters that clients choose and that are invisible or misleading in a log or on a terminal. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

export function quoted(text: string): string {
  return printable(maskedStart(text, 200));
}

/** Escapes like {@link printable}, but keeps line feeds. Indented JSON stays valid. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

const UNPRINTABLE = new RegExp(`${INVISIBLE.source}+`, 'gu');
/** Escapes of the roughly two thousand code units of characters that match. */
const ESCAPES = new Map<number, string>();

function escaped(characters: string): string {
  let shown = '';
  for (let i = 0; i < characters.length; i++) shown += escapeOf(characters.charCodeAt(i));
  return shown;
}

function escapeOf(code: number): string {
  let escape = ESCAPES.get(code);
  if (escape === undefined) {
    escape = `\\u${code.toString(16).padStart(4, '0')}`;
    ESCAPES.set(code, escape);
  }
  return escape;
}
