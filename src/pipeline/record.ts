import { performance } from 'node:perf_hooks';
import type { Subject } from '../domain/credential.js';
import type { Verdict } from '../gate/verdict.js';
import type { RequestHead } from '../http/head.js';
import { countStarted, observeDecision } from '../observe/metrics/requests.js';
import type { RequestTrace } from '../observe/tracing.js';
import type { Decision } from '../policy/decide.js';
import type { Route } from '../policy/route.js';

/** Everything known about a request when it ends, for its log entry, metrics and span. */
export interface RequestRecord {
  readonly requestId: string;
  /** `performance.now()` when the head was read. The times below use the same clock. */
  readonly startedAt: number;
  head: RequestHead | null;
  /** The request line of a method that is not served; null for all other requests. */
  unserved: { readonly method: string; readonly path: string } | null;
  /**
   * Address of the other end of the connection; undefined unless the head was refused. A client may
   * be behind it: nobody reads what a proxy says in such a head.
   */
  peer: string | undefined;
  /** Name of the route, or null. */
  route: string | null;
  /** Name of the built-in endpoint that the route leads to, or null. */
  endpoint: string | null;
  action: string | null;
  subject: Subject | null;
  /** The policy's decision; null where the policy was not asked. */
  decision: Decision | null;
  /** Where the route sends browsers, if it refused the request ({@link Route.loginPath}). */
  loginPath: string | null;
  /**
   * Whether the gate and the steps after it let the request through; null when the gate was not
   * asked.
   */
  admitted: boolean | null;
  decidedAt: number | null;
  /** Name of the upstream that it was forwarded to, or null. */
  upstream: string | null;
  /** When the request was sent to the upstream, and when the first byte of the response arrived. */
  sentAt: number | null;
  firstByteAt: number | null;
  upstreamStatus: number | null;
  /** `forwarded`, `answered`, `aborted`, or the tag of the refusal. */
  outcome: string;
  status: number | null;
  detail: string | undefined;
  trace: RequestTrace | undefined;
  finished: boolean;
}

/** Begins the record of a request, which counts as in flight until it is counted as finished. */
export function newRecord(requestId: string): RequestRecord {
  countStarted();
  return emptyRecord(requestId);
}

export function emptyRecord(requestId: string): RequestRecord {
  return {
    requestId,
    startedAt: performance.now(),
    head: null,
    unserved: null,
    peer: undefined,
    route: null,
    endpoint: null,
    action: null,
    subject: null,
    decision: null,
    loginPath: null,
    admitted: null,
    decidedAt: null,
    upstream: null,
    sentAt: null,
    firstByteAt: null,
    upstreamStatus: null,
    outcome: 'aborted',
    status: null,
    detail: undefined,
    trace: undefined,
    finished: false,
  };
}

export function noteRoute(record: RequestRecord, route: Route | null): void {
  record.route = route === null ? null : route.name;
  record.endpoint = route === null || route.endpoint === null ? null : route.endpoint.name;
}

/** Records what a verdict found. */
export function noteFindings(record: RequestRecord, verdict: Verdict): void {
  noteRoute(record, verdict.route);
  record.action = verdict.action;
  record.subject = verdict.subject;
  record.decision = verdict.decision;
  record.admitted = verdict.refusal === undefined;
  if (!record.admitted) record.loginPath = verdict.route?.loginPath ?? null;
}

/** Records the gate's first verdict on a request, and when it was made. */
export function noteVerdict(record: RequestRecord, verdict: Verdict): void {
  noteFindings(record, verdict);
  record.decidedAt = performance.now();
  observeDecision((record.decidedAt - record.startedAt) / 1000);
  record.trace?.decided(record.decidedAt, {
    'latchkey.action': record.action,
    'latchkey.decision': verdict.refusal === undefined ? 'allowed' : 'refused',
    'latchkey.reason': verdict.refusal?.refusal,
  });
}
