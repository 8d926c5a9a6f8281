import { malformed, type Refusal } from '../domain/refusal.js';
import { joinValues, LINE_BYTES } from './fields.js';

const HOST = 'host';

/**
 * Connection-specific fields of HTTP/1, which make an HTTP/2 message malformed (RFC 9113 8.2.2).
 */
export const CONNECTION_SPECIFIC: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/**
 * Converts HTTP/2 request fields to their HTTP/1.1 form, so that one head reader serves both.
 *
 * `:authority` becomes `Host`, and several `cookie` fields become one (RFC 9113 8.2.3, 8.3.1).
 *
 * @param raw names and values as received, pseudo-header fields included
 * @param maxSize bytes of all fields together, as HTTP/1 would write them
 */
export function fieldsOfHttp2(raw: readonly string[], maxSize: number): string[] | Refusal {
  const fields: string[] = [];
  let authority: string | undefined;
  let host: string | undefined;
  let cookieAt = -1;
  let size = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] as string;
    const value = raw[i + 1] as string;
    if (name.startsWith(':')) {
      if (name === ':authority') authority = value;
      else if (name === ':scheme' && value !== 'https' && value !== 'http')
        return malformed(':scheme is neither https nor http');
      continue;
    }
    size += name.length + value.length + LINE_BYTES;
    if (CONNECTION_SPECIFIC.has(name)) return malformed(`the header ${name} is not allowed in HTTP/2`);
    if (name === 'te' && value !== 'trailers') return malformed('HTTP/2 allows only "trailers" in TE');
    if (name === HOST) {
      if (host !== undefined) return malformed('the header host was sent more than once');
      host = value;
    } else if (name !== 'cookie') {
      fields.push(name, value);
    } else if (cookieAt < 0) {
      cookieAt = fields.push(name, value) - 1;
    } else {
      fields[cookieAt] = joinValues(fields[cookieAt] as string, value, '; ');
    }
  }
  if (host === undefined && authority !== undefined) size += HOST.length + authority.length + LINE_BYTES;
  if (size > maxSize)
    return { refusal: 'fields_too_large', detail: 'the header fields together are too long' };
  if (authority !== undefined && host !== undefined && authority !== host)
    return malformed('the Host header and :authority name different hosts');
  const effectiveHost = authority ?? host;
  if (effectiveHost !== undefined) fields.unshift(HOST, effectiveHost);
  return fields;
}
