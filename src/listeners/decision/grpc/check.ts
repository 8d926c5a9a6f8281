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
import { newRecord, newRequestId } from '../../../pipeline/record.js';
import type { Services } from '../../../pipeline/services.js';
import { denial, limitFields, loginOf, readOriginalHead, refusalOfCheck, refuseFields } from '../check.js';
import { readCheck } from './original-request.js';
import { type CheckResponse, type Received, setField } from './messages.js';

/** Codes of `google.rpc.Code`. */
const OK = 0;
const PERMISSION_DENIED = 7;
const INTERNAL = 13;
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;

/** The reply that is counted and logged for an allowed request. */
const ALLOWED: Reply = { status: 200 };

/**
 * One call of `Check`. It is destroyed when the client cancelled it or its deadline has passed; `destroy` ends
 * it with an error, which Envoy does not treat as a decision.
 */
export interface CheckCall extends Recipient {
  readonly received: Received;
  readonly peer: PeerSocket;
  headersSent: boolean;
  readonly answer: (response: CheckResponse) => void;
}

/** @param maxSize bytes of all fields of a request together */
export function handleCheckCall(services: Services, maxSize: number, call: CheckCall): void {
  const record = newRecord(newRequestId());
  const check = {
    services,
    record,
    peer: call.peer,
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
    const original = readCheck(check.recipient.received.check, check.services.splitJoined, check.maxSize);
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
      refuse(check, GRPC_CHECK, notUtf8(fields[fields.indexOf(unsent) - 1] as string));
      return;
    }
    const toRemove = decisionHeaders.removed(head, fields);
    fields.push('X-Request-Id', check.record.requestId);
    check.allowed = {
      status: { code: OK },
      okResponse: {
        headers: optionsOf(fields),
        headersToRemove: toRemove,
        responseHeadersToAdd: optionsOf(limitFields(check.services, subject, writes)),
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
  const headers = optionsOf(fields.filter((_, i) => fields[i - (i % 2)] !== 'Content-Length'));
  const { status } = reply;
  return { status: { code: codeOf(status) }, deniedResponse: { status: { code: status }, headers, body } };
}

function codeOf(status: number): number {
  if (status === 401) return UNAUTHENTICATED;
  if (status < 500) return PERMISSION_DENIED;
  return status === 503 ? UNAVAILABLE : INTERNAL;
}

function optionsOf(fields: readonly string[]): ReturnType<typeof setField>[] {
  const options = [];
  for (let i = 0; i < fields.length; i += 2)
    options.push(setField(fields[i] as string, fields[i + 1] as string));
  return options;
}

/** Refuses a field that is not UTF-8: Envoy reads the values as text, and would see an error. */
function notUtf8(name: string): Refusal {
  return {
    refusal: 'malformed',
    detail: `the header ${name} is not UTF-8 and cannot be sent to Envoy over gRPC`,
  };
}
