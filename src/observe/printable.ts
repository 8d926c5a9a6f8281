import { INVISIBLE } from '../domain/invisible.js';

/**
 * Escapes the characters that are invisible or misleading in a log or on a terminal.
 *
 * Clients choose names and other values. Control characters, line separators, invisible characters
 * and those that reverse the text direction are escaped.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
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
