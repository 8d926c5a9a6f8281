/**
 * Text that shows as what it is, in a log and on a terminal. Clients choose names and other values, so control characters,
 * line separators, invisible ones and those that turn the direction of text around are shown as escapes.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, escapeOf);
}

const UNPRINTABLE = /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;
/** Of the hundred characters that match. */
const ESCAPES = new Map<string, string>();

function escapeOf(character: string): string {
  let escape = ESCAPES.get(character);
  if (escape === undefined) {
    escape = `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
    ESCAPES.set(character, escape);
  }
  return escape;
}
