import { isIP } from 'node:net';
import type { Refusal } from '../../../domain/refusal.js';
import { type FieldSplitter, firstField, LINE_BYTES } from '../../../http/fields.js';
import { type Bytes, COLON, consistsOf, HTAB, SP, TOKEN } from '../../../http1/bytes.js';
import { fieldFault, Framing } from '../../../http1/framing.js';
import { parseRefusal } from '../../../pipeline/faults.js';
import type { OriginalRequest } from '../protocols.js';
import type { CheckRequest, HeaderValue, HttpRequest } from './messages.js';

const HOST = 'host';

/** The attributes in which Envoy repeats the pseudo-header fields (RFC 9113 8.3.1). */
const PSEUDO = { ':method': 'method', ':path': 'path', ':authority': 'host', ':scheme': 'scheme' } as const;

/**
 * Reads the request that a check is about, or refuses a check that leaves it unclear.
 *
 * @param split splits joined fields
 * @param maxSize bytes of all fields together, as HTTP/1 would write them
 */
export function readCheck(
  check: CheckRequest | null,
  split: FieldSplitter,
  maxSize: number,
): OriginalRequest | Refusal {
  if (check === null) return malformedCheck('the message is not a CheckRequest of envoy.service.auth.v3');
  const http = check.attributes?.request?.http;
  if (http == null)
    return malformedCheck('attributes.request.http is missing; only HTTP requests can be checked');
  const fault = attributesFault(http);
  if (fault !== undefined) return malformedCheck(fault);
  const { method, path, host } = http;
  const entries = http.headerMap === null ? http.headers : http.headerMap.headers;
  if (sizeOf(host, entries) > maxSize) return parseRefusal('head_too_large');
  const fields = host.length === 0 ? [] : ['Host', textOf(host)];
  const refused = addFields(fields, http, entries, http.headerMap === null ? split : addAsIs);
  if (refused !== undefined) return refused;
  addBody(fields, http);
  addClient(fields, check);
  return { method: textOf(method), target: textOf(path), fields };
}

/** Returns what is wrong with the attributes, for the operator of the proxy. */
function attributesFault(http: HttpRequest): string | undefined {
  if (http.method.length === 0) return 'attributes.request.http.method is missing';
  if (!consistsOf(TOKEN, http.method)) return 'attributes.request.http.method is not a method';
  if (http.path.length === 0) return 'attributes.request.http.path is missing';
  if (http.query.length > 0) return 'attributes.request.http.query is set; put the query into path';
  if (http.fragment.length > 0) return 'attributes.request.http.fragment is set; a request has no fragment';
  if (http.headerMap !== null && http.headers.length > 0)
    return 'attributes.request.http has both headers and header_map';
  return undefined;
}

/**
 * Returns the bytes of all fields, `Host` included, as for the same request over HTTP.
 *
 * Pseudo-header fields repeat attributes: not counted.
 */
function sizeOf(host: Buffer, entries: readonly HeaderValue[]): number {
  let size = host.length === 0 ? 0 : HOST.length + host.length + LINE_BYTES;
  for (const { key, value, rawValue } of entries)
    if (key[0] !== COLON && !isHost(key)) size += key.length + value.length + rawValue.length + LINE_BYTES;
  return size;
}

/** A Host field counts as the attribute, from which it must not differ. */
function isHost(key: Buffer): boolean {
  return key.length === HOST.length && textOf(key).toLowerCase() === HOST;
}

/**
 * Adds the fields of the check to a flat list.
 *
 * @param put adds a single field
 */
function addFields(
  fields: string[],
  http: HttpRequest,
  entries: readonly HeaderValue[],
  put: FieldSplitter,
): Refusal | undefined {
  const framing = new Framing(true);
  for (const { key, value, rawValue } of entries) {
    const name = textOf(key);
    if (rawValue.length > 0 && value.length > 0 && !rawValue.equals(value))
      return malformedCheck('a header has a value and a different raw_value');
    const bytes = rawValue.length > 0 ? rawValue : value;
    if (name.startsWith(':')) {
      const fault = pseudoFault(name, bytes, http);
      if (fault !== undefined) return malformedCheck(fault);
      continue;
    }
    const fault = fieldFault(framing, key, bytes);
    if (fault !== undefined) return parseRefusal(fault);
    // Envoy reports the host as an attribute; a Host field with the same value is no second one.
    if (isHost(key) && bytes.equals(http.host)) continue;
    const refusal = put(fields, name, trimmed(bytes));
    if (refusal !== undefined) return refusal;
  }
  return undefined;
}

function addAsIs(fields: string[], name: string, value: string): undefined {
  fields.push(name, value);
}

function pseudoFault(name: string, value: Buffer, http: HttpRequest): string | undefined {
  if (!Object.hasOwn(PSEUDO, name)) return 'a header name begins with ":"';
  const attribute = PSEUDO[name as keyof typeof PSEUDO];
  return value.equals(http[attribute])
    ? undefined
    : `the header ${name} and attributes.request.http.${attribute} differ`;
}

/** Adds a framing field for a body, which in HTTP/2 may come without any. */
function addBody(fields: string[], { size, body, rawBody }: HttpRequest): void {
  if (size <= 0 && body.length === 0 && rawBody.length === 0) return;
  if (firstField(fields, 'content-length') !== undefined) return;
  if (firstField(fields, 'transfer-encoding') === undefined) fields.push('Transfer-Encoding', 'chunked');
}

/**
 * Adds the client's address. If Envoy does not report X-Forwarded-For, its own peer is the client.
 */
function addClient(fields: string[], { attributes }: CheckRequest): void {
  const address = attributes?.source?.address?.socketAddress?.address;
  if (address === undefined || firstField(fields, 'x-forwarded-for') !== undefined) return;
  const text = textOf(address);
  if (isIP(text) !== 0) fields.push('X-Forwarded-For', text);
}

/** Returns a value without surrounding whitespace, which is not part of it (RFC 9110 5.5). */
function trimmed(bytes: Buffer): string {
  let start = 0;
  let end = bytes.length;
  while (start < end && isBlank(bytes[start] as number)) start += 1;
  while (end > start && isBlank(bytes[end - 1] as number)) end -= 1;
  return (bytes as Bytes).latin1Slice(start, end);
}

function isBlank(byte: number): boolean {
  return byte === SP || byte === HTAB;
}

function textOf(bytes: Buffer): string {
  return (bytes as Bytes).latin1Slice();
}

function malformedCheck(detail: string): Refusal {
  return { refusal: 'malformed_check', detail };
}
