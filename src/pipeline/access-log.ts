import type { Config } from '../config/schema/config.js';
import type { Subject } from '../domain/credential.js';
import { SubjectMemo } from '../gate/identity.js';
import type { Destination } from '../observe/destination.js';
import { lineStart, MillisecondsMember, TextMember, textMember } from '../observe/json-line.js';
import { destinationOf, type Log } from '../observe/log.js';
import { maskedStart } from '../observe/mask-tokens.js';
import type { Decision } from '../policy/decide.js';
import { describePosition } from '../policy/rules.js';
import type { RequestRecord } from './record.js';

/** Longest path, detail and value of a client that is logged. */
const MAX_TEXT = 512;

type Field = Config['log']['fields'][number];

/** Writes the log entry of a request if the configuration asks for it. Otherwise it is not built either. */
export class AccessLog {
  readonly #log: Log;
  readonly #destination: Destination;
  readonly #requests: Config['log']['requests'];
  readonly #sample: number;
  readonly #has: Readonly<Record<Field, boolean>>;
  readonly #endings = new Endings();
  /** The last members, which are the same in each record of a configuration. */
  readonly #end: Uint8Array;

  /** @param configHash the configuration by which the requests are judged */
  constructor(log: Log, { requests, sample, fields }: Config['log'], configHash: string) {
    const has = (field: Field) => fields.includes(field);
    this.#log = log;
    this.#destination = destinationOf(log);
    this.#requests = requests;
    this.#sample = sample;
    this.#end = Buffer.from(`${textMember('config_hash', configHash)},"msg":"request"}\n`);
    this.#has = {
      path: has('path'),
      query: has('query'),
      client: has('client'),
      host: has('host'),
      user_agent: has('user_agent'),
      timings: has('timings'),
    };
  }

  /** Whether a request gets an entry: always, unless it was served as requested. */
  wants(record: RequestRecord): boolean {
    if (this.#requests === 'none' || !this.#log.isLevelEnabled('info')) return false;
    if (!wasServed(record)) return true;
    return this.#requests === 'all' && (this.#sample === 1 || Math.random() < this.#sample);
  }

  /** Writes a record down. Ids and names only: no secret, no value of the query, no body. @param ms the whole time */
  write(record: RequestRecord, ms: number): void {
    const { head, subject } = record;
    const has = this.#has;
    const line = this.#destination.beginLine();
    if (line === undefined) return;
    line.bytes(lineStart(Date.now()));
    REQUEST_ID.add(line, record.requestId);
    TRACE_ID.add(line, record.trace?.traceId ?? head?.trace?.traceId);
    METHOD.add(line, head?.method);
    if (has.path) PATH.add(line, cut(head?.path));
    if (has.query && head !== null && head.query !== '') QUERY.add(line, namesOf(head.query));
    if (has.host) HOST.add(line, cut(head?.client.host));
    line.bytes(this.#endings.of(record));
    DETAIL.add(line, cut(record.detail));
    RULE.add(line, ruleOf(record.decision));
    if (has.client) CLIENT.add(line, head?.client.address);
    if (has.user_agent) USER_AGENT.add(line, cut(head?.userAgent));
    if (subject !== null) line.bytes(callers.of(subject));
    MS.add(line, ms);
    if (has.timings) {
      if (record.decidedAt !== null) DECISION_MS.add(line, record.decidedAt - record.startedAt);
      if (record.sentAt !== null && record.firstByteAt !== null)
        UPSTREAM_MS.add(line, record.firstByteAt - record.sentAt);
    }
    line.bytes(this.#end);
    this.#destination.endLine();
  }
}

const REQUEST_ID = new TextMember('request_id');
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

/** How requests of one route ended last, and the members that say so. */
interface Ending {
  readonly status: number | null;
  readonly outcome: string;
  readonly action: string | null;
  readonly admitted: boolean | null;
  readonly upstream: string | null;
  readonly bytes: Uint8Array;
}

/** The members that say how a request ended. Most requests of a route end as the one before, so those are put together once. */
class Endings {
  readonly #last = new Map<string | null, Ending>();

  of({ route, status, outcome, action, admitted, upstream }: RequestRecord): Uint8Array {
    const last = this.#last.get(route);
    if (
      last !== undefined &&
      last.status === status &&
      last.outcome === outcome &&
      last.action === action &&
      last.admitted === admitted &&
      last.upstream === upstream
    )
      return last.bytes;
    const bytes = Buffer.from(
      `,"status":${status}` +
        textMember('outcome', outcome) +
        textMember('route', route) +
        textMember('action', action) +
        (admitted === null ? '' : `,"decision":"${admitted ? 'allowed' : 'refused'}"`) +
        textMember('upstream', upstream ?? undefined),
    );
    this.#last.set(route, { status, outcome, action, admitted, upstream, bytes });
    return bytes;
  }
}

const callers = new SubjectMemo((subject) => {
  const { user } = subject;
  return Buffer.from(
    textMember('user_id', user.id) +
      textMember('customer_id', user.customerId) +
      textMember('credential', subject.credential) +
      credentialMembers(subject),
  );
});

function credentialMembers(subject: Subject): string {
  switch (subject.credential) {
    case 'session':
      return textMember('session_id', subject.session.id);
    case 'jwt':
      return textMember('issuer', subject.jwt.issuer) + textMember('subject', subject.jwt.subject);
    default:
      return textMember('token_id', subject.token.id);
  }
}

const SERVED: ReadonlySet<string> = new Set(['forwarded', 'answered', 'allowed', 'preflight']);

/** Let through, answered, and not by a fault. */
function wasServed({ outcome, status }: RequestRecord): boolean {
  return SERVED.has(outcome) && status !== null && status < 500;
}

/** The rule that refused the request, with its line. */
function ruleOf(decision: Decision | null): string | undefined {
  if (decision === null || decision.allowed || decision.rule === null) return undefined;
  return describePosition(decision.rule.place);
}

/** Names of the parameters of a query. A value may be a credential of another system. */
function namesOf(query: string): string {
  const names = query.split('&').map((pair) => pair.split('=', 1)[0]);
  return maskedStart(names.join('&'), MAX_TEXT);
}

function cut(text: string | undefined): string | undefined {
  return text === undefined ? undefined : maskedStart(text, MAX_TEXT);
}
