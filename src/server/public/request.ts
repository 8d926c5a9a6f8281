import type { IncomingMessage, ServerResponse } from 'node:http';
import { isRead } from '../../domain/methods.js';
import { withoutSegments } from '../../domain/path.js';
import type { Refusal } from '../../domain/refusal.js';
import type { Handler } from '../../endpoints/call.js';
import type { Admitted, Gate, Verdict } from '../../gate/gate.js';
import type { Identify } from '../../gate/identity.js';
import { type Answer, answerRefusal, withFields } from '../../http/answers.js';
import { parseBody } from '../../http/body.js';
import type { RequestHead } from '../../http/head.js';
import { type BodyLimits, readBody } from '../../http/read-body.js';
import type { HeadReader } from '../../http/read-head.js';
import { writeAnswer } from '../../http/write-answer.js';
import type { Log } from '../../observe/log.js';
import type { Tracing } from '../../observe/tracing.js';
import type { EndpointName } from '../../policy/own-endpoints.js';
import type { Carried, Forward, ForwardOutcome } from '../../proxy/job.js';
import type { Outbound } from '../../proxy/outbound.js';
import type { Upstream } from '../../proxy/upstreams.js';
import type { FaultLog } from './fault-log.js';
import type { Auditor } from './auditor.js';
import { faultRefusal } from './faults.js';
import { type RateLimitNames, rateLimitFields, refusedLimitFields } from './rate-limit-fields.js';
import type { AccessLog } from './access-log.js';
import { finishRecord, newRecord, noteVerdict, type RequestRecord } from './record.js';
import { beginTrace, judge, traceCall } from './request-trace.js';
import { newRequestId } from './request-id.js';
import type { Stream, Streams, Watch } from './streams.js';

/** The rooms that a request walks through. */
export interface House {
  readonly readHead: HeadReader;
  readonly bodyLimits: BodyLimits;
  readonly gate: Gate;
  readonly endpoints: Readonly<Record<EndpointName, Handler>>;
  readonly outbound: Outbound;
  readonly forward: Forward;
  readonly identify: Identify;
  readonly rateLimitNames: RateLimitNames;
  readonly upstreamOf: (name: string) => Upstream;
  /** Name of the upstream of a route that names none. */
  readonly defaultUpstream: string;
  readonly log: Log;
  readonly accessLog: AccessLog;
  /** undefined while tracing is off. */
  readonly tracing: Tracing | undefined;
  readonly auditor: Auditor;
  readonly logFault: FaultLog;
}

/**
 * The line that every request walks: head, gate, then an own endpoint or the upstream.
 *
 * @param house the rooms as they are now; a request walks those that it began in to its end
 * @param streams where requests are watched while they are carried
 */
export function createRequestListener(house: () => House, streams: Streams) {
  return function onRequest(req: IncomingMessage, res: ServerResponse): void {
    const walk = new Walk(house(), streams, req, res);
    walk.start();
  };
}

/** Nothing is told of a request without authentication. */
const NOBODY: readonly string[] = [];

const OUTCOME_OF_ABORT = {
  client: 'aborted_by_client',
  upstream: 'aborted_by_upstream',
  cut: 'ended_by_recheck',
} as const;

/** One request on its way. */
class Walk implements Stream {
  readonly #house: House;
  readonly #streams: Streams;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #record: RequestRecord;
  #carried: Carried | undefined;
  #watch: Watch | undefined;

  constructor(house: House, streams: Streams, req: IncomingMessage, res: ServerResponse) {
    this.#house = house;
    this.#streams = streams;
    this.#req = req;
    this.#res = res;
    this.#record = newRecord(newRequestId());
  }

  start(): void {
    const { readHead, gate, tracing } = this.#house;
    const record = this.#record;
    try {
      const head = readHead(this.#req);
      if (tracing !== undefined) beginTrace(tracing, record, 'refusal' in head ? null : head);
      if ('refusal' in head) {
        this.#refuse(head);
        return;
      }
      record.head = head;
      const verdict = judge(record.trace, gate, head);
      if (verdict instanceof Promise)
        verdict.then((v) => this.#follow(head, v)).catch((e: unknown) => this.#fault(e));
      else this.#follow(head, verdict);
    } catch (error) {
      this.#fault(error);
    }
  }

  #follow(head: RequestHead, verdict: Verdict): void {
    const record = this.#record;
    noteVerdict(record, verdict);
    if (this.#res.destroyed) finishRecord(record, this.#house.accessLog);
    else if (verdict.refusal !== undefined) this.#refuse(verdict.refusal);
    else if (verdict.route.endpoint === null) this.#tell(head, verdict);
    else
      this.#serve(head, verdict, verdict.route.endpoint.name).catch((error: unknown) => this.#fault(error));
  }

  async #serve(head: RequestHead, { path, subject }: Admitted, endpoint: EndpointName): Promise<void> {
    const { endpoints, auditor, bodyLimits } = this.#house;
    const handler = endpoints[endpoint];
    if (!isRead(head.method)) auditor.ensureWritable();
    if (head.expectsContinue) this.#res.writeContinue();
    const bytes = await readBody(this.#req, head.contentLength, bodyLimits);
    if (bytes === undefined) {
      finishRecord(this.#record, this.#house.accessLog);
      return;
    }
    const body = Buffer.isBuffer(bytes) ? parseBody(bytes, head.contentType) : bytes;
    if ('refusal' in body) {
      this.#refuse(body);
      return;
    }
    const call = { head, path, body, subject, now: Date.now() };
    const { trace } = this.#record;
    const answer = await (trace === undefined ? handler(call) : trace.run(() => handler(call)));
    if ('refusal' in answer) this.#refuse(answer);
    else {
      auditor.record(answer.facts, this.#record);
      this.#answer(answer, 'answered');
    }
  }

  /** Finds out how the upstream is told who is calling, and only then forwards. */
  #tell(head: RequestHead, admitted: Admitted): void {
    const { subject } = admitted;
    const identity = subject === null ? NOBODY : this.#house.identify(subject, Date.now());
    if (!(identity instanceof Promise)) this.#forward(head, admitted, identity);
    else
      identity
        .then((fields) => {
          if (this.#res.destroyed) finishRecord(this.#record, this.#house.accessLog);
          else this.#forward(head, admitted, fields);
        })
        .catch((error: unknown) => this.#fault(error));
  }

  #forward(head: RequestHead, { route, subject, writes }: Admitted, identity: readonly string[]): void {
    const { outbound, forward, upstreamOf, rateLimitNames } = this.#house;
    const { requestId, trace } = this.#record;
    const name = route.upstream ?? this.#house.defaultUpstream;
    const upstream = upstreamOf(name);
    const left = rateLimitFields(rateLimitNames, writes);
    const fields = outbound(head, identity, requestId);
    this.#record.upstream = name;
    const { strippedSegments: stripped } = route;
    const target = stripped === 0 ? head.target : withoutSegments(head.target, stripped);
    if (trace !== undefined) fields.push(...traceCall(trace, upstream, head.method, target));
    if (subject !== null) this.#watch = this.#streams.watch(this);
    this.#carried = forward({
      head,
      req: this.#req,
      res: this.#res,
      upstream,
      target,
      fields,
      responseFields: ['X-Request-Id', requestId, ...left],
      refuse: (refusal) => {
        this.#record.outcome = refusal.refusal;
        this.#write(withFields(answerRefusal(refusal), left), refusal);
      },
      done: (outcome) => this.#carriedToEnd(outcome),
    });
  }

  #carriedToEnd({ status, aborted, sentAt, firstByteAt }: ForwardOutcome): void {
    const record = this.#record;
    if (this.#watch !== undefined) this.#streams.end(this.#watch);
    record.sentAt = sentAt;
    record.firstByteAt = firstByteAt;
    record.upstreamStatus = status;
    if (record.outcome === 'aborted') {
      record.status = status;
      record.outcome = aborted === null ? 'forwarded' : OUTCOME_OF_ABORT[aborted];
    }
    finishRecord(record, this.#house.accessLog);
  }

  /** What it was let in with no longer holds. */
  cut(reason: Refusal): void {
    this.#record.detail = reason.refusal;
    this.#house.auditor.streamEnded(reason, this.#record);
    this.#carried?.cut();
  }

  get head(): RequestHead {
    return this.#record.head as RequestHead;
  }

  #refuse(refusal: Refusal): void {
    this.#record.outcome = refusal.refusal;
    this.#house.auditor.refused(refusal, this.#record);
    const left = refusedLimitFields(this.#house.rateLimitNames, refusal);
    this.#write(withFields(answerRefusal(refusal), left), refusal);
    finishRecord(this.#record, this.#house.accessLog);
  }

  #answer(answer: Answer, outcome: string): void {
    this.#record.outcome = outcome;
    this.#write(answer);
    finishRecord(this.#record, this.#house.accessLog);
  }

  #write(answer: Answer, refusal?: Refusal): void {
    this.#record.status = answer.status;
    this.#record.detail = refusal !== undefined && 'detail' in refusal ? refusal.detail : undefined;
    writeAnswer(this.#req, this.#res, answer, this.#record.requestId);
  }

  /** Faults deny. What went wrong is for the log, not for the client. */
  #fault(error: unknown): void {
    const refusal = faultRefusal(error);
    this.#house.logFault(error, 'request refused because of a fault', this.#record.requestId);
    if (!this.#res.headersSent) {
      this.#refuse(refusal);
      return;
    }
    this.#res.destroy();
    // What is carried ends with its answer.
    if (this.#carried === undefined) finishRecord(this.#record, this.#house.accessLog);
  }
}
