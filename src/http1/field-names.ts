import { asPropertyName } from '../http/fields.js';
import { HOP_BY_HOP } from '../http/protected-fields.js';
import { type Bytes, bytesOf, isWord, LOWER } from './bytes.js';

/** What a field name means to the codec. */
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
/** No standard (RFC 9112 C.2.2), but some readers end the connection by it. */
export const PROXY_CONNECTION = 6;
/** Another field of one connection; nothing in a head, and not allowed in trailers. */
const HOP = 7;

/** A field name as it was received. */
export interface FieldName {
  readonly text: string;
  readonly meaning: Meaning;
  readonly bytes: Uint8Array;
}

interface KnownName {
  readonly lower: Uint8Array;
  readonly meaning: Meaning;
}

/** Names that mean something here, by length and first letter. */
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

/** The meaning of a name, whatever the case of its letters. */
function meaningOf(bytes: Uint8Array, start: number, end: number): Meaning {
  const cell = known.get(keyOf(end - start, LOWER[bytes[start] as number] as number));
  if (cell !== undefined)
    for (const { lower, meaning } of cell) if (isWord(bytes, start, end, lower)) return meaning;
  return PLAIN;
}

/** The meaning of a name that is a string. */
export function meaningOfText(name: string): Meaning {
  return MEANINGS.get(name.toLowerCase()) ?? PLAIN;
}

/** Slots of the table of names seen, a power of two; a name may push another one out. */
const SLOTS = 1024;
/** Longer names are not kept. */
const MAX_KEPT = 64;
const seen: (FieldName | undefined)[] = Array.from({ length: SLOTS }, () => undefined);

/** Finds a name by its bytes. Peers send the same few: to compare them costs less than to make a string. */
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
