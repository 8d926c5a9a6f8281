import { withoutSegments } from '../domain/path.js';
import type { Refusal } from '../domain/refusal.js';
import type { BoundRequest } from '../gate/assertion.js';
import type { Admitted, Verdict } from '../gate/verdict.js';
import { type Reply, refusalReply, withHeaders } from '../http/replies.js';
import type { RequestHead } from '../http/head.js';
import { countRequest, observeFirstByte } from '../observe/metrics/requests.js';
import type { Route } from '../policy/route.js';
import type { Upstream } from '../upstream/upstreams.js';
import { expiryFields, refusedLimitFields } from './response-fields.js';
import { faultRefusal } from './faults.js';
import { newRecord, noteVerdict } from './record.js';
import { newRequestId } from './request-id.js';
import type { Services } from './services.js';
import { beginTrace, endTrace, evaluate, traceCall } from './trace.js';

/** A request without authentication has no identity. */
const NOBODY: readonly string[] = [];

/**
 * The pipeline: one request from its head to its record, whichever entrance it came by.
 *
 * It reads the head, asks the gate, makes the identity headers, and ends in one of three ways: a
 * refusal, an answer of a built-in endpoint, or what the entrance does with a request that is allowed. Each way ends in
 * {@link finish}, which counts the request, ends its span and writes its log record, once.
 *
 * An entrance is a subclass. It says how its head is read, what "allowed" does and how an answer is written; what a
 * refusal looks like in the audit log, the metrics and the log is settled here for all of them.
 */
export abstract class RequestHandler {
  protected readonly services: Services;
  protected readonly record = newRecord(newRequestId());

  constructor(services: Services) {
    this.services = services;
  }

  /** The head, or why there is none that could be authorized. */
  protected abstract readHead(): RequestHead | Refusal;
  /** Does what this entrance is for with a request that is allowed. @param identity fields for the upstream, flat */
  protected abstract allow(head: RequestHead, admitted: Admitted, identity: readonly string[]): void;
  /** Serves a built-in endpoint. */
  protected abstract answerEndpoint(head: RequestHead, admitted: Admitted, name: string): void;
  /** Writes an answer of Latchkey's own. */
  protected abstract write(reply: Reply): void;
  /** Whether the client has disconnected, so that nothing needs to be written. */
  protected abstract get isGone(): boolean;
  /** Whether an answer has begun, so that no other can be written. */
  protected abstract get hasAnswered(): boolean;
  /** Aborts what is in progress. @returns whether the request is forwarded and so finishes by itself */
  protected abstract destroy(): boolean;

  /** Refuses a head that was read before the gate is asked. */
  protected refuseHead(_head: RequestHead): Refusal | undefined {
    return undefined;
  }

  /** Answers a head that needs no decision. @returns whether it did */
  protected answersUnauthorized(_head: RequestHead): boolean {
    return false;
  }

  /** The refusal that a verdict leads to at this entrance, which may have rules of its own about what it can forward. */
  protected refusalOf(_head: RequestHead, verdict: Verdict): Refusal | undefined {
    return verdict.refusal;
  }

  protected answerOf(refusal: Refusal): Reply {
    return refusalReply(refusal);
  }

  /** Takes the request through the pipeline. It never throws. */
  handle(): void {
    const { record, services } = this;
    try {
      const head = this.readHead();
      const isRefused = 'refusal' in head;
      if (services.tracing !== undefined) beginTrace(services.tracing, record, isRefused ? null : head);
      if (isRefused) {
        this.refuse(head);
        return;
      }
      record.head = head;
      const refusal = this.refuseHead(head);
      if (refusal !== undefined) this.refuse(refusal);
      else if (!this.answersUnauthorized(head)) this.#evaluate(head);
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
    noteVerdict(this.record, verdict);
    const refusal = this.refusalOf(head, verdict);
    const { shadow } = this.services;
    // What an entrance refuses by a rule of its own is refused by any policy.
    if (shadow !== null && refusal === verdict.refusal) shadow.judge(head, verdict, this.record.requestId);
    if (this.isGone) {
      this.finish();
      return;
    }
    if (refusal !== undefined) {
      this.refuse(refusal);
      return;
    }
    const admitted = verdict as Admitted;
    const { endpoint } = admitted.route;
    if (endpoint === null) this.#identify(head, admitted);
    else this.answerEndpoint(head, admitted, endpoint.name);
  }

  #identify(head: RequestHead, admitted: Admitted): void {
    const { subject } = admitted;
    const bound = this.services.bindsAssertions ? this.boundRequest(head, admitted.route) : null;
    const identity = subject === null ? NOBODY : this.services.identify(subject, Date.now(), bound);
    if (!(identity instanceof Promise)) this.allow(head, admitted, identity);
    else
      identity
        .then((fields) => {
          if (this.isGone) this.finish();
          else this.allow(head, admitted, fields);
        })
        .catch((error: unknown) => this.fault(error));
  }

  /** What an assertion is bound to: the request that was judged, where another proxy forwards it. */
  protected boundRequest({ method, target }: RequestHead, _route: Route): BoundRequest {
    return { method, target, requestId: this.record.requestId };
  }

  /** The same where Latchkey forwards: with the target as the upstream receives it. */
  protected forwardedRequest({ method, target }: RequestHead, route: Route): BoundRequest {
    const { services, record } = this;
    const { addresses } = services.upstreamOf(route.upstream ?? services.defaultUpstream);
    // The configuration was checked: all addresses have the same path.
    const prefix = addresses[0]?.prefix ?? '';
    return {
      method,
      target: prefix + withoutSegments(target, route.strippedSegments),
      requestId: record.requestId,
    };
  }

  /** What the answer says of the expiry of the token that asks, flat. */
  protected expiryFields(): readonly string[] {
    return expiryFields(this.services.expiryWarning, this.record.subject);
  }

  protected upstreamOf(route: Route): Upstream {
    const name = route.upstream ?? this.services.defaultUpstream;
    this.record.upstream = name;
    return this.services.upstreamOf(name);
  }

  /** Fields for the upstream, flat. @param target what it is asked for, without the path of its address */
  protected fieldsFor(
    head: RequestHead,
    identity: readonly string[],
    upstream: Upstream,
    target: string,
  ): string[] {
    const { requestId, trace } = this.record;
    const fields = this.services.requestHeaders(head, identity, requestId);
    if (trace !== undefined) fields.push(...traceCall(trace, upstream, head.method, target));
    return fields;
  }

  /** Answers with a refusal. */
  protected refuse(refusal: Refusal): void {
    const { record, services } = this;
    // What is refused behind the gate was not let through either.
    if (record.admitted !== null) record.admitted = false;
    services.auditor.refused(refusal, record);
    this.writeRefusal(refusal, [
      ...refusedLimitFields(services.rateLimitNames, refusal),
      ...this.expiryFields(),
    ]);
    this.finish();
  }

  /** Notes and writes a refusal, without an end. @param fields more fields of the answer, flat */
  protected writeRefusal(refusal: Refusal, fields: readonly string[]): void {
    this.record.outcome = refusal.refusal;
    this.record.detail = 'detail' in refusal ? refusal.detail : undefined;
    const reply = withHeaders(this.answerOf(refusal), fields);
    this.record.status = reply.status;
    this.write(this.worded(reply));
  }

  /** A refusal as the protocol that the client speaks inside of HTTP says it. */
  protected worded(reply: Reply): Reply {
    return reply;
  }

  /** Answers a request that is done. @param outcome its tag in log and metrics */
  protected answer(reply: Reply, outcome: string): void {
    this.record.outcome = outcome;
    this.record.status = reply.status;
    this.write(reply);
    this.finish();
  }

  /** Faults deny. The cause goes to the log, not to the client. It never throws: errors end here. */
  protected fault(error: unknown): void {
    const { logFault } = this.services;
    logFault(error, 'request refused because of a fault', this.record.requestId);
    if (!this.hasAnswered) {
      try {
        this.refuse(faultRefusal(error));
        return;
      } catch (again) {
        logFault(again, 'refusal failed; connection closed', this.record.requestId);
      }
    }
    if (!this.destroy()) this.finish();
  }

  /** Counts the request, ends its span and writes its log record. The second time nothing happens. */
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
