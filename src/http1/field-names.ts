import { asPropertyName } from '../http/fields.js';
import { HOP_BY_HOP } from '../http/protected-fields.js';
import { type Bytes, bytesOf, isWord, LOWER } from './bytes.js';

/** The significance of a field name to the codec. */
export type Meaning =
  | typeof PLAIN
  | typeof HOST
  | typeof CONTENT_LENGTH
  | typeof TRANSFER_ENCODING
  | typeof CONNECTION
  | typeof UPGRADE
  | typeof PROXY_CONNECTION
  | typeof HOP;

export const PLAIN = 0;
export const HOST = 1;
export const CONTENT_LENGTH = 2;
export const TRANSFER_ENCODING = 3;
export const CONNECTION = 4;
export const UPGRADE = 5;
/** Not standard (RFC 9112 C.2.2), but some implementations close the connection because of it. */
export const PROXY_CONNECTION = 6;
/** Another hop-by-hop field: ignored in a head, not allowed in trailers. */
const HOP = 7;

/** A field name as received. */
export interface FieldName {
  readonly text: string;
  readonly meaning: Meaning;
  readonly bytes: Uint8Array;
}

interface KnownName {
  readonly lower: Uint8Array;
  readonly meaning: Meaning;
}

/** Significant names, by length and first letter. */
const known = new Map<number, KnownName[]>();

const MEANINGS = new Map<string, Meaning>([
  ...HOP_BY_HOP.map((name) => [name, HOP] as const),
  ['host', HOST],
  ['content-length', CONTENT_LENGTH],
  ['transfer-encoding', TRANSFER_ENCODING],
  ['connection', CONNECTION],
  ['upgrade', UPGRADE],
  ['proxy-connection', PROXY_CONNECTION],
]);
for (const [name, meaning] of MEANINGS) {
  const lower = bytesOf(name);
  const key = keyOf(lower.length, lower[0] as number);
  known.set(key, [...(known.get(key) ?? []), { lower, meaning }]);
}

function keyOf(length: number, first: number): number {
  return length * 256 + first;
}

/** Returns the meaning of a name, ignoring case. */
function meaningOf(bytes: Uint8Array, start: number, end: number): Meaning {
  const cell = known.get(keyOf(end - start, LOWER[bytes[start] as number] as number));
  if (cell !== undefined)
    for (const { lower, meaning } of cell) if (isWord(bytes, start, end, lower)) return meaning;
  return PLAIN;
}

/** Returns the meaning of a name given as a string. */
export function meaningOfText(name: string): Meaning {
  return MEANINGS.get(name.toLowerCase()) ?? PLAIN;
}

/** Slots in the cache of names, a power of two; a name may evict another one. */
const SLOTS = 1024;
/** Maximum length of a cached name. */
const MAX_KEPT = 64;
const seen: (FieldName | undefined)[] = Array.from({ length: SLOTS }, () => undefined);

/**
 * Returns the cached name for these bytes, adding it if it is new.
 *
 * Peers send the same few names: comparing bytes costs less than creating a string.
 */
export function findName(bytes: Bytes, start: number, end: number): FieldName {
  const length = end - start;
  const hash = length * 31 + (bytes[start] as number) * 7 + (bytes[start + (length >> 1)] as number) * 13;
  const slot = (hash + (bytes[end - 1] as number) * 3) & (SLOTS - 1);
  const found = seen[slot];
  if (found !== undefined && isSame(found.bytes, bytes, start, length)) return found;
  const meaning = meaningOf(bytes, start, end);
  const text = bytes.latin1Slice(start, end);
  const own = Uint8Array.from(bytes.subarray(start, end));
  if (length > MAX_KEPT) return { text, meaning, bytes: own };
  const made: FieldName = { text: asPropertyName(text), meaning, bytes: own };
  seen[slot] = made;
  return made;
}

function isSame(name: Uint8Array, bytes: Uint8Array, start: number, length: number): boolean {
  if (name.length !== length) return false;
  for (let i = 0; i < length; i++) if (name[i] !== bytes[start + i]) return false;
  return true;
}
