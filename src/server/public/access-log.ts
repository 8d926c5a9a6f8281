import type { Config } from '../../config/schema/config.js';
import { PerSubject } from '../../domain/per-subject.js';
import {
  inOnePiece,
  lineStart,
  MillisecondsMember,
  TextMember,
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
  readonly #endings = new Endings();

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
    this.#gather(
      lineStart(Date.now()) +
        // Always one of Latchkey's own, so there is nothing to quote in it.
        START_OF_ID +
        record.requestId +
        '"' +
        TRACE_ID.of(record.trace?.traceId ?? head?.trace?.traceId) +
        METHOD.of(head?.method) +
        (has.path ? PATH.of(head?.path.slice(0, MAX_TEXT)) : '') +
        (has.query && head !== null && head.query !== '' ? QUERY.of(namesOf(head.query)) : '') +
        (has.host ? HOST.of(cut(head?.client.host)) : '') +
        this.#endings.of(record) +
        DETAIL.of(cut(record.detail)) +
        RULE.of(ruleOf(record.decision)) +
        (has.client ? CLIENT.of(head?.client.address) : '') +
        (has.user_agent ? USER_AGENT.of(cut(head?.userAgent)) : '') +
        (subject === null ? '' : callers.of(subject)) +
        MS.of(ms) +
        (has.timings ? between(DECISION_MS, record.startedAt, record.judgedAt) : '') +
        (has.timings ? between(UPSTREAM_MS, record.sentAt, record.firstByteAt) : '') +
        END,
    );
  }
}

const START_OF_ID = ',"request_id":"';
const TRACE_ID = new TextMember('trace_id');
const METHOD = new TextMember('method');
const PATH = new TextMember('path');
const QUERY = new TextMember('query');
const HOST = new TextMember('host');
const DETAIL = new TextMember('detail');
const RULE = new TextMember('rule');
const CLIENT = new TextMember('client');
const USER_AGENT = new TextMember('user_agent');
const MS = new MillisecondsMember('ms');
const DECISION_MS = new MillisecondsMember('decision_ms');
const UPSTREAM_MS = new MillisecondsMember('upstream_ms');
const END = ',"msg":"request"}\n';

/** How requests of one route ended last, and the members that say so. */
interface Ending {
  readonly status: number | null;
  readonly outcome: string;
  readonly action: string | null;
  readonly admitted: boolean | null;
  readonly upstream: string | null;
  readonly text: string;
}

/** The members that say how a request ended. Most requests of a route end as the one before, so those are put together once. */
class Endings {
  readonly #last = new Map<string | null, Ending>();

  of({ route, status, outcome, action, admitted, upstream }: RequestRecord): string {
    const last = this.#last.get(route);
    if (
      last !== undefined &&
      last.status === status &&
      last.outcome === outcome &&
      last.action === action &&
      last.admitted === admitted &&
      last.upstream === upstream
    )
      return last.text;
    const text = inOnePiece(
      `,"status":${status}` +
        textMember('outcome', outcome) +
        textMember('route', route) +
        textMember('action', action) +
        (admitted === null ? '' : `,"decision":"${admitted ? 'allowed' : 'refused'}"`) +
        textMember('upstream', upstream ?? undefined),
    );
    this.#last.set(route, { status, outcome, action, admitted, upstream, text });
    return text;
  }
}

const callers = new PerSubject((subject) => {
  const { user } = subject;
  return inOnePiece(
    textMember('user_id', user.id) +
      textMember('customer_id', user.customerId) +
      textMember('credential', subject.credential) +
      (subject.credential === 'session'
        ? textMember('session_id', subject.session.id)
        : textMember('token_id', subject.token.id)),
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

function between(member: MillisecondsMember, from: number | null, to: number | null): string {
  return from === null || to === null ? '' : member.of(to - from);
}
