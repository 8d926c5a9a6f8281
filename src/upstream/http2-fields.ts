import { AUTHORIZATION, bindsConnection } from '../http/authorization.js';
import { checkValue, type Http2Fields, http2Fields } from '../http/http2.js';
import { FIELD_BYTES, isBinaryList, isBinaryName } from '../http/http2-fields.js';
import type { UpstreamRequest } from './upstream-request.js';

/** @throws TypeError for a name or value that cannot be sent */
export function requestFields(
  { method, target, host, fields, length }: UpstreamRequest,
  scheme: string,
): Http2Fields {
  const headers = http2Fields(fields);
  // Node joins fields with NUL, so these must not contain it.
  for (const value of [method, target, host]) checkValue('pseudo-header', value);
  headers[':method'] = method;
  headers[':scheme'] = scheme;
  headers[':authority'] = host;
  headers[':path'] = target;
  // gRPC servers require an indication that trailers are supported.
  headers['te'] = 'trailers';
  if (length >= 0) headers['content-length'] = String(length);
  return headers;
}

/**
 * Bytes of fields up to which requests share a connection. Some servers close it for more (gRPC's C-core,
 * nginx).
 */
const MAX_SHARED = 8_192;
const ADDED = ':method:scheme:authority:pathtetrailerscontent-length000000000'.length + 6 * FIELD_BYTES;

/** Returns the size of a request's fields as `SETTINGS_MAX_HEADER_LIST_SIZE` counts it. */
export function sizeOfFields({ method, target, host, fields }: UpstreamRequest, scheme: string): number {
  let size = ADDED + method.length + scheme.length + host.length + target.length;
  for (let i = 0; i < fields.length; i += 2)
    size += (fields[i] as string).length + (fields[i + 1] as string).length + FIELD_BYTES;
  return size;
}

/**
 * Whether an upstream may close the connection because of a request's fields, or take later requests for
 * those of its user, so that the connection must be the request's own.
 */
export function areUnusual({ fields }: UpstreamRequest, size: number): boolean {
  if (size > MAX_SHARED || bindsConnection(fields, AUTHORIZATION)) return true;
  for (let i = 0; i < fields.length; i += 2)
    if (isBinaryName(fields[i] as string) && !isBinaryList(fields[i + 1] as string)) return true;
  return false;
}

export function withoutPseudoFields(raw: readonly string[]): string[] {
  const fields: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    if (!name.startsWith(':')) fields.push(name, raw[i + 1] as string);
  }
  return fields;
}
