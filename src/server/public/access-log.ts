import type { Config } from '../../config/schema/config.js';
import { PerSubject } from '../../domain/per-subject.js';
import {
  lineStart,
  millisecondsMember,
  numberMember,
  RememberedMember,
  textMember,
} from '../../observe/json-line.js';
import { destinationOf, type Log } from '../../observe/log.js';
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
  readonly #gather: (line: string) => void;
  readonly #requests: Config['log']['requests'];
  readonly #sample: number;
  readonly #has: Readonly<Record<Field, boolean>>;

  constructor(log: Log, { requests, sample, fields }: Config['log']) {
    const has = (field: Field) => fields.includes(field);
    this.#log = log;
    this.#gather = destinationOf(log).gather;
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
    const member = textMember;
    this.#gather(
      lineStart(Date.now()) +
        // Always one of Latchkey's own, so there is nothing to quote in it.
        `,"request_id":"${record.requestId}"` +
        member('trace_id', record.trace?.traceId ?? head?.trace?.traceId) +
        methods.of(head?.method) +
        (has.path ? member('path', head?.path.slice(0, MAX_TEXT)) : '') +
        (has.query && head !== null && head.query !== '' ? member('query', namesOf(head.query)) : '') +
        (has.host ? member('host', cut(head?.client.host)) : '') +
        numberMember('status', record.status) +
        outcomes.of(record.outcome) +
        member('detail', cut(record.detail)) +
        routes.of(record.route) +
        actions.of(record.action) +
        (record.admitted === null ? '' : record.admitted ? ALLOWED : REFUSED) +
        member('rule', ruleOf(record.decision)) +
        upstreams.of(record.upstream ?? undefined) +
        (has.client ? member('client', head?.client.address) : '') +
        (has.user_agent ? member('user_agent', cut(head?.userAgent)) : '') +
        (subject === null ? '' : callers.of(subject)) +
        millisecondsMember('ms', ms) +
        (has.timings ? betweenMember('decision_ms', record.startedAt, record.judgedAt) : '') +
        (has.timings ? betweenMember('upstream_ms', record.sentAt, record.firstByteAt) : '') +
        ',"msg":"request"}\n',
    );
  }
}

const methods = new RememberedMember('method');
const outcomes = new RememberedMember('outcome');
const routes = new RememberedMember('route');
const actions = new RememberedMember('action');
const upstreams = new RememberedMember('upstream');
const ALLOWED = ',"decision":"allowed"';
const REFUSED = ',"decision":"refused"';

const callers = new PerSubject((subject) => {
  const { user } = subject;
  return (
    textMember('user_id', user.id) +
    textMember('customer_id', user.customerId) +
    textMember('credential', subject.credential) +
    (subject.credential === 'session'
      ? textMember('session_id', subject.session.id)
      : textMember('token_id', subject.token.id))
  );
});

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

function betweenMember(name: string, from: number | null, to: number | null): string {
  return from === null || to === null ? '' : millisecondsMember(name, to - from);
}
