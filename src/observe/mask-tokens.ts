/** What has the form of an access token (`domain/secret`), and what stands right behind it; in this form whether it is one or not. */
const TOKEN = /lk[0-9A-Za-z]{38,}/g;
const TOKEN_LENGTH = 40;

/**
 * A text with each access token in it made unreadable: people send them in paths, names and fields where none belongs. The
 * length stays, so that a part of a masked text holds no part of a token.
 */
export function maskTokens(text: string): string {
  return text.includes('lk') ? text.replace(TOKEN, (token) => `lk${'*'.repeat(token.length - 2)}`) : text;
}

/** The beginning of a text, masked; also of a token that the end would cut in two. */
export function maskedStart(text: string, length: number): string {
  return maskTokens(text.length <= length ? text : text.slice(0, length + TOKEN_LENGTH)).slice(0, length);
}
