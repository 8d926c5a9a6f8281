import { isUtf8 } from 'node:buffer';
import type { Refusal } from '../../../domain/refusal.js';
import type { PeerSocket } from '../../../http/client-address.js';
import type { Reply } from '../../../http/replies.js';
import { replyParts } from '../../../http/write-reply.js';
import {
  answer,
  type Entrance,
  type Exchange,
  handle,
  type Recipient,
  refuse,
} from '../../../pipeline/handle.js';
import { newRecord } from '../../../pipeline/record.js';
import type { Services } from '../../../pipeline/services.js';
import { denial, limitFields, loginOf, readOriginalHead, refusalOfCheck, refuseFields } from '../check.js';
import {
  type CheckRequest,
  type CheckResponse,
  type HeaderValue,
  type HttpRequest,
  setFields,
} from './messages.js';
import { firstField, LINE_BYTES, type FieldSplitter } from '../../../http/fields.js';
import { type Bytes, COLON, consistsOf, HTAB, SP, TOKEN } from '../../../http1/bytes.js';
import { fieldFault, Framing } from '../../../http1/framing.js';
import { parseRefusal } from '../../../pipeline/faults.js';
import { malformedCheck, type OriginalRequest } from '../protocols.js';
import { isIP } from 'node:net';

/** Codes of `google.rpc.Code`. */
const OK = 0;
const PERMISSION_DENIED = 7;
const INTERNAL = 13;
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;

const HTTP2 = { httpVersion: '2.0' };

/** The reply that is counted and logged for an allowed request. */
const ALLOWED: Reply = { status: 200 };

/**
 * One call of `Check`. It is destroyed when the client cancelled it or its deadline has passed; `destroy` ends
 * it with an error, which Envoy does not treat as a decision.
 */
export interface CheckCall extends Recipient {
  readonly request: CheckRequest;
  readonly peer: PeerSocket;
  headersSent: boolean;
  readonly answer: (response: CheckResponse) => void;
}

/** @param maxSize bytes of all fields of a request together */
export function handleCheckCall(services: Services, maxSize: number, call: CheckCall): void {
  const check = {
    services,
    record: newRecord(),
    peer: call.peer,
    req: HTTP2,
    recipient: call,
    isForwarded: false,
    maxSize,
    allowed: undefined,
  };
  handle(check, GRPC_CHECK);
}

interface CallExchange extends Exchange {
  readonly recipient: CheckCall;
  readonly maxSize: number;
  allowed: CheckResponse | undefined;
}

/**
 * The entrance for Envoy's checks over gRPC. Refusals and faults are a `DeniedHttpResponse`: after an error,
 * Envoy may be configured to let requests through (`failure_mode_allow`); after a denial it never does.
 */
const GRPC_CHECK: Entrance<CallExchange> = {
  forwards: false,
  answersPreflights: false,
  read: (check) => {
    const original = readCheck(check.recipient.request, check.services.splitJoined, check.maxSize);
    if ('refusal' in original) return original;
    // HTTP/1.1 as in Envoy's checks over HTTP, whatever its client speaks.
    const head = readOriginalHead(check, original, '1.1');
    return 'refusal' in head ? head : refuseFields(check, head, true);
  },
  refusalOf: refusalOfCheck,
  allow: (check, head, { subject, writes }, identity) => {
    const { decisionHeaders } = check.services;
    const fields = decisionHeaders.fields(head, identity);
    const unsent = fields.find((value) => !isUtf8(Buffer.from(value, 'latin1')));
    if (unsent !== undefined) {
      // Envoy reads the values as text, and would see an error.
      const name = fields[fields.indexOf(unsent) - 1];
      const detail = `the header ${name} is not UTF-8 and cannot be sent to Envoy over gRPC`;
      refuse(check, GRPC_CHECK, { refusal: 'malformed', detail });
      return;
    }
    const toRemove = decisionHeaders.removed(head, fields);
    fields.push('X-Request-Id', check.record.requestId);
    check.allowed = {
      status: { code: OK },
      okResponse: {
        headers: setFields(fields),
        headersToRemove: toRemove,
        responseHeadersToAdd: setFields(limitFields(check.services, subject, writes)),
      },
    };
    answer(check, GRPC_CHECK, ALLOWED, 'allowed');
  },
  replyTo: (check, refusal) => {
    const location = loginOf(check, refusal);
    return location === null ? denial(refusal) : { status: 303, headers: ['Location', location] };
  },
  write: ({ recipient: call, record, allowed }, reply) => {
    // A fault after allow() still ends in a refusal.
    const response = reply === ALLOWED ? allowed : undefined;
    call.headersSent = true;
    call.answer(response ?? denied(reply, record.requestId));
  },
};

function denied(reply: Reply, requestId: string): CheckResponse {
  const { fields, body } = replyParts(reply, requestId);
  const headers = setFields(fields.filter((_, i) => fields[i - (i % 2)] !== 'Content-Length'));
  const { status } = reply;
  return { status: { code: codeOf(status) }, deniedResponse: { status: { code: status }, headers, body } };
}

function codeOf(status: number): number {
  if (status === 401) return UNAUTHENTICATED;
  if (status < 500) return PERMISSION_DENIED;
  return status === 503 ? UNAVAILABLE : INTERNAL;
}

const HOST = 'host';

/** The attributes in which Envoy repeats the pseudo-header fields (RFC 9113 8.3.1). */
const PSEUDO = { ':method': 'method', ':path': 'path', ':authority': 'host', ':scheme': 'scheme' } as const;

/**
 * Reads the request that a check is about, or refuses a check that leaves it unclear.
 * @param split splits joined fields
 * @param maxSize bytes of all fields together, as HTTP/1 would write them
 */
function readCheck(check: CheckRequest, split: FieldSplitter, maxSize: number): OriginalRequest | Refusal {
  const http = check.attributes?.request?.http;
  if (http == null)
    return malformedCheck(
      'attributes.request.http is missing in the CheckRequest (envoy.service.auth.v3); only HTTP requests can be checked',
    );
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
 * @param put adds a single field
 */
function addFields(
  fields: string[],
  http: HttpRequest,
  entries: readonly HeaderValue[],
  put: FieldSplitter,
): Refusal | undefined {
  const framing = new Framing(true);
  let hasHost = false;
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
    // Envoy reports the host as an attribute; one Host field with the same value is no second one.
    if (!hasHost && http.host.length > 0 && isHost(key) && bytes.equals(http.host)) {
      hasHost = true;
      continue;
    }
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

/** Adds the client's address. If Envoy does not report X-Forwarded-For, its own peer is the client. */
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
