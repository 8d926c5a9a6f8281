/**
 * Matches the form of an access token (`secret.ts`), whether or not it is a real one. Letters
 * and digits that directly follow are included.
 */
const TOKEN = /lk[0-9A-Za-z]{38,}/g;
const TOKEN_LENGTH = 40;

/**
 * Masks each access token in a text, because people send tokens in paths, names and fields where
 * they do not belong. The length is preserved, so that no part of a masked text contains part of a
 * token.
 */
export function maskTokens(text: string): string {
  return text.includes('lk') ? text.replace(TOKEN, (token) => `lk${'*'.repeat(token.length - 2)}`) : text;
}

/** Returns the start of a text, masked, including a token that the cut would split. */
export function maskedStart(text: string, length: number): string {
  return maskTokens(text.length <= length ? text : text.slice(0, length + TOKEN_LENGTH)).slice(0, length);
}
