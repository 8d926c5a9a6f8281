import type { ParsedRequest } from './exchange.js';
import { firstField } from './fields.js';
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
