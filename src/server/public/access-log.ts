import type { Config } from '../../config/schema/config.js';
import type { Log } from '../../observe/log.js';
import { printable } from '../../observe/printable.js';
import type { Decision } from '../../policy/decide.js';
import { describePlace } from '../../policy/rules.js';
import type { RequestRecord } from './record.js';

/** Longest path, detail and value of a client that is logged. */
const MAX_TEXT = 512;

type Field = Config['log']['fields'][number];

/** Writes the record of a request, when the configuration wants it. A record that is not wanted is not built. */
export class AccessLog {
  readonly #log: Log;
  readonly #requests: Config['log']['requests'];
  readonly #sample: number;
  readonly #has: Readonly<Record<Field, boolean>>;

  constructor(log: Log, { requests, sample, fields }: Config['log']) {
    const has = (field: Field) => fields.includes(field);
    this.#log = log;
    this.#requests = requests;
    this.#sample = sample;
    this.#has = {
      path: has('path'),
      query: has('query'),
      client: has('client'),
      host: has('host'),
      user_agent: has('user_agent'),
      timings: has('timings'),
    };
  }

  /** Whether a request gets a record: always, unless it was served as asked. */
  wants(record: RequestRecord): boolean {
    if (this.#requests === 'none' || !this.#log.isLevelEnabled('info')) return false;
    if (!wasServed(record)) return true;
    return this.#requests === 'all' && (this.#sample === 1 || Math.random() < this.#sample);
  }

  /** Writes a record down. Ids and names only: no secret, no value of the query, no body. @param ms the whole time */
  write(record: RequestRecord, ms: number): void {
    const { head, subject } = record;
    const has = this.#has;
    this.#log.info(
      {
        request_id: record.requestId,
        trace_id: record.trace?.traceId ?? head?.trace?.traceId,
        method: head?.method,
        path: has.path ? head?.path.slice(0, MAX_TEXT) : undefined,
        query: has.query && head !== null && head.query !== '' ? namesOf(head.query) : undefined,
        host: has.host ? cut(head?.client.host) : undefined,
        status: record.status,
        outcome: record.outcome,
        detail: cut(record.detail),
        route: record.route,
        action: record.action,
        decision: record.admitted === null ? undefined : record.admitted ? 'allowed' : 'refused',
        rule: ruleOf(record.decision),
        upstream: record.upstream ?? undefined,
        client: has.client ? head?.client.address : undefined,
        user_agent: has.user_agent ? cut(head?.userAgent) : undefined,
        user_id: subject?.user.id,
        customer_id: subject?.user.customerId,
        credential: subject?.credential,
        token_id: subject === null || subject.credential === 'session' ? undefined : subject.token.id,
        session_id: subject?.credential === 'session' ? subject.session.id : undefined,
        ms: round(ms),
        decision_ms: has.timings ? between(record.startedAt, record.judgedAt) : undefined,
        upstream_ms: has.timings ? between(record.sentAt, record.firstByteAt) : undefined,
      },
      'request',
    );
  }
}

const SERVED: ReadonlySet<string> = new Set(['forwarded', 'answered', 'allowed']);

/** Let through, answered, and not by a fault. */
function wasServed({ outcome, status }: RequestRecord): boolean {
  return SERVED.has(outcome) && status !== null && status < 500;
}

/** The rule that refused the request and its line, for whoever wonders why. */
function ruleOf(decision: Decision | null): string | undefined {
  if (decision === null || decision.allowed || decision.rule === null) return undefined;
  return describePlace(decision.rule.place);
}

/** Names of the parameters of a query. A value may be a credential of another system. */
function namesOf(query: string): string {
  const names = query.split('&').map((pair) => pair.split('=', 1)[0] ?? '');
  return printable(names.join('&').slice(0, MAX_TEXT));
}

function cut(text: string | undefined): string | undefined {
  return text === undefined ? undefined : printable(text.slice(0, MAX_TEXT));
}

function between(from: number | null, to: number | null): number | undefined {
  return from === null || to === null ? undefined : round(to - from);
}

function round(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
