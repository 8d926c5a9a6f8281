import { isUtf8 } from 'node:buffer';
import type { Refusal } from '../../../domain/refusal.js';
import type { Admitted } from '../../../gate/verdict.js';
import type { PeerSocket } from '../../../http/client-address.js';
import type { RequestHead } from '../../../http/head.js';
import type { Reply } from '../../../http/replies.js';
import { replyParts } from '../../../http/write-reply.js';
import { rateLimitFields } from '../../../pipeline/response-fields.js';
import type { Recipient } from '../../../pipeline/request-handler.js';
import type { Services } from '../../../pipeline/services.js';
import { DecisionHandler } from '../handler.js';
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

/**
 * The entrance for Envoy's checks over gRPC.
 *
 * Refusals and faults are a `DeniedHttpResponse`. After an error, Envoy may be configured to let
 * requests through (`failure_mode_allow`); after a denial it never does.
 */
export class GrpcCheckHandler extends DecisionHandler {
  readonly #call: CheckCall;
  readonly #maxSize: number;
  #allowed: CheckResponse | undefined;

  /** @param maxSize bytes of all fields of a request together */
  constructor(services: Services, maxSize: number, call: CheckCall) {
    super(services, call.peer, call);
    this.#maxSize = maxSize;
    this.#call = call;
  }

  protected readHead(): RequestHead | Refusal {
    const { received, peer } = this.#call;
    const original = readCheck(received.check, this.services.splitJoined, this.#maxSize);
    // HTTP/1.1 as in Envoy's checks over HTTP, whatever its client speaks.
    return 'refusal' in original ? original : this.readOriginalHead(original, '1.1', peer);
  }

  protected get namesRemoved(): boolean {
    return true;
  }

  protected write(reply: Reply): void {
    // A fault after allow() still ends in a refusal.
    const allowed = reply === ALLOWED ? this.#allowed : undefined;
    const response = allowed ?? denied(reply, this.record.requestId);
    this.#call.headersSent = true;
    this.#call.answer(response);
  }

  protected allow(head: RequestHead, { writes }: Admitted, identity: readonly string[]): void {
    const { decisionHeaders, rateLimitNames } = this.services;
    const fields = decisionHeaders.fields(head, identity);
    const unsent = fields.find((value) => !isUtf8(Buffer.from(value, 'latin1')));
    if (unsent !== undefined) {
      this.refuse(notUtf8(fields[fields.indexOf(unsent) - 1] as string));
      return;
    }
    const toRemove = decisionHeaders.removed(head, fields);
    fields.push('X-Request-Id', this.record.requestId);
    this.#allowed = {
      status: { code: OK },
      okResponse: {
        headers: optionsOf(fields),
        headersToRemove: toRemove,
        responseHeadersToAdd: optionsOf([...rateLimitFields(rateLimitNames, writes), ...this.expiryFields()]),
      },
    };
    this.answer(ALLOWED, 'allowed');
  }
}

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
