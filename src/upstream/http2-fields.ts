import { checkValue, type Http2Fields, http2Fields } from '../http/http2.js';
import type { UpstreamRequest } from './upstream-request.js';

/**
 * Returns the fields of a request, pseudo-header fields included.
 *
 * @throws TypeError for a name or value that cannot be sent
 */
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

/** Returns a flat list of fields without the pseudo-header fields. */
export function withoutPseudoFields(raw: readonly string[]): string[] {
  const fields: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] as string;
    if (!name.startsWith(':')) fields.push(name, raw[i + 1] as string);
  }
  return fields;
}
