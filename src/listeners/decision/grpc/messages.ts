import protobuf from 'protobufjs/light.js';

/**
 * The parts of the `envoy.service.auth.v3` messages that are read and written, with the field numbers of
 * envoyproxy/data-plane-api (Apache-2.0). On the wire, bytes are the same as strings, whose decoder would
 * replace invalid UTF-8, and lists of entries the same as maps, whose decoder would keep only the last of two
 * equal keys.
 */
const { root } = protobuf.Root.fromJSON({
  nested: {
    CheckRequest: message({ attributes: ['AttributeContext', 1] }),
    AttributeContext: message({ source: ['Peer', 1], request: ['Request', 4] }),
    Peer: message({ address: ['Address', 1] }),
    Address: message({ socketAddress: ['SocketAddress', 1] }),
    SocketAddress: message({ address: ['bytes', 2] }),
    Request: message({ http: ['HttpRequest', 2] }),
    HttpRequest: message({
      method: ['bytes', 2],
      headers: ['HeaderValue', 3, 'repeated'],
      path: ['bytes', 4],
      host: ['bytes', 5],
      scheme: ['bytes', 6],
      query: ['bytes', 7],
      fragment: ['bytes', 8],
      size: ['int64', 9],
      body: ['bytes', 11],
      rawBody: ['bytes', 12],
      headerMap: ['HeaderMap', 13],
    }),
    HeaderMap: message({ headers: ['HeaderValue', 1, 'repeated'] }),
    /** Also an entry of a `map<string, string>`. */
    HeaderValue: message({ key: ['bytes', 1], value: ['bytes', 2], rawValue: ['bytes', 3] }),

    CheckResponse: message({
      status: ['Status', 1],
      deniedResponse: ['DeniedHttpResponse', 2],
      okResponse: ['OkHttpResponse', 3],
    }),
    Status: message({ code: ['int32', 1] }),
    DeniedHttpResponse: message({
      status: ['HttpStatus', 1],
      headers: ['HeaderValueOption', 2, 'repeated'],
      body: ['string', 3],
    }),
    HttpStatus: message({ code: ['int32', 1] }),
    OkHttpResponse: message({
      headers: ['HeaderValueOption', 2, 'repeated'],
      headersToRemove: ['string', 5, 'repeated'],
      responseHeadersToAdd: ['HeaderValueOption', 6, 'repeated'],
    }),
    HeaderValueOption: message({ header: ['HeaderValue', 1], appendAction: ['int32', 3] }),
  },
});

const CHECK_REQUEST = root.lookupType('CheckRequest');
const CHECK_RESPONSE = root.lookupType('CheckResponse');

type FieldSpec = readonly [type: string, id: number, rule?: 'repeated'];

function message(fields: Readonly<Record<string, FieldSpec>>): protobuf.IType {
  return {
    fields: Object.fromEntries(
      Object.entries(fields).map(([name, [type, id, rule]]) => [
        name,
        { type, id, ...(rule === undefined ? {} : { rule }) },
      ]),
    ),
  };
}

/** A header field of the request, or an entry of the map of them. */
export interface HeaderValue {
  readonly key: Buffer;
  readonly value: Buffer;
  /** Empty in an entry of a map. */
  readonly rawValue: Buffer;
}

/** The request that the check is about. What was not sent is empty. */
export interface HttpRequest {
  readonly method: Buffer;
  /** A map with one field per name; repeated fields are joined. */
  readonly headers: readonly HeaderValue[];
  /** The fields as received, with `encode_raw_headers`. */
  readonly headerMap: { readonly headers: readonly HeaderValue[] } | null;
  readonly path: Buffer;
  readonly host: Buffer;
  readonly scheme: Buffer;
  readonly query: Buffer;
  readonly fragment: Buffer;
  /** Bytes of the body that Envoy has received; -1 if unknown. */
  readonly size: number;
  readonly body: Buffer;
  readonly rawBody: Buffer;
}

/** Envoy's request for a decision. */
export interface CheckRequest {
  readonly attributes: {
    /** The peer of Envoy. */
    readonly source: {
      readonly address: { readonly socketAddress: { readonly address: Buffer } | null } | null;
    } | null;
    /** Without `http`, the check is about a connection. */
    readonly request: { readonly http: HttpRequest | null } | null;
  } | null;
}

/** The decision for Envoy, with either a denied or an OK response. */
export interface CheckResponse {
  /** A code of `google.rpc.Code`; 0 allows. */
  readonly status: { readonly code: number };
  readonly deniedResponse?: {
    readonly status: { readonly code: number };
    readonly headers: ReturnType<typeof setFields>;
    readonly body: string;
  };
  readonly okResponse?: {
    readonly headers: ReturnType<typeof setFields>;
    readonly headersToRemove: readonly string[];
    readonly responseHeadersToAdd: ReturnType<typeof setFields>;
  };
}

/** `OVERWRITE_IF_EXISTS_OR_ADD` of `HeaderAppendAction`; the default would append. */
const OVERWRITE = 2;

/** Returns a flat list of fields, in Latin-1, as fields that replace any value that Envoy has. */
export function setFields(flat: readonly string[]) {
  const options = [];
  for (let i = 0; i < flat.length; i += 2) {
    const key = Buffer.from((flat[i] as string).toLowerCase(), 'latin1');
    const value = Buffer.from(flat[i + 1] as string, 'latin1');
    options.push({ header: { key, value }, appendAction: OVERWRITE });
  }
  return options;
}

/** Reads anything else as an empty message, so that the response is a denial instead of an error. */
export function readCheckRequest(bytes: Buffer): CheckRequest {
  try {
    const message = CHECK_REQUEST.decode(bytes);
    return CHECK_REQUEST.toObject(message, { defaults: true, longs: Number }) as CheckRequest;
  } catch {
    return { attributes: null };
  }
}

export function writeCheckResponse(response: CheckResponse): Buffer {
  return Buffer.from(CHECK_RESPONSE.encode(response).finish());
}
