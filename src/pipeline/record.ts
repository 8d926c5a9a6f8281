import { randomFillSync } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import type { WritesLeft } from '../accounts/token-rates.js';
import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import type { Verdict } from '../gate/gate.js';
import type { RequestHead } from '../http/head.js';
import { countStarted, decisionDuration } from '../observe/metrics/requests.js';
import type { RequestTrace, Tracing } from '../observe/tracing/spans.js';
import type { Decision } from '../policy/decide.js';
import type { Route } from '../policy/route.js';
import { formatTime } from '../util/time.js';
import type { Upstream } from '../upstream/upstreams.js';

export class RequestRecord {
  readonly requestId: string;
  /** `performance.now()` when the head was read. The times below use the same clock. */
  readonly startedAt = performance.now();
  head: RequestHead | null = null;
  /** The request line of a method that is not served; null for all other requests. */
  unserved: { readonly method: string; readonly path: string } | null = null;
  /**
   * Address of the connection's other end, for a head that was refused: nobody reads what a proxy says in it.
   */
  peer: string | undefined = undefined;
  route: string | null = null;
  endpoint: string | null = null;
  action: string | null = null;
  subject: Subject | null = null;
  /** The policy's decision; null where the policy was not asked. */
  decision: Decision | null = null;
  /** Where the route sends browsers, if it refused the request ({@link Route.loginPath}). */
  loginPath: string | null = null;
  /** Whether the gate and the steps after it let the request through; null when the gate was not asked. */
  admitted: boolean | null = null;
  decidedAt: number | null = null;
  upstream: string | null = null;
  upstreamAddress: string | undefined = undefined;
  /** When the request was sent to the upstream, and when the first byte of the response arrived. */
  sentAt: number | null = null;
  firstByteAt: number | null = null;
  upstreamStatus: number | null = null;
  /** `forwarded`, `answered`, `aborted`, or the tag of the refusal. */
  outcome = 'aborted';
  status: number | null = null;
  detail: string | undefined = undefined;
  trace: RequestTrace | undefined = undefined;
  finished = false;

  constructor(requestId: string) {
    this.requestId = requestId;
  }
}

export function newRecord(): RequestRecord {
  countStarted();
  return new RequestRecord(newRequestId());
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
  decisionDuration.observe((record.decidedAt - record.startedAt) / 1000);
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

const NONE: readonly string[] = [];

/** When a response states the expiry of the request's token, and in which field (`tokens.warn_before`). */
export interface ExpiryWarning {
  readonly name: string;
  readonly before: number;
}

/** Returns the field with the expiry of a token that expires soon. */
export function expiryFields(warning: ExpiryWarning | null, subject: Subject | null): readonly string[] {
  if (warning === null || subject === null) return NONE;
  // JWTs are short-lived by design, and cannot be renewed here.
  if (subject.credential === 'session' || subject.credential === 'jwt') return NONE;
  const { expiresAt } = subject.token;
  if (expiresAt === null || expiresAt - Date.now() > warning.before) return NONE;
  return [warning.name, formatTime(expiresAt)];
}

export interface RateLimitNames {
  readonly remaining: string;
  readonly reset: string;
}

/** Returns the fields with the user's remaining writes; none when the request was not counted. */
export function rateLimitFields(names: RateLimitNames, writes: WritesLeft | undefined): readonly string[] {
  if (writes === undefined) return NONE;
  const left = Math.max(0, writes.remaining);
  return [names.remaining, String(left), names.reset, String(Math.floor(writes.resetAt / 1000))];
}

/** Returns the same fields for a refusal because of the write limit; none for any other refusal. */
export function refusedLimitFields(names: RateLimitNames, refusal: Refusal): readonly string[] {
  if (refusal.refusal !== 'rate_limited') return NONE;
  return rateLimitFields(names, { remaining: 0, resetAt: refusal.resetAt });
}

export function beginTrace(tracing: Tracing, record: RequestRecord, head: RequestHead | null): void {
  if (head === null) {
    record.trace = tracing.begin(record.startedAt, null);
    return;
  }
  const { method, path, client, userAgent, trace } = head;
  record.trace = tracing.begin(record.startedAt, {
    method,
    path,
    scheme: client.secure ? 'https' : 'http',
    host: client.host.replace(/:\d+$/, ''),
    client: client.address,
    userAgent,
    // If every sender's flag counted, any client could force its requests to be traced.
    parent: trace === undefined || client.behindTrustedProxy ? trace : { ...trace, sampled: undefined },
  });
}

/**
 * Begins the upstream's span, and returns its `traceparent` field.
 * @param target without the path of the upstream's address
 */
export function traceCall(
  trace: RequestTrace,
  { name, addresses }: Upstream,
  method: string,
  target: string,
): string[] {
  // With several addresses, one is chosen later, and a retry may use another.
  const [address] = addresses.length === 1 ? addresses : [];
  const path = (address?.prefix ?? '') + target.split('?', 1)[0];
  return ['traceparent', trace.call({ upstream: name, origin: address?.origin ?? null, method, path })];
}

export function endTrace(trace: RequestTrace, record: RequestRecord): void {
  const { route, status, outcome, subject, upstreamStatus } = record;
  trace.end(
    {
      route,
      status,
      outcome,
      values: {
        'latchkey.request_id': record.requestId,
        'latchkey.credential': subject?.credential,
        'latchkey.customer_id': subject?.user.customerId,
        'user.id': subject?.user.id,
        'latchkey.token_id':
          subject === null || subject.credential === 'session' || subject.credential === 'jwt'
            ? undefined
            : subject.token.id,
      },
    },
    upstreamStatus,
  );
}
