// src/pipeline: one request from its head to its record, and `simulate` for `explain` and `check`.
// May import config, upstream and all below.
// `handle` below reads downwards; an entrance gives it five functions.

import { performance } from 'node:perf_hooks';
import { withoutSegments } from '../domain/path.js';
import { type Refusal, Unavailable } from '../domain/refusal.js';
import type { BoundRequest } from '../gate/identity.js';
import type { Admitted, Gate, Verdict } from '../gate/gate.js';
import { ignoredAuthorization } from '../http/authorization.js';
import { peerAddress, type PeerSocket } from '../http/client-address.js';
import { joinFields } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { type Reply, withHeaders } from '../http/replies.js';
import { countRequest, firstByteDuration } from '../observe/metrics/requests.js';
import type { Route } from '../policy/route.js';
import type { MaybePromise } from '../util/async.js';
import {
  beginTrace,
  endTrace,
  expiryFields,
  noteFindings,
  noteRoute,
  noteVerdict,
  refusedLimitFields,
  type RequestRecord,
} from './record.js';
import type { Services } from './services.js';

const NOBODY: readonly string[] = [];

/** What the answer to a request goes to. */
export interface Recipient {
  /** Whether it can receive no more. */
  readonly destroyed: boolean;
  /** Whether an answer has begun. */
  readonly headersSent: boolean;
  /** Bytes of the answer's body so far, where it has one. */
  readonly bytesSent?: number;
  destroy(): unknown;
}

/** One request on its way. Each entrance adds what it reads from and writes to. */
export interface Exchange {
  readonly services: Services;
  readonly record: RequestRecord;
  readonly peer: PeerSocket;
  /** The request that it arrived in. */
  readonly req: { readonly httpVersion: string };
  readonly recipient: Recipient;
  /** Whether the request is being forwarded, and so finishes by itself. */
  isForwarded: boolean;
}

/** How requests arrive and are answered. An entrance has no state: that is in its exchanges. */
export interface Entrance<X extends Exchange> {
  /** Whether Latchkey forwards allowed requests itself. */
  readonly forwards: boolean;
  /** Whether CORS preflights are answered: browsers send no credential with them. */
  readonly answersPreflights: boolean;
  /**
   * Reads the head, or returns why it cannot be authorized. A well-formed head that the entrance refuses by a
   * rule of its own is noted in the record.
   */
  read(exchange: X): RequestHead | Refusal;
  /** Returns the refusal of a verdict, or of a rule of its own about what it can forward. */
  refusalOf(exchange: X, head: RequestHead, verdict: Verdict): Refusal | undefined;
  /** Forwards an allowed request, answers it, or runs its built-in endpoint. */
  allow(exchange: X, head: RequestHead, admitted: Admitted, identity: readonly string[]): void;
  replyTo(exchange: X, refusal: Refusal): Reply;
  write(exchange: X, reply: Reply, isRefusal: boolean): void;
}

/**
 * Serves one request: reads its head, judges it, then forwards it, answers it or refuses it, and records it.
 * Nothing is awaited unless a step has to wait.
 */
export function handle<X extends Exchange>(exchange: X, entrance: Entrance<X>): void {
  const { record, services } = exchange;
  try {
    const head = entrance.read(exchange);
    const isRefused = 'refusal' in head;
    if (services.tracing !== undefined) beginTrace(services.tracing, record, isRefused ? record.head : head);
    if (isRefused) {
      if (record.head === null) noteUnread(exchange, head);
      refuse(exchange, entrance, head);
      return;
    }
    record.head = head;
    const preflight = entrance.answersPreflights ? services.cors?.preflight(head) : undefined;
    if (preflight !== undefined) {
      noteRoute(record, preflight.route);
      answer(exchange, entrance, { status: 204, headers: preflight.fields }, preflight.outcome);
      return;
    }
    const verdict = judge(record, services.gate, head);
    if (verdict instanceof Promise)
      verdict
        .then((found) => follow(exchange, entrance, head, found))
        .catch((error: unknown) => fault(exchange, entrance, error));
    else follow(exchange, entrance, head, verdict);
  } catch (error) {
    fault(exchange, entrance, error);
  }
}

/** Notes what is known of a request whose head was refused. */
function noteUnread({ record, peer }: Exchange, refusal: Refusal): void {
  record.peer = peerAddress(peer);
  if ('path' in refusal) record.unserved = refusal;
}

function judge({ trace }: RequestRecord, gate: Gate, head: RequestHead): MaybePromise<Verdict> {
  if (trace === undefined) return gate.evaluate(head, Date.now());
  return trace.run(() => gate.evaluate(head, Date.now()));
}

function follow<X extends Exchange>(
  exchange: X,
  entrance: Entrance<X>,
  head: RequestHead,
  verdict: Verdict,
): void {
  const { record, services } = exchange;
  noteVerdict(record, verdict);
  const refusal = entrance.refusalOf(exchange, head, verdict);
  const { shadow } = services;
  // An entrance's own rules refuse the request under any policy.
  if (shadow !== null && refusal === verdict.refusal) shadow.compare(head, verdict, record.requestId);
  if (exchange.recipient.destroyed) finish(exchange);
  else if (refusal !== undefined) refuse(exchange, entrance, refusal);
  else admit(exchange, entrance, head, verdict as Admitted, record.startedAt);
}

/** @param judgedAt `performance.now()` before its verdict */
function admit<X extends Exchange>(
  exchange: X,
  entrance: Entrance<X>,
  head: RequestHead,
  admitted: Admitted,
  judgedAt: number,
): void {
  const { services } = exchange;
  const { subject, route } = admitted;
  if (services.endings.hasEndedSince(subject, judgedAt)) {
    admitAgain(exchange, entrance, head, admitted);
    return;
  }
  if (subject === null || route.endpoint !== null) {
    entrance.allow(exchange, head, admitted, NOBODY);
    return;
  }
  const bound = services.bindsAssertions ? boundRequest(exchange, entrance, head, route) : null;
  const identity = services.identify(subject, Date.now(), bound);
  if (!(identity instanceof Promise)) entrance.allow(exchange, head, admitted, identity);
  else
    identity
      .then((fields) => {
        if (exchange.recipient.destroyed) finish(exchange);
        else if (services.endings.hasEndedSince(subject, judgedAt))
          admitAgain(exchange, entrance, head, admitted);
        else entrance.allow(exchange, head, admitted, fields);
      })
      .catch((error: unknown) => fault(exchange, entrance, error));
}

function admitAgain<X extends Exchange>(
  exchange: X,
  entrance: Entrance<X>,
  head: RequestHead,
  admitted: Admitted,
): void {
  judgeAgain(exchange, entrance, head, admitted, exchange.services)
    .then((again) => again && admit(exchange, entrance, head, again, performance.now()))
    .catch((error: unknown) => fault(exchange, entrance, error));
}

/**
 * Judges an admitted request again, because its credential changed or because it waited. Nothing is counted
 * twice.
 * @returns undefined when it is no longer allowed and was refused, or the client disconnected
 */
export async function judgeAgain<X extends Exchange>(
  exchange: X,
  entrance: Entrance<X>,
  head: RequestHead,
  { writes, guarded }: Admitted,
  { recheckGate, endings }: Services,
): Promise<Admitted | undefined> {
  for (;;) {
    const judgedAt = performance.now();
    const verdict = await judge(exchange.record, recheckGate, head);
    if (endings.hasEndedSince(verdict.subject, judgedAt)) continue;
    noteFindings(exchange.record, verdict);
    const refusal = entrance.refusalOf(exchange, head, verdict);
    if (exchange.recipient.destroyed) finish(exchange);
    else if (refusal !== undefined) refuse(exchange, entrance, refusal);
    else return { ...(verdict as Admitted), ...(writes && { writes }), ...(guarded && { guarded }) };
    return undefined;
  }
}

/** The request that an assertion is bound to: as whoever checks the assertion receives it. */
function boundRequest<X extends Exchange>(
  { services, record }: X,
  { forwards }: Entrance<X>,
  { method, target }: RequestHead,
  { upstream, strippedSegments }: Route,
): BoundRequest {
  const { requestId } = record;
  if (!forwards) return { method, target, requestId };
  // The configuration check ensured that all addresses have the same path.
  const prefix = services.upstreams.named(upstream).addresses[0]?.prefix ?? '';
  return { method, target: prefix + withoutSegments(target, strippedSegments), requestId };
}

export function answer<X extends Exchange>(
  exchange: X,
  entrance: Entrance<X>,
  reply: Reply,
  outcome: string,
): void {
  exchange.record.outcome = outcome;
  exchange.record.status = reply.status;
  entrance.write(exchange, reply, false);
  finish(exchange);
}

export function refuse<X extends Exchange>(exchange: X, entrance: Entrance<X>, refusal: Refusal): void {
  const { record, services } = exchange;
  // A refusal after the gate means that the request was not admitted either.
  if (record.admitted !== null) record.admitted = false;
  if (refusal.refusal === 'malformed_check' || refusal.refusal === 'own_endpoint')
    services.reportMisconfiguration(refusal);
  services.auditor.refused(refusal, record);
  const limits = refusedLimitFields(services.rateLimitNames, refusal);
  const expiry = expiryFields(services.expiryWarning, record.subject);
  writeRefusal(exchange, entrance, refusal, joinFields(limits, expiry));
  finish(exchange);
}

/** Records and writes a refusal, without finishing the request. @param fields more response fields, flat */
export function writeRefusal<X extends Exchange>(
  exchange: X,
  entrance: Entrance<X>,
  refusal: Refusal,
  fields: readonly string[],
): void {
  const { record, services } = exchange;
  record.outcome = refusal.refusal;
  record.detail = 'detail' in refusal ? refusal.detail : undefined;
  const plain = entrance.replyTo(exchange, refusal);
  const isChallenge = plain.status === 401;
  if (isChallenge && record.head !== null && record.head.key === undefined)
    record.detail ??= ignoredAuthorization(record.head.fields, services.schemes);
  const challenged = isChallenge ? services.challenge(plain, record.head, refusal) : plain;
  const reply = withHeaders(challenged, fields);
  record.status = reply.status;
  entrance.write(exchange, reply, true);
}

/** The cause goes to the log, not to the client. Never throws. */
export function fault<X extends Exchange>(exchange: X, entrance: Entrance<X>, error: unknown): void {
  const { recipient, record, services } = exchange;
  const { requestId } = record;
  const isUnavailable = error instanceof Unavailable;
  services.logFault(
    error,
    isUnavailable
      ? 'request refused; something that it needs is unavailable'
      : 'internal error; request refused',
    requestId,
  );
  if (!recipient.headersSent) {
    try {
      refuse(exchange, entrance, isUnavailable ? error.refusal : { refusal: 'fault' });
      return;
    } catch (again) {
      services.logFault(again, 'error response failed; connection closed', requestId);
    }
  }
  recipient.destroy();
  if (!exchange.isForwarded) finish(exchange);
}

/** Records the end of a request, once. */
export function finish({ record, services, req, recipient }: Exchange): void {
  if (record.finished) return;
  record.finished = true;
  const ms = performance.now() - record.startedAt;
  countRequest(record.endpoint ?? record.route, record.outcome, record.status, ms / 1000);
  const { upstream, sentAt, firstByteAt } = record;
  if (upstream !== null && sentAt !== null && firstByteAt !== null)
    firstByteDuration.of(upstream).observe((firstByteAt - sentAt) / 1000);
  if (record.trace !== undefined) endTrace(record.trace, record);
  const { accessLog } = services;
  if (accessLog.wants(record)) accessLog.write(record, ms, req.httpVersion, recipient.bytesSent);
}
