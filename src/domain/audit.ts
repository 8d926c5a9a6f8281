/** What an entry of the audit log tells, one name a kind. `docs/audit.md` describes each. */
type AuditEventName =
  | 'login.succeeded'
  | 'login.failed'
  | 'login.locked_out'
  | 'login.throttled'
  | 'otp.accepted'
  | 'otp.refused'
  | 'sudo.granted'
  | 'session.started'
  | 'session.ended'
  | 'token.created'
  | 'token.changed'
  | 'token.revoked'
  | 'token.rotated'
  | 'token.expiring'
  | 'token.expired'
  | 'access.denied'
  | 'stream.ended'
  | 'directory.applied'
  | 'config.reloaded'
  | 'config.refused'
  | 'user.created'
  | 'user.changed'
  | 'user.deleted'
  | 'store.restored'
  | 'signing_keys.removed'
  | 'webhooks.resent'
  | 'server.started'
  | 'server.stopped';

/** How it went: done, tried in vain, not allowed, or not confirmed: it may have been done. */
export type AuditOutcome = 'success' | 'failure' | 'denied' | 'unknown';

/**
 * An event for the audit log. Handlers return events with their reply; the pipeline adds who made the request, from where
 * and when. It holds ids, and of a rotated token its last use: never a secret, a password, or a name that somebody typed.
 */
export interface AuditEvent {
  readonly event: AuditEventName;
  readonly outcome: AuditOutcome;
  /** Whom or what it is about, where that is not the one who asked. */
  readonly target?: Readonly<Record<string, string | number | null | readonly string[]>>;
  /** A word of a fixed list. */
  readonly reason?: string;
  /** Seconds until another try counts. */
  readonly retry_after?: number;
}
