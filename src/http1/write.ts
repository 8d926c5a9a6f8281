import { METHODS } from '../domain/methods.js';
import { asPropertyName, NameCache } from '../http/fields.js';
import { TARGET, TEXT, TOKEN } from './bytes.js';
import {
  CONNECTION,
  CONTENT_LENGTH,
  HOST,
  type Meaning,
  meaningOfText,
  PLAIN,
  TRANSFER_ENCODING,
} from './framing.js';

const HEAD_END = '\r\n\r\n';

/** The framing of a body: its number of bytes, {@link CHUNKED} or {@link UNFRAMED}. */
export type Length = number;

export const CHUNKED = -1;
/** A message without a body, or a response that ends with its connection. */
export const UNFRAMED = -2;

/** A head, chunk or trailer that could not be parsed as one intended message; nothing was written. */
export class UnwritableMessage extends Error {
  readonly code = 'UNWRITABLE_MESSAGE';
}

const FORWARDED: ReadonlySet<string> = new Set(METHODS);

export interface RequestStart {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  readonly connection: 'keep-alive' | 'close';
}

/**
 * @param fields flat, without Host, Connection and framing fields
 * @throws UnwritableMessage for a method, target, name or value that violates the grammar
 */
export function requestHead(
  { method, target, host, connection }: RequestStart,
  fields: readonly string[],
  length: Length,
): string {
  if (!FORWARDED.has(method)) throw new UnwritableMessage('a method that is not forwarded');
  if (target === '' || !isOf(TARGET, target))
    throw new UnwritableMessage('a target with forbidden characters');
  if (!isFieldValue(host)) throw new UnwritableMessage('a Host with forbidden characters');
  const start = `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: ${connection}`;
  return withFields(start, fields, IN_REQUEST) + framingLine(length) + HEAD_END;
}

/**
 * @param fields flat; a Content-Length is left out in favour of `length`
 * @param length for HEAD or 304, the length that the body would have
 * @param own valid field lines, each after a line break
 * @throws UnwritableMessage for what violates the grammar, or for framing where none is allowed
 */
export function responseHead(
  status: number,
  reason: string,
  fields: readonly string[],
  length: Length,
  own = '',
): string {
  if (!Number.isInteger(status) || status < 100 || status > 599)
    throw new UnwritableMessage('a status outside of 100 to 599');
  if (!isOf(TEXT, reason)) throw new UnwritableMessage('a reason with forbidden characters');
  if ((status < 200 || status === 204) && length !== UNFRAMED)
    throw new UnwritableMessage(`a length in a response with status ${status}`);
  const lines = withFields(`HTTP/1.1 ${status} ${reason}`, fields, IN_RESPONSE);
  return lines + own + framingLine(length) + HEAD_END;
}

/** Its data and {@link CHUNK_END} follow. @param size bytes of the data, not 0 */
export function chunkStart(size: number): string {
  if (!Number.isInteger(size) || size <= 0 || size > 0x7fff_ffff)
    throw new UnwritableMessage('a chunk without data or over 2 GiB');
  return `${size.toString(16)}\r\n`;
}

export const CHUNK_END = '\r\n';

/** @throws UnwritableMessage as {@link requestHead} */
export function lastChunk(trailers: readonly string[] = []): string {
  return withFields('0', trailers, IN_TRAILERS) + HEAD_END;
}

/** The section of field lines, which determines which special fields the list may contain. */
type Section = typeof IN_REQUEST | typeof IN_RESPONSE | typeof IN_TRAILERS;
/** Host and Connection are written separately. */
const IN_REQUEST = 0;
const IN_RESPONSE = 1;
const IN_TRAILERS = 2;

/** V8 allocates an object for each `+`, so each field takes two. */
function withFields(line: string, fields: readonly string[], section: Section): string {
  let lines = line;
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] as string;
    const value = fields[i + 1];
    const { isToken, meaning, start } = nameInfo(name);
    if (!isToken) throw new UnwritableMessage('a field name that is not a token');
    if (value === undefined || !isFieldValue(value))
      throw new UnwritableMessage(`a forbidden character or space around the value of ${name}`);
    if (meaning === CONTENT_LENGTH && section === IN_RESPONSE) continue;
    if (meaning !== PLAIN && isSeparate(meaning, section))
      throw new UnwritableMessage(`${name} is not written from a list of fields`);
    lines = lines + start + value;
  }
  return lines;
}

function isSeparate(meaning: Meaning, section: Section): boolean {
  if (meaning === CONTENT_LENGTH || meaning === TRANSFER_ENCODING || section === IN_TRAILERS) return true;
  return section === IN_REQUEST && (meaning === HOST || meaning === CONNECTION);
}

function framingLine(length: Length): string {
  if (length === UNFRAMED) return '';
  if (length === CHUNKED) return '\r\nTransfer-Encoding: chunked';
  if (!Number.isSafeInteger(length) || length < 0 || length > 999_999_999_999_999)
    throw new UnwritableMessage('a length that is not a number of bytes');
  return `\r\nContent-Length: ${length}`;
}

interface NameInfo {
  readonly isToken: boolean;
  readonly meaning: Meaning;
  readonly start: string;
}

const nameCache = new NameCache<NameInfo>();

function nameInfo(name: string): NameInfo {
  const found = nameCache.get(name);
  if (found !== undefined) return found;
  const isToken = name !== '' && isOf(TOKEN, name);
  const made = { isToken, meaning: meaningOfText(name), start: asPropertyName(`\r\n${name}: `) };
  nameCache.add(name, made);
  return made;
}

/** Whether a value is a `field-value` (RFC 9110 5.5): no control characters, no whitespace at either end. */
function isFieldValue(value: string): boolean {
  const { length } = value;
  if (length === 0) return true;
  return isOf(TEXT, value) && value.charCodeAt(0) > 0x20 && value.charCodeAt(length - 1) > 0x20;
}

/** A character beyond Latin-1 is of no class: writing it would truncate it to another one. */
function isOf(table: Uint8Array, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (table[text.charCodeAt(i)] !== 1) return false;
  return true;
}
