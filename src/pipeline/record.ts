import { randomFillSync } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { Subject } from '../domain/credential.js';
import type { Verdict } from '../gate/verdict.js';
import type { RequestHead } from '../http/head.js';
import { countStarted, observeDecision } from '../observe/metrics/requests.js';
import type { RequestTrace } from '../observe/tracing.js';
import type { Decision } from '../policy/decide.js';
import type { Route } from '../policy/route.js';

export interface RequestRecord {
  readonly requestId: string;
  /** `performance.now()` when the head was read. The times below use the same clock. */
  readonly startedAt: number;
  head: RequestHead | null;
  /** The request line of a method that is not served; null for all other requests. */
  unserved: { readonly method: string; readonly path: string } | null;
  /**
   * Address of the connection's other end, for a head that was refused: nobody reads what a proxy says in it.
   */
  peer: string | undefined;
  route: string | null;
  endpoint: string | null;
  action: string | null;
  subject: Subject | null;
  /** The policy's decision; null where the policy was not asked. */
  decision: Decision | null;
  /** Where the route sends browsers, if it refused the request ({@link Route.loginPath}). */
  loginPath: string | null;
  /** Whether the gate and the steps after it let the request through; null when the gate was not asked. */
  admitted: boolean | null;
  decidedAt: number | null;
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

export function noteFindings(record: RequestRecord, verdict: Verdict): void {
  noteRoute(record, verdict.route);
  record.action = verdict.action;
  record.subject = verdict.subject;
  record.decision = verdict.decision;
  record.admitted = verdict.refusal === undefined;
  if (!record.admitted) record.loginPath = verdict.route?.loginPath ?? null;
}

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

/** 120 bits: not guessable from the ids of other requests. */
const ID_BYTES = 15;
const pool = Buffer.alloc(ID_BYTES * 256);
let next = pool.length;

/** Returns a random request id of 20 characters, so that nobody learns how many requests others send. */
export function newRequestId(): string {
  if (next === pool.length) {
    randomFillSync(pool);
    next = 0;
  }
  next += ID_BYTES;
  return pool.toString('base64url', next - ID_BYTES, next);
}
