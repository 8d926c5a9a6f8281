import { createHash } from 'node:crypto';
import type { Config } from '../config/schema/config.js';
import type { AuditEvent } from '../domain/audit.js';
import type { Subject } from '../domain/credential.js';
import type { Refusal } from '../domain/refusal.js';
import type { AuditLog } from '../observe/audit.js';
import { describePosition } from '../policy/decide.js';
import type { RequestRecord } from './record.js';

export class Auditor {
  readonly #log: AuditLog;
  readonly #policy: string;
  readonly #configHash: string;

  /** @param policy version of the rules: {@link policyVersion} */
  constructor(log: AuditLog, policy: string, configHash: string) {
    this.#log = log;
    this.#policy = policy;
    this.#configHash = configHash;
  }

  ensureWritable(): void {
    this.#log.ensureWritable();
  }

  /** @throws Unavailable when entries are required and one cannot be written */
  record(auditEvents: readonly AuditEvent[] | undefined, record: RequestRecord): void {
    if (auditEvents === undefined) return;
    for (const event of auditEvents) this.#log.record(this.#entryOf(event, record));
  }

  /** The refusal stands even if its events cannot be written. */
  refused(refusal: Refusal, record: RequestRecord): void {
    this.#note(refusal.auditEvents, record);
    this.#note(refusalEvents(refusal), record);
  }

  /** Records that a request or WebSocket was closed because it is no longer allowed. */
  streamEnded({ refusal }: Refusal, record: RequestRecord): void {
    this.#note([{ event: 'stream.ended', outcome: 'denied', reason: refusal }], record);
  }

  #note(auditEvents: readonly AuditEvent[] | undefined, record: RequestRecord): void {
    for (const event of auditEvents ?? []) this.#log.note(this.#entryOf(event, record));
  }

  /** Lists each member: spread objects get a new hidden class each time. */
  #entryOf(event: AuditEvent, record: RequestRecord) {
    const { head, subject, decision } = record;
    return {
      event: event.event,
      outcome: event.outcome,
      target: event.target,
      reason: event.reason,
      retry_after: event.retry_after,
      actor: subject === null ? null : actorOf(subject),
      address: head?.client.address,
      address_from: head === null ? undefined : head.client.proxied ? 'proxy' : 'socket',
      request_id: record.requestId,
      method: head?.method,
      route: record.route,
      action: record.action,
      rule:
        decision === null || decision.rule === null ? undefined : describePosition(decision.rule.position),
      policy: this.#policy,
      config_hash: this.#configHash,
    };
  }
}

/** Entries with the same digest were decided by the same rules. */
export function policyVersion({ policy, routes, default_route }: Config): string {
  const rules = JSON.stringify({ policy, routes, default_route });
  return createHash('sha256').update(rules).digest('hex').slice(0, 12);
}

function actorOf(subject: Subject) {
  const { id: user_id, customerId: customer_id } = subject.user;
  const { credential } = subject;
  switch (credential) {
    case 'session':
      return { user_id, customer_id, credential, session_id: subject.session.id };
    case 'jwt':
      return { user_id, customer_id, credential, issuer: subject.jwt.issuer, subject: subject.jwt.subject };
    default:
      return { user_id, customer_id, credential, token_id: subject.token.id };
  }
}

function refusalEvents(refusal: Refusal): readonly AuditEvent[] | undefined {
  switch (refusal.refusal) {
    case 'token_expired':
      return [{ event: 'token.expired', outcome: 'denied', target: { token_id: refusal.tokenId } }];
    case 'role':
    case 'scope':
    case 'service':
    case 'service_limited':
    case 'wrong_credential_kind':
    case 'cross_origin':
    case 'other_customer':
    case 'other_user':
    case 'active_tokens':
    case 'address':
      return [{ event: 'access.denied', outcome: 'denied', reason: refusal.refusal }];
    default:
      return undefined;
  }
}
