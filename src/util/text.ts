// src/util: what knows nothing of Latchkey: addresses, text, JSON, times, queues.
// May import nothing.
// Every other folder may import it.

/** Returns a number with its noun, which is plural unless the number is 1: `2 records`. */
export function counted(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

/** A character that is invisible or moves others, so that a name could look like another one. */
export const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** The form of an access token, real or not, with the letters and digits that follow. */
const TOKEN = /lk[0-9A-Za-z]{38,}/g;
const TOKEN_LENGTH = 40;

/** Masks access tokens where they do not belong; the length stays, so no cut shows a part of one. */
export function maskTokens(text: string): string {
  return text.includes('lk') ? text.replace(TOKEN, (token) => `lk${'*'.repeat(token.length - 2)}`) : text;
}

/** Returns the start of a text, masked, including a token that the cut would split. */
export function maskedStart(text: string, length: number): string {
  return maskTokens(text.length <= length ? text : text.slice(0, length + TOKEN_LENGTH)).slice(0, length);
}

/** Returns how many insertions, deletions, replacements and swaps of neighbours make one text another. */
export function editDistance(one: string, other: string): number {
  const [a, b] = [Array.from(one), Array.from(other)];
  let [before, row]: number[][] = [[], Array.from({ length: b.length + 1 }, (_, i) => i)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(row, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? at(before, j - 2) + 1 : Infinity;
      next.push(Math.min(replaced, swapped, at(row, j) + 1, at(next, j - 1) + 1));
    }
    [before, row] = [row, next];
  }
  return at(row, b.length);
}

function at(row: readonly number[] | undefined, i: number): number {
  return row?.[i] ?? Infinity;
}

/** Whether two texts differ by exactly one edit, in time that the shorter one bounds. */
export function isOneEdit(one: string, other: string): boolean {
  // In UTF-16 code units: other characters take two.
  return Math.abs(one.length - other.length) <= 2 && editDistance(one, other) === 1;
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

function escaped(characters: string): string {
  let shown = '';
  for (let i = 0; i < characters.length; i++)
    shown += `\\u${characters.charCodeAt(i).toString(16).padStart(4, '0')}`;
  return shown;
}
