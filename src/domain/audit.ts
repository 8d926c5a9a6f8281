/** The kinds of audit log entries, described in `docs/audit.md`. */
type AuditEventName =
  | 'login.succeeded' | 'login.failed' | 'login.locked_out' | 'login.throttled' | 'logout.refused'
  | 'otp.accepted' | 'otp.refused' | 'sudo.granted' | 'session.started' | 'session.ended'
  | 'token.created' | 'token.changed' | 'token.revoked' | 'token.rotated' | 'token.rotation_repeated'
  | 'token.expiring' | 'token.expired' | 'access.denied' | 'stream.ended' | 'directory.applied'
  | 'config.reloaded' | 'config.refused' | 'user.created' | 'user.changed' | 'user.deleted'
  | 'store.restored' | 'store.record_removed' | 'signing_keys.removed' | 'webhooks.resent'
  | 'audit.resumed' | 'server.started' | 'server.stopped'; // prettier-ignore

export type AuditOutcome = 'success' | 'failure' | 'denied' | 'unknown';

/**
 * An event for the audit log, which a handler returns with its reply; the pipeline adds who made the request,
 * from where and when. It holds ids, and never a secret or a name that someone typed.
 */
export interface AuditEvent {
  readonly event: AuditEventName;
  readonly outcome: AuditOutcome;
  /** Whom or what the event is about, unless that is whoever made the request. */
  readonly target?: Readonly<Record<string, string | number | null | readonly string[]>>;
  readonly reason?: string;
  /** Seconds until the next attempt is allowed. */
  readonly retry_after?: number;
}
