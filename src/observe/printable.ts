/**
 * Text that shows as what it is, in a log and on a terminal. Clients choose names and other values, so control characters,
 * line separators, invisible ones and those that turn the direction of text around are shown as escapes.
 */
export function printable(text: string): string {
  return text.replace(
    /[\p{Cc}\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
