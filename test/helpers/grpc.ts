import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import protobuf from 'protobufjs';
import descriptor from 'protobufjs/ext/descriptor/index.js';
import type { Reply } from './http.js';

/*
 * Envoy's side of `envoy.service.auth.v3.Authorization`. It uses Envoy's own message definitions,
 * independent of those in the program.
 */

/**
 * `envoy/service/auth/v3/external_auth.proto` and all it imports, of envoyproxy/data-plane-api and
 * googleapis (Apache-2.0), as `protoc --include_imports --descriptor_set_out` writes them.
 */
export const DEFINITIONS = join(import.meta.dirname, 'envoy-auth.binpb');

interface MessageType {
  readonly field: { name: string; readonly jsonName: string }[];
  readonly nestedType: readonly MessageType[];
}

/** Names fields as protobufjs names those of a `.proto` file. */
function camelCase(types: readonly MessageType[]): void {
  for (const { field: fields, nestedType } of types) {
    for (const field of fields) field.name = field.jsonName;
    camelCase(nestedType);
  }
}

const set = descriptor.FileDescriptorSet.decode(readFileSync(DEFINITIONS)) as unknown as {
  readonly file: readonly { readonly messageType: readonly MessageType[] }[];
};
for (const { messageType } of set.file) camelCase(messageType);
/** The module of descriptors adds this function, which its types lack. */
const { Root } = protobuf as unknown as { Root: { fromDescriptor: (from: typeof set) => protobuf.Root } };
const root = Root.fromDescriptor(set);
const CHECK_REQUEST = root.lookupType('envoy.service.auth.v3.CheckRequest');
const CHECK_RESPONSE = root.lookupType('envoy.service.auth.v3.CheckResponse');

export const CHECK = '/envoy.service.auth.v3.Authorization/Check';

/** The client's request, as Envoy received it. */
export interface GrpcAsked {
  readonly method: string;
  readonly target: string;
  /** Values are Latin-1. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>> | undefined;
  /** Other attributes of `attributes.request.http`. */
  readonly http?: object;
  /** The address of the peer connected to Envoy. */
  readonly source?: string;
  /**
   * Whether Envoy joins repeated fields into one, as it does unless `encode_raw_headers` is set.
   */
  readonly joined?: boolean;
}

/**
 * Encodes a check as Envoy sends it (Envoy 1.30,
 * source/extensions/filters/common/ext_authz/check_request_utils.cc).
 */
export function checkBytes({ method, target, headers = {}, http = {}, source, joined }: GrpcAsked): Buffer {
  const host = Object.entries(headers).find(([name]) => name.toLowerCase() === 'host')?.[1] ?? 'api.example.com';
  const fields = Object.entries(headers)
    .filter(([name]) => name.toLowerCase() !== 'host')
    .flatMap(([name, values]) => [values].flat().map((value) => [name.toLowerCase(), value] as const));
  const pseudo = [[':method', method], [':path', target], [':authority', String(host)], [':scheme', 'http']] as const;
  const all = [...pseudo, ...fields];
  const map: Record<string, string> = {};
  for (const [name, value] of all) map[name] = Object.hasOwn(map, name) ? `${map[name]},${value}` : value;
  const raw = all.map(([key, value]) => ({ key, rawValue: Buffer.from(value, 'latin1') }));
  const list = joined === true ? { headers: entriesOf(map) } : { headerMap: { headers: raw } };
  const about = { id: '1', method, path: target, host: String(host), scheme: 'http', size: -1, protocol: 'HTTP/1.1', ...list };
  return messageOf({
    source: { address: { socketAddress: { address: source ?? '127.0.0.1', portValue: 40_000 } }, principal: 'x' },
    destination: { address: { socketAddress: { address: '127.0.0.1', portValue: 8080 } } },
    request: { time: { seconds: 1 }, http: { ...about, ...http } },
    contextExtensions: entriesOf({ route: 'x' }),
    metadataContext: { filterMetadata: [] },
  });
} // prettier-ignore

/** Returns a map as its entries, which are the same on the wire. */
function entriesOf(map: Readonly<Record<string, string>>) {
  return Object.entries(map).map(([key, value]) => ({ key, value }));
}

/** Encodes a check with arbitrary attributes. */
export function messageOf(attributes: object | undefined): Buffer {
  return Buffer.from(CHECK_REQUEST.encode(CHECK_REQUEST.fromObject({ attributes })).finish());
}

/**
 * A check response as Envoy reads it: the headers are for the request to the API or for the
 * response to the client.
 */
export interface GrpcReply extends Reply {
  /** A `google.rpc` code. */
  readonly code: number;
  readonly removed: readonly string[];
  /** Headers added to the client's response when the request is allowed. */
  readonly added: Record<string, string>;
}

interface Option {
  readonly header: { readonly key: string; readonly value: string };
  readonly appendAction: string;
}

/**
 * Decodes a check response.
 * @throws Error if Envoy would not accept it
 */
export function grpcReplyOf(bytes: Buffer): GrpcReply {
  const message = CHECK_RESPONSE.decode(bytes);
  const answer = CHECK_RESPONSE.toObject(message, { defaults: true, enums: String });
  const { deniedResponse: denied, okResponse: ok, status } = answer;
  if ((status.code === 0) !== (ok != null) || (ok == null) === (denied == null))
    throw new Error(`the code ${status.code} with the wrong kind of answer`);
  const headers = fieldsOf(ok == null ? denied.headers : ok.headers);
  const text: string = ok == null ? denied.body : '';
  const number = ok == null ? root.lookupEnum('envoy.type.v3.StatusCode').values[denied.status.code] : 200;
  return {
    code: status.code,
    status: number ?? 0,
    headers,
    rawHeaders: Object.entries(headers).flat(),
    text,
    json: text === '' ? undefined : JSON.parse(text),
    removed: ok?.headersToRemove ?? [],
    added: fieldsOf(ok?.responseHeadersToAdd ?? []),
  };
}

function fieldsOf(options: readonly Option[]): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const { header, appendAction } of options) {
    if (appendAction !== 'OVERWRITE_IF_EXISTS_OR_ADD') throw new Error(`${header.key} is appended`);
    if (header.key in fields || header.key !== header.key.toLowerCase())
      throw new Error(`the field ${header.key}`);
    fields[header.key] = header.value;
  }
  return fields;
}

/** A client of the gRPC port. */
export class GrpcClient {
  readonly #client: Client;

  constructor(url: string) {
    this.#client = new Client(new URL(url).host, credentials.createInsecure());
  }

  /** Calls a method with exact bytes. @throws ServiceError */
  call(bytes: Buffer, path = CHECK, deadline = 60_000): Promise<Buffer> {
    const same = (value: Buffer): Buffer => value;
    return new Promise((done, failed) => {
      const options = { deadline: Date.now() + deadline };
      this.#client.makeUnaryRequest(
        path,
        same,
        same,
        bytes,
        options,
        (error: ServiceError | null, answer) => {
          if (error !== null || answer === undefined) failed(error ?? new Error('no answer'));
          else done(answer);
        },
      );
    });
  }

  async ask(asked: GrpcAsked): Promise<GrpcReply> {
    return grpcReplyOf(await this.call(checkBytes(asked)));
  }

  close(): void {
    this.#client.close();
  }
}

/** Sends one check over a connection of its own. */
export async function askByGrpc(url: string, asked: GrpcAsked): Promise<GrpcReply> {
  const client = new GrpcClient(url);
  try {
    return await client.ask(asked);
  } finally {
    client.close();
  }
}
