import type { Subject } from '../../domain/credential.js';
import type { RequestHead } from '../../http/head.js';
import { countRequest } from '../../observe/metrics.js';
import { printable } from '../../observe/printable.js';
import type { Log } from '../../observe/log.js';
import type { Decision } from '../../policy/decide.js';
import { describePlace } from '../../policy/rules.js';

/** Longest path and detail that are logged. */
const MAX_PATH = 512;
const MAX_DETAIL = 512;

/** What is known of one request when it ends; one log record and one count are made of it. */
export interface RequestRecord {
  readonly requestId: string;
  /** `performance.now()` when the head was read. */
  readonly startedAt: number;
  head: RequestHead | null;
  /** Path pattern of the route, or null. */
  route: string | null;
  action: string | null;
  subject: Subject | null;
  /** What the policy said; null where it was not asked. */
  decision: Decision | null;
  /** `forwarded`, `answered`, `aborted`, or the tag of the refusal. */
  outcome: string;
  status: number | null;
  detail: string | undefined;
}

/** A record for a request that has just come in. */
export function newRecord(requestId: string): RequestRecord {
  return {
    requestId,
    startedAt: performance.now(),
    head: null,
    route: null,
    action: null,
    subject: null,
    decision: null,
    outcome: 'aborted',
    status: null,
    detail: undefined,
  };
}

/** The rule that refused the request and its line, for whoever wonders why. */
function ruleOf(decision: Decision | null): string | undefined {
  if (decision === null || decision.allowed || decision.rule === null) return undefined;
  return describePlace(decision.rule.place);
}

/** Writes the record down. Ids only: no secret, no query, no body. */
export function finishRecord(record: RequestRecord, log: Log): void {
  const ms = performance.now() - record.startedAt;
  countRequest(record.outcome, record.status, ms / 1000);
  if (!log.isLevelEnabled('info')) return;
  const { head, subject } = record;
  log.info(
    {
      request_id: record.requestId,
      method: head?.method,
      path: head?.path.slice(0, MAX_PATH),
      status: record.status,
      outcome: record.outcome,
      detail: record.detail === undefined ? undefined : printable(record.detail.slice(0, MAX_DETAIL)),
      route: record.route,
      action: record.action,
      rule: ruleOf(record.decision),
      client: head?.client.address,
      user_id: subject?.user.id,
      customer_id: subject?.user.customerId,
      credential: subject?.credential,
      token_id: subject === null || subject.credential === 'session' ? undefined : subject.token.id,
      session_id: subject?.credential === 'session' ? subject.session.id : undefined,
      ms: Math.round(ms * 1000) / 1000,
    },
    'request',
  );
}
