import type { ParsedRequest } from './exchange.js';
import { firstField } from './fields.js';
import type { Reply } from './replies.js';

/** The content types of gRPC. `application/grpc-web` is another protocol, whose trailers are in the body. */
const GRPC = /^application\/grpc(?:\+[^;\s]+)?\s*(?:;|$)/i;

/** Codes of gRPC (`statuscodes.md` of gRPC). */
const INTERNAL = 13;
const UNKNOWN = 2;

/**
 * What a status of HTTP is in gRPC: what clients make of it by themselves (`http-grpc-status-mapping.md` of gRPC) where that
 * has it. Only 429 differs: RESOURCE_EXHAUSTED is a used-up quota, and clients repeat what is UNAVAILABLE.
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
  431: INTERNAL,
  500: INTERNAL,
  502: 14, // UNAVAILABLE
  503: 14,
  504: 14,
};

/** Whether a request is a call of gRPC, which exists in HTTP/2 only. */
export function isGrpcCall(req: Pick<ParsedRequest, 'stream' | 'rawHeaders'>): boolean {
  return 'stream' in req && isGrpcType(firstField(req.rawHeaders, 'content-type'));
}

/** Whether a content type is one of gRPC. */
export function isGrpcType(type: string | undefined): boolean {
  return type !== undefined && GRPC.test(type);
}

/** The same reply for a client of gRPC: its head is all of it, and says the status in a field. */
export function grpcReply(reply: Reply): Reply {
  const headers = [
    ...(reply.headers ?? []),
    'Content-Type',
    'application/grpc',
    ...grpcTrailers(reply).flat(),
  ];
  return { status: 200, headers, endsWithHead: true };
}

/** What a reply says as the trailers of an answer of gRPC. */
export function grpcTrailers({ status, json }: Reply): [string, string][] {
  const { msg, detail } = (json ?? {}) as { msg?: string; detail?: string };
  const message = [msg, detail].filter((each) => each !== undefined).join(': ');
  return [
    ['grpc-status', String(CODES[status] ?? UNKNOWN)],
    ['grpc-message', percentEncoded(message)],
  ];
}

/** Bytes of UTF-8 that are no visible ASCII, and `%`, are escaped (`PROTOCOL-HTTP2.md` of gRPC). */
function percentEncoded(text: string): string {
  let encoded = '';
  for (const byte of Buffer.from(text))
    encoded +=
      byte < 0x20 || byte > 0x7e || byte === 0x25
        ? `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
        : String.fromCharCode(byte);
  return encoded;
}
