import { asPropertyName } from '../http/fields.js';
import { HOP_BY_HOP } from '../http/protected-fields.js';
import {
  type Bytes,
  bytesOf,
  COMMA,
  consistsOf,
  HTAB,
  isWord,
  LOWER,
  NINE,
  SP,
  TEXT,
  TOKEN,
  ZERO,
} from './bytes.js';
import type { Fault } from './events.js';

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

const SLOTS = 1024;
const MAX_KEPT = 64;
const seen: (FieldName | undefined)[] = Array.from({ length: SLOTS }, () => undefined);

/** Returns the cached name for these bytes: comparing costs less than creating a string. */
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

const CHUNKED = bytesOf('chunked');
const CLOSE = bytesOf('close');
const KEEP_ALIVE = bytesOf('keep-alive');
const UPGRADE_OPTION = bytesOf('upgrade');

/** Maximum number of digits; longer numbers could exceed the safe integers. */
const MAX_DIGITS = 15;

/** Collects what the fields of a head say about its body and connection. Each parser has one. */
export class Framing {
  length = -1;
  chunked = false;
  /** Options in the Connection field. */
  close = false;
  keepAlive = false;
  upgradeOption = false;
  upgradeField = false;
  /** Whether the fields are trailers, which change none of the above. */
  inTrailers = false;
  /** Whether trailers contain a field that ends the connection. */
  endsInTrailers = false;
  readonly #refusesTrailers: boolean;

  /** @param refusesTrailers whether to refuse trailers with any significant field */
  constructor(refusesTrailers: boolean) {
    this.#refusesTrailers = refusesTrailers;
  }

  reset(): void {
    this.length = -1;
    this.chunked = false;
    this.close = false;
    this.keepAlive = false;
    this.upgradeOption = false;
    this.upgradeField = false;
    this.inTrailers = false;
    this.endsInTrailers = false;
  }

  /**
   * @param end index after the value
   * @param lineEnd index after the whitespace that follows the value
   * @returns why the field is refused, if it is
   */
  note(meaning: Meaning, bytes: Uint8Array, start: number, end: number, lineEnd: number): Fault | undefined {
    if (this.inTrailers) {
      if (this.#refusesTrailers || meaning === CONTENT_LENGTH) return 'trailer_forbidden';
      this.endsInTrailers = true;
      return undefined;
    }
    switch (meaning) {
      case CONTENT_LENGTH:
        return hasTab(bytes, end, lineEnd) ? 'length_invalid' : this.#noteLength(bytes, start, end);
      case TRANSFER_ENCODING:
        if (this.chunked) return 'coding_repeated';
        if (!isWord(bytes, start, end, CHUNKED) || hasTab(bytes, end, lineEnd)) return 'coding_unknown';
        this.chunked = true;
        return this.length < 0 ? undefined : 'length_and_coding';
      case CONNECTION:
        return this.#noteOptions(bytes, start, end, lineEnd);
      case PROXY_CONNECTION:
        // No RFC defines it, and some readers find `close` anywhere in it.
        if (!isWord(bytes, start, end, KEEP_ALIVE)) this.close = true;
        return undefined;
      case UPGRADE:
        this.upgradeField = true;
        return undefined;
      default:
        return undefined;
    }
  }

  #noteLength(bytes: Uint8Array, start: number, end: number): Fault | undefined {
    if (this.length >= 0) return 'length_repeated';
    if (end === start || end - start > MAX_DIGITS) return 'length_invalid';
    let length = 0;
    for (let i = start; i < end; i++) {
      const code = bytes[i] as number;
      if (code < ZERO || code > NINE) return 'length_invalid';
      length = length * 10 + code - ZERO;
    }
    this.length = length;
    return this.chunked ? 'length_and_coding' : undefined;
  }

  /** Reads a list of tokens, ignoring empty elements (RFC 9110 5.6.1). */
  #noteOptions(bytes: Uint8Array, start: number, end: number, lineEnd: number): Fault | undefined {
    // Fast path for the usual value.
    if (end === lineEnd && isWord(bytes, start, end, KEEP_ALIVE)) {
      this.keepAlive = true;
      return undefined;
    }
    let i = start;
    while (i < end) {
      const code = bytes[i] as number;
      if (code === COMMA || code === SP || code === HTAB) {
        i++;
        continue;
      }
      const from = i;
      while (i < end && TOKEN[bytes[i] as number] === 1) i++;
      this.#noteOption(bytes, from, i);
      while (i < end && (bytes[i] === SP || bytes[i] === HTAB)) i++;
      if (i < end && bytes[i] !== COMMA) return 'connection_invalid';
    }
    // A reader that does not end an option at a tab does not find `keep-alive`.
    if (hasTab(bytes, start, lineEnd)) this.keepAlive = false;
    return undefined;
  }

  #noteOption(bytes: Uint8Array, start: number, end: number): void {
    if (isWord(bytes, start, end, KEEP_ALIVE)) this.keepAlive = true;
    else if (isWord(bytes, start, end, CLOSE)) this.close = true;
    else if (isWord(bytes, start, end, UPGRADE_OPTION)) this.upgradeOption = true;
  }
}

/** Returns whether a range has a tab. Some parsers take one for a part of the value before it. */
function hasTab(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] === HTAB) return true;
  return false;
}

/**
 * Returns why the parser would refuse a field that did not arrive as a line of HTTP/1.1.
 * @param framing what the previous fields of the same head say
 * @param value without the whitespace around it
 */
export function fieldFault(framing: Framing, name: Buffer, value: Buffer): Fault | undefined {
  if (name.length === 0 || !consistsOf(TOKEN, name)) return 'field_name';
  if (!consistsOf(TEXT, value)) return 'field_value';
  const meaning = meaningOfText(name.toString('latin1'));
  return meaning === PLAIN ? undefined : framing.note(meaning, value, 0, value.length, value.length);
}
