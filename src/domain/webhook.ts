import { formatTime, type EpochMs } from '../util/time.js';
import type { Token, TokenUse } from './token.js';

/** Event types of webhooks, described in `docs/webhooks.md`. */
export const WEBHOOK_EVENTS = [
  'token.created',
  'token.revoked',
  'token.rotation_repeated',
  'token.expiring',
  'token.expired',
  'login.locked',
] as const;

export type WebhookEventType = (typeof WEBHOOK_EVENTS)[number];

/** An event queued in the store; `token` and `use` are records in JSON. */
export interface StoredWebhookEvent {
  readonly id: string;
  readonly type: WebhookEventType;
  readonly at: EpochMs;
  /** Ordering key, `token:ID` or `user:ID`: events with the same subject are sent in order. */
  readonly subject: string;
  readonly customerId?: string | null;
  readonly token?: string;
  /** The token's last use. */
  readonly use?: string;
  readonly locked?: LockedLogin;
}

/** Why the next login of a user will be refused. */
export interface LockedLogin {
  readonly userId: string;
  readonly reason: 'failed_logins' | 'user_locked';
  /** Seconds until the next attempt is allowed; null if someone must unlock the user. */
  readonly retryAfter: number | null;
}

/** Returns the body of a webhook: ids and times, no secret, no digest, no name that someone typed. */
export function payloadOf(event: StoredWebhookEvent): string {
  return JSON.stringify({
    type: event.type,
    timestamp: new Date(event.at).toISOString(),
    data: dataOf(event),
  });
}

function dataOf({ type, subject, customerId = null, token, use, locked }: StoredWebhookEvent): object {
  if (locked !== undefined) {
    const { userId, reason, retryAfter } = locked;
    return { user_id: userId, customer_id: customerId, reason, retry_after: retryAfter };
  }
  const record = token === undefined ? undefined : (JSON.parse(token) as Token);
  const used = use === undefined ? undefined : (JSON.parse(use) as TokenUse);
  return {
    token_id: record?.id ?? subject.slice(subject.indexOf(':') + 1),
    user_id: record?.userId ?? null,
    customer_id: customerId,
    scope: record?.scopes ?? [],
    services: record?.services ?? [],
    created_at: timeOf(record?.createdAt),
    expires_at: timeOf(record?.expiresAt),
    ...(type === 'token.created' ? {} : { last_used_at: timeOf(used?.at) }),
    ...(record?.predecessorId === undefined ? {} : { predecessor_id: record.predecessorId }),
    ...(record?.rotated === undefined ? {} : { successor_id: record.rotated.to }),
  };
}

function timeOf(at: EpochMs | null | undefined): string | null {
  return at == null ? null : formatTime(at);
}
