import { malformed, type Refusal } from '../domain/refusal.js';
import { firstField, joinValues, LINE_BYTES } from './fields.js';
import type { ParsedRequest } from './exchange.js';
import type { Reply } from './replies.js';

/** gRPC content types. `application/grpc-web` is another protocol: its trailers are in the body. */
const GRPC = /^application\/grpc(?:\+[^;\s]+)?\s*(?:;|$)/i;

/** gRPC status codes (`statuscodes.md` of gRPC). */
const INTERNAL = 13;
const UNKNOWN = 2;

/**
 * The mapping that clients apply by themselves (`http-grpc-status-mapping.md` of gRPC), except 429:
 * RESOURCE_EXHAUSTED means a used-up quota, whereas clients retry on UNAVAILABLE.
 */
const CODES: Readonly<Record<number, number>> = {
  400: INTERNAL,
  401: 16, // UNAUTHENTICATED
  403: 7, // PERMISSION_DENIED
  404: 12, // UNIMPLEMENTED
  405: 12,
  408: 4, // DEADLINE_EXCEEDED
  413: 8, // RESOURCE_EXHAUSTED
  414: INTERNAL,
  417: INTERNAL,
  429: 8,
  431: 8,
  500: INTERNAL,
  501: 12,
  502: 14, // UNAVAILABLE
  503: 14,
  504: 14,
};

/** Returns whether a request is a gRPC call, which exists only in HTTP/2. */
export function isGrpcCall(req: Pick<ParsedRequest, 'stream' | 'rawHeaders'>): boolean {
  return 'stream' in req && isGrpcType(firstField(req.rawHeaders, 'content-type'));
}

export function isGrpcType(type: string | undefined): boolean {
  return type !== undefined && GRPC.test(type);
}

export function grpcReply(reply: Reply): Reply {
  const headers = [
    ...(reply.headers ?? []),
    'Content-Type',
    'application/grpc',
    ...grpcTrailers(reply).flat(),
  ];
  return { status: 200, headers, endsWithHead: true };
}

export function grpcTrailers({ status, json }: Reply): [string, string][] {
  const { msg, detail } = (json ?? {}) as { msg?: string; detail?: string };
  const message = [msg, detail].filter((each) => each !== undefined).join(': ');
  return [
    ['grpc-status', String(CODES[status] ?? UNKNOWN)],
    ['grpc-message', percentEncoded(message)],
  ];
}

/** Percent-encodes `%` and all but printable ASCII (`PROTOCOL-HTTP2.md` of gRPC). */
function percentEncoded(text: string): string {
  let encoded = '';
  for (const byte of Buffer.from(text))
    encoded +=
      byte < 0x20 || byte > 0x7e || byte === 0x25
        ? `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
        : String.fromCharCode(byte);
  return encoded;
}

const HOST = 'host';
const HYPHEN = 0x2d;

/** Connection-specific fields, which make an HTTP/2 message malformed (RFC 9113 8.2.2). */
export const CONNECTION_SPECIFIC: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/** Lists that node refuses to send in several lines (`kSingleValueHeaders`), so they are joined. */
export const ONE_LINE_LISTS: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-language',
  'if-match',
  'if-none-match',
]);

/**
 * The other fields of this kind. Joined, two equal `Location` lines would be another address, so only the
 * first counts, as for most clients.
 */
export const SINGLE: ReadonlySet<string> = new Set(
  `access-control-allow-credentials access-control-max-age access-control-request-method age
  authorization content-length content-location content-md5 content-range content-type date dnt etag
  expires from host if-modified-since if-range if-unmodified-since last-modified location max-forwards
  proxy-authorization range referer retry-after tk upgrade-insecure-requests user-agent
  x-content-type-options`.split(/\s+/),
);

/** Bytes that HTTP/2 counts per field besides its name and value (RFC 9113 6.5.2). */
export const FIELD_BYTES = 32;

/** Returns whether values of this name are Base64 in gRPC (`PROTOCOL-HTTP2.md`). */
export function isBinaryName(name: string): boolean {
  // Of most names, this looks at one character.
  if (name.charCodeAt(name.length - 4) !== HYPHEN) return false;
  return name.endsWith('-bin') || (name.length > 4 && name.slice(-4).toLowerCase() === '-bin');
}

export function binaryValues(list: string): string[] {
  return list.split(',').map((value) => value.trim());
}

/**
 * Whether the values of a binary field can be decoded. At others, gRPC's C-core closes the connection, with
 * the calls of all its users.
 */
export function isBinaryList(list: string): boolean {
  return binaryValues(list).every((value) => {
    const encoded = Buffer.from(value, 'base64').toString('base64');
    return value === encoded || (encoded.endsWith('=') && value === encoded.slice(0, encoded.indexOf('=')));
  });
}

/**
 * Converts HTTP/2 request fields to their HTTP/1.1 form: `:authority` becomes `Host`, and several `cookie`
 * fields one (RFC 9113 8.2.3, 8.3.1).
 * @param maxSize bytes of all fields together, as HTTP/1 would write them
 */
export function fieldsOfHttp2(raw: readonly string[], maxSize: number): string[] | Refusal {
  const fields: string[] = [];
  let authority: string | undefined;
  let host: string | undefined;
  let cookieAt = -1;
  let size = 0;
  let undecodable: string | undefined;
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
      if (isBinaryName(name) && !isBinaryList(value)) undecodable = name;
    } else if (cookieAt < 0) {
      cookieAt = fields.push(name, value) - 1;
    } else {
      fields[cookieAt] = joinValues(fields[cookieAt] as string, value, '; ');
    }
  }
  if (host === undefined && authority !== undefined) size += HOST.length + authority.length + LINE_BYTES;
  if (size > maxSize)
    return { refusal: 'fields_too_large', detail: 'the header fields together are too long' };
  if (undecodable !== undefined && isGrpcType(firstField(fields, 'content-type')))
    return malformed(`the binary metadata ${undecodable} is not Base64`);
  if (authority !== undefined && host !== undefined && authority !== host)
    return malformed('the Host header and :authority name different hosts');
  const effectiveHost = authority ?? host;
  if (effectiveHost !== undefined) fields.unshift(HOST, effectiveHost);
  return fields;
}
