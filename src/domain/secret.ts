import { createHash, hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { customAlphabet } from 'nanoid';

/** In the order of their bytes. */
export const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PREFIX = 'lk';
const RANDOM_LENGTH = 32;
const CHECK_LENGTH = 6;

const ACCESS_TOKEN_LENGTH = PREFIX.length + RANDOM_LENGTH + CHECK_LENGTH;

const randomBase62 = customAlphabet(BASE62, RANDOM_LENGTH);

/** Generates a record id: 22 base62 characters, about 131 bits, so that ids never collide. */
export const newId: () => string = customAlphabet(BASE62, 22);

/**
 * Generates an access token with 190 bits of randomness and a checksum. It is shown once and never stored.
 */
export function newAccessToken(): string {
  const body = PREFIX + randomBase62();
  return body + checksum(body);
}

/** Whether a value has the form and checksum of an access token; others need no look-up. */
export function isAccessToken(value: string): boolean {
  if (value.length !== ACCESS_TOKEN_LENGTH || !value.startsWith(PREFIX)) return false;
  const split = ACCESS_TOKEN_LENGTH - CHECK_LENGTH;
  let rest = crc32(value.slice(0, split));
  for (let i = ACCESS_TOKEN_LENGTH - 1; i >= split; i--) {
    if (value.charCodeAt(i) !== BASE62.charCodeAt(rest % 62)) return false;
    rest = Math.floor(rest / 62);
  }
  return true;
}

/** The form of an access token, regardless of its checksum. */
const TOKEN_FORM = /^lk[0-9A-Za-z]{38}$/;

/** Whether a value has the form of an access token, so that no other system can use it. */
export function hasTokenForm(value: string): boolean {
  return TOKEN_FORM.test(value);
}

/** Whether a value has the form of an access token but a wrong checksum; it is no credential of any kind. */
export function isMadeUp(value: string): boolean {
  return hasTokenForm(value) && !isAccessToken(value);
}

export function newSessionId(): string {
  return randomBytes(32).toString('base64url');
}

export const SESSION_ID_LENGTH = 43;

/** Returns the digest under which a secret is stored. A plain hash is enough for long random secrets. */
export function digestOf(secret: string): string {
  return hash('sha256', secret, 'base64url');
}

/** Returns the digest of a secret in a header field, whose Latin-1 characters stand for UTF-8 bytes. */
export function digestOfField(value: string): string {
  return hash('sha256', Buffer.from(value, 'latin1'), 'base64url');
}

/** Converts a SHA-256 in hexadecimal, as in a directory file, into a {@link digestOf} digest. */
export function digestFromHex(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64url');
}

/** Returns the id of a record that is derived from words and not declared. */
export function derivedId(...words: string[]): string {
  const bytes = createHash('sha256').update(JSON.stringify(words)).digest();
  let id = '';
  for (let i = 0; i < 22; i++) id += BASE62[(bytes[i] ?? 0) % 62];
  return id;
}

function checksum(body: string): string {
  let rest = crc32(body);
  let text = '';
  for (let i = 0; i < CHECK_LENGTH; i++) {
    text = BASE62[rest % 62] + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}
