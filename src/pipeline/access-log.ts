import type { Config } from '../config/schema/config.js';
import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import { SubjectMemo } from '../gate/identity.js';
import { type PeerSocket, peerAddress } from '../http/client-address.js';
import type { Destination } from '../observe/destination.js';
import { lineStart, MillisecondsMember, TextMember, textMember } from '../observe/json-line.js';
import { destinationOf, type Log } from '../observe/log.js';
import { unreadableRequests } from '../observe/metrics/requests.js';
import { maskedStart } from '../util/text.js';
import { type Decision, describePosition } from '../policy/decide.js';
import { RequestRecord } from './record.js';

const MAX_TEXT = 512;

type Field = Config['log']['fields'][number];

export class AccessLog {
  readonly #log: Log;
  readonly #destination: Destination;
  readonly #requests: Config['log']['requests'];
  readonly #sample: number;
  readonly #levelFormat: Config['log']['level_format'];
  readonly #has: Readonly<Record<Field, boolean>>;
  readonly #endings = new Endings();
  /** The last members, which are identical in every entry under one configuration. */
  readonly #end: Uint8Array;

  /** @param configHash hash of the configuration that the requests are decided by */
  constructor(log: Log, { level_format, requests, sample, fields }: Config['log'], configHash: string) {
    const has = (field: Field) => fields.includes(field);
    this.#log = log;
    this.#destination = destinationOf(log);
    this.#requests = requests;
    this.#sample = sample;
    this.#levelFormat = level_format;
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

  /** All that were not served get an entry, unless request logging is off. */
  wants(record: RequestRecord): boolean {
    if (this.#requests === 'none' || !this.#log.isLevelEnabled('info')) return false;
    if (!wasServed(record)) return true;
    return this.#requests === 'all' && (this.#sample === 1 || Math.random() < this.#sample);
  }

  /**
   * Writes ids and names, but no secrets, query values or bodies.
   * @param ms total duration; null for input that was not a request
   * @param bytesSent of the response body
   */
  write(record: RequestRecord, ms: number | null, httpVersion?: string, bytesSent?: number): void {
    const { head, unserved, subject } = record;
    const has = this.#has;
    const line = this.#destination.beginLine();
    if (line === undefined) return;
    line.bytes(lineStart(Date.now(), this.#levelFormat));
    REQUEST_ID.add(line, record.requestId);
    TRACE_ID.add(line, record.trace?.traceId ?? head?.trace?.traceId);
    METHOD.add(line, (head ?? unserved)?.method);
    if (httpVersion !== undefined) PROTOCOL.add(line, PROTOCOLS[httpVersion]);
    if (has.path) PATH.add(line, cut((head ?? unserved)?.path));
    if (has.query && head !== null && head.query !== '') QUERY.add(line, namesOf(head.query));
    if (has.host) HOST.add(line, cut(head?.client.host));
    line.bytes(this.#endings.of(record));
    UPSTREAM_ADDRESS.add(line, record.upstreamAddress);
    if (bytesSent !== undefined) {
      line.bytes(BYTES_SENT);
      line.integer(bytesSent);
    }
    DETAIL.add(line, cut(record.detail));
    RULE.add(line, ruleOf(record.decision));
    if (has.client) {
      CLIENT.add(line, head?.client.address);
      PEER.add(line, record.peer);
    }
    if (has.user_agent) USER_AGENT.add(line, cut(head?.userAgent));
    if (subject !== null) line.bytes(callers.of(subject));
    if (ms !== null) MS.add(line, ms);
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
const PROTOCOL = new TextMember('protocol');
const PATH = new TextMember('path');
const QUERY = new TextMember('query');
const HOST = new TextMember('host');
const UPSTREAM_ADDRESS = new TextMember('upstream_address');
const BYTES_SENT = Buffer.from(',"bytes_sent":');
const DETAIL = new TextMember('detail');
const RULE = new TextMember('rule');
const CLIENT = new TextMember('client');
const PEER = new TextMember('peer');
const USER_AGENT = new TextMember('user_agent');
const MS = new MillisecondsMember('ms');
const DECISION_MS = new MillisecondsMember('decision_ms');
const UPSTREAM_MS = new MillisecondsMember('upstream_ms');

const PROTOCOLS: Readonly<Record<string, string>> = { '1.0': 'HTTP/1.0', '1.1': 'HTTP/1.1', '2.0': 'HTTP/2' };

interface Ending {
  readonly status: number | null;
  readonly outcome: string;
  readonly action: string | null;
  readonly admitted: boolean | null;
  readonly upstream: string | null;
  readonly bytes: Uint8Array;
}

/** Members that state how a request ended; most requests of a route end like the previous one. */
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
  const text =
    textMember('user_id', user.id) +
    textMember('customer_id', user.customerId) +
    textMember('credential', subject.credential) +
    credentialMembers(subject);
  // A copy of its own: a small buffer is part of 8 KiB that it would keep in memory.
  return new Uint8Array(Buffer.from(text));
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

function wasServed({ outcome, status }: RequestRecord): boolean {
  return SERVED.has(outcome) && status !== null && status < 500;
}

function ruleOf(decision: Decision | null): string | undefined {
  if (decision === null || decision.allowed || decision.rule === null) return undefined;
  return describePosition(decision.rule.position);
}

/** The parameter names of a query. A value may be a credential of another system. */
function namesOf(query: string): string {
  const names = query.split('&').map((pair) => pair.split('=', 1)[0]);
  return maskedStart(names.join('&'), MAX_TEXT);
}

function cut(text: string | undefined): string | undefined {
  return text === undefined ? undefined : maskedStart(text, MAX_TEXT);
}

/** Input that could not be parsed as a request, and what was responded. */
export interface UnreadableInput {
  readonly refusal: Refusal;
  readonly peer: PeerSocket;
  /** Null when another response had begun, so that none could be sent. */
  readonly response: { readonly requestId: string; readonly status: number } | null;
}

export function recordUnreadable(accessLog: AccessLog, { refusal, peer, response }: UnreadableInput): void {
  unreadableRequests.inc({ reason: refusal.refusal });
  if (response === null) return;
  const record = new RequestRecord(response.requestId);
  record.peer = peerAddress(peer);
  record.outcome = refusal.refusal;
  record.status = response.status;
  record.detail = 'detail' in refusal ? refusal.detail : undefined;
  if (accessLog.wants(record)) accessLog.write(record, null);
}
