import { performance } from 'node:perf_hooks';
import { withoutSegments } from '../domain/path.js';
import type { Subject } from '../domain/credential.js';
import { type Refusal, Unavailable } from '../domain/refusal.js';
import type { BoundRequest } from '../gate/assertion.js';
import type { Admitted, Verdict } from '../gate/verdict.js';
import { ignoredAuthorization } from '../http/authorization.js';
import { type Reply, refusalReply, withHeaders } from '../http/replies.js';
import { peerAddress, type PeerSocket } from '../http/client-address.js';
import { joinFields } from '../http/fields.js';
import type { RequestHead } from '../http/head.js';
import { countRequest, observeFirstByte } from '../observe/metrics/requests.js';
import type { Route } from '../policy/route.js';
import { expiryFields, refusedLimitFields } from './response-fields.js';
import { newRecord, newRequestId, noteFindings, noteVerdict } from './record.js';
import type { Services } from './services.js';
import { beginTrace, endTrace, evaluate } from './trace.js';

const NOBODY: readonly string[] = [];

/** What the answer to a request goes to. */
export interface Recipient {
  /** Whether it can receive no more. */
  readonly destroyed: boolean;
  /** Whether an answer has begun. */
  readonly headersSent: boolean;
  destroy(): unknown;
}

export abstract class RequestHandler {
  protected readonly services: Services;
  protected readonly record = newRecord(newRequestId());
  /** Whether the request is being forwarded, and so finishes by itself. */
  protected isForwarded = false;
  readonly #peer: PeerSocket;
  readonly #recipient: Recipient;
  readonly #forwards: boolean;

  /** @param forwards whether Latchkey forwards allowed requests itself */
  constructor(services: Services, peer: PeerSocket, recipient: Recipient, forwards = false) {
    this.services = services;
    this.#peer = peer;
    this.#recipient = recipient;
    this.#forwards = forwards;
  }

  get head(): RequestHead {
    return this.record.head as RequestHead;
  }

  get subject(): Subject | null {
    return this.record.subject;
  }

  /** Reads the head, or returns why it cannot be authorized. */
  protected abstract readHead(): RequestHead | Refusal;
  protected abstract allow(head: RequestHead, admitted: Admitted, identity: readonly string[]): void;
  protected abstract write(reply: Reply, isRefusal: boolean): void;

  /** Answers a request that needs no decision. @returns whether it did */
  protected answersAtOnce(_head: RequestHead): boolean {
    return false;
  }

  /** Only for an entrance whose {@link refusalOf} does not refuse all built-in endpoints. */
  protected answerEndpoint(_head: RequestHead, _admitted: Admitted, name: string): void {
    throw new Error(`the endpoint ${name} is not served here`);
  }

  /** An entrance may have rules of its own about what it can forward. */
  protected refusalOf(_head: RequestHead, verdict: Verdict): Refusal | undefined {
    return verdict.refusal;
  }

  protected answerOf(refusal: Refusal): Reply {
    return refusalReply(refusal);
  }

  handle(): void {
    const { record, services } = this;
    try {
      const head = this.readHead();
      const isRefused = 'refusal' in head;
      if (services.tracing !== undefined) beginTrace(services.tracing, record, isRefused ? null : head);
      if (isRefused) {
        record.peer = peerAddress(this.#peer);
        if ('path' in head) record.unserved = head;
        this.refuse(head);
        return;
      }
      record.head = head;
      if (!this.answersAtOnce(head)) this.#evaluate(head);
    } catch (error) {
      this.fault(error);
    }
  }

  #evaluate(head: RequestHead): void {
    const verdict = evaluate(this.record.trace, this.services.gate, head);
    if (verdict instanceof Promise)
      verdict.then((v) => this.#follow(head, v)).catch((error: unknown) => this.fault(error));
    else this.#follow(head, verdict);
  }

  #follow(head: RequestHead, verdict: Verdict): void {
    const { record } = this;
    noteVerdict(record, verdict);
    const refusal = this.refusalOf(head, verdict);
    const { shadow } = this.services;
    // An entrance's own rules refuse the request under any policy.
    if (shadow !== null && refusal === verdict.refusal) shadow.compare(head, verdict, this.record.requestId);
    if (this.#recipient.destroyed) {
      this.finish();
      return;
    }
    if (refusal !== undefined) {
      this.refuse(refusal);
      return;
    }
    this.#admit(head, verdict as Admitted, record.startedAt);
  }

  /** @param judgedAt `performance.now()` before its verdict */
  #admit(head: RequestHead, admitted: Admitted, judgedAt: number): void {
    const { route } = admitted;
    if (this.services.hasEndedSince(admitted.subject, judgedAt)) this.#admitAgain(head, admitted);
    else if (route.endpoint === null) this.#identify(head, admitted, judgedAt);
    else this.answerEndpoint(head, admitted, route.endpoint.name);
  }

  #identify(head: RequestHead, admitted: Admitted, judgedAt: number): void {
    const { subject } = admitted;
    const bound = this.services.bindsAssertions ? this.#boundRequest(head, admitted.route) : null;
    const identity = subject === null ? NOBODY : this.services.identify(subject, Date.now(), bound);
    if (!(identity instanceof Promise)) this.allow(head, admitted, identity);
    else
      identity
        .then((fields) => {
          if (this.#recipient.destroyed) this.finish();
          else if (this.services.hasEndedSince(subject, judgedAt)) this.#admitAgain(head, admitted);
          else this.allow(head, admitted, fields);
        })
        .catch((error: unknown) => this.fault(error));
  }

  #admitAgain(head: RequestHead, admitted: Admitted): void {
    this.judgeAgain(head, admitted, this.services)
      .then((again) => again && this.#admit(head, again, performance.now()))
      .catch((error: unknown) => this.fault(error));
  }

  /**
   * Judges an admitted request again, because its credential changed or because it waited. Nothing is counted
   * twice.
   * @returns undefined when it is no longer allowed and was refused, or the client disconnected
   */
  protected async judgeAgain(
    head: RequestHead,
    { writes, guarded }: Admitted,
    { recheckGate, hasEndedSince }: Services,
  ): Promise<Admitted | undefined> {
    for (;;) {
      const judgedAt = performance.now();
      const verdict = await evaluate(this.record.trace, recheckGate, head);
      if (hasEndedSince(verdict.subject, judgedAt)) continue;
      noteFindings(this.record, verdict);
      const refusal = this.refusalOf(head, verdict);
      if (this.#recipient.destroyed) this.finish();
      else if (refusal !== undefined) this.refuse(refusal);
      else return { ...(verdict as Admitted), ...(writes && { writes }), ...(guarded && { guarded }) };
      return undefined;
    }
  }

  /** The request that an assertion is bound to: as whoever checks the assertion receives it. */
  #boundRequest({ method, target }: RequestHead, { upstream, strippedSegments }: Route): BoundRequest {
    const { requestId } = this.record;
    if (!this.#forwards) return { method, target, requestId };
    // The configuration check ensured that all addresses have the same path.
    const prefix = this.services.upstreamOf(upstream).addresses[0]?.prefix ?? '';
    return { method, target: prefix + withoutSegments(target, strippedSegments), requestId };
  }

  protected expiryFields(): readonly string[] {
    return expiryFields(this.services.expiryWarning, this.record.subject);
  }

  protected refuse(refusal: Refusal): void {
    const { record, services } = this;
    // A refusal after the gate means that the request was not admitted either.
    if (record.admitted !== null) record.admitted = false;
    services.auditor.refused(refusal, record);
    const limits = refusedLimitFields(services.rateLimitNames, refusal);
    this.writeRefusal(refusal, joinFields(limits, this.expiryFields()));
    this.finish();
  }

  /** Records and writes a refusal, without finishing the request. @param fields more response fields, flat */
  protected writeRefusal(refusal: Refusal, fields: readonly string[]): void {
    const { record, services } = this;
    record.outcome = refusal.refusal;
    record.detail = 'detail' in refusal ? refusal.detail : undefined;
    const answer = this.answerOf(refusal);
    const isChallenge = answer.status === 401;
    if (isChallenge && record.head !== null && record.head.key === undefined)
      record.detail ??= ignoredAuthorization(record.head.fields, services.schemes);
    const challenged = isChallenge ? services.challenge(answer, record.head, refusal) : answer;
    const reply = withHeaders(challenged, fields);
    record.status = reply.status;
    this.write(reply, true);
  }

  protected answer(reply: Reply, outcome: string): void {
    this.record.outcome = outcome;
    this.record.status = reply.status;
    this.write(reply, false);
    this.finish();
  }

  /** The cause goes to the log, not to the client. Never throws. */
  protected fault(error: unknown): void {
    const { logFault } = this.services;
    const { requestId } = this.record;
    const isUnavailable = error instanceof Unavailable;
    if (isUnavailable) logFault(error, 'request refused; something that it needs is unavailable', requestId);
    else logFault(error, 'internal error; request refused', requestId);
    if (!this.#recipient.headersSent) {
      try {
        this.refuse(isUnavailable ? error.refusal : { refusal: 'fault' });
        return;
      } catch (again) {
        logFault(again, 'error response failed; connection closed', requestId);
      }
    }
    this.#recipient.destroy();
    if (!this.isForwarded) this.finish();
  }

  protected finish(): void {
    const { record } = this;
    if (record.finished) return;
    record.finished = true;
    const ms = performance.now() - record.startedAt;
    countRequest(record.endpoint ?? record.route, record.outcome, record.status, ms / 1000);
    const { upstream, sentAt, firstByteAt } = record;
    if (upstream !== null && sentAt !== null && firstByteAt !== null)
      observeFirstByte(upstream, (firstByteAt - sentAt) / 1000);
    if (record.trace !== undefined) endTrace(record.trace, record);
    const { accessLog } = this.services;
    if (accessLog.wants(record)) accessLog.write(record, ms);
  }
}
