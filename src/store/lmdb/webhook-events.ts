import { newId } from '../../domain/secret.js';
import type { EpochMs } from '../../util/time.js';
import type { Token } from '../../domain/token.js';
import type { User } from '../../domain/user.js';
import type { LockedLogin, StoredWebhookEvent, WebhookEventType } from '../../domain/webhook.js';
import { encode, type Stored } from '../records.js';
import type { Databases } from './databases.js';
import { expiredCursor, isReported } from './expired-cursor.js';
import { append, endpointState, hasRoom, nextNumber } from './outbox.js';
import { readToken, readUse, readUser } from './read.js';

/**
 * Queues `token.created`. Run these functions in a write transaction; without
 * a subscription they do nothing.
 */
export function queueCreated(dbs: Databases, token: Token): void {
  queueTokenEvent(dbs, 'token.created', token, Date.now());
}

/**
 * Queues the event of a token whose record is about to be removed. It is `token.revoked` if the
 * token has not expired; otherwise `token.expired`, unless that was queued.
 */
export function queueRemoved(dbs: Databases, token: Token): void {
  if (dbs.outbox.subscriptions.length === 0) return;
  const now = Date.now();
  if (token.expiresAt === null || token.expiresAt > now) queueTokenEvent(dbs, 'token.revoked', token, now);
  else if (!isReported(token, expiredCursor(dbs, now))) queueTokenEvent(dbs, 'token.expired', token, now);
}

/**
 * Queues `token.expired` if a token's new expiry lies before the times that are still to be queued.
 */
export function queueReplaced(dbs: Databases, before: Token, token: Token): void {
  if (dbs.outbox.subscriptions.length === 0) return;
  const now = Date.now();
  const cursor = expiredCursor(dbs, now);
  if (isReported(token, cursor) && !isReported(before, cursor))
    queueTokenEvent(dbs, 'token.expired', token, now);
}

export function queueExpiring(dbs: Databases, token: Token | undefined): void {
  if (token !== undefined) queueTokenEvent(dbs, 'token.expiring', token, Date.now());
}

export function queueExpired(dbs: Databases, id: string): void {
  const token = readToken(dbs, id);
  if (token !== undefined) queueTokenEvent(dbs, 'token.expired', token, Date.now());
}

export function queueUserLocked(dbs: Databases, { id: userId, customerId }: User): void {
  queueLocked(dbs, { userId, reason: 'user_locked', retryAfter: null }, customerId, Date.now());
}

export function queueLocked(dbs: Databases, locked: LockedLogin, customerId: string, at: EpochMs): void {
  enqueue(dbs, 'login.locked', at, { subject: `user:${locked.userId}`, customerId, locked });
}

/** Writes as much as {@link queueLocked} makes necessary, a transaction, without an event. */
export function queueNobody({ outbox }: Databases): void {
  if (outbox.subscriptions.some(({ events }) => events.includes('login.locked'))) nextNumber(outbox);
}

export function queueTokenEvent(dbs: Databases, type: WebhookEventType, token: Token, at: EpochMs): void {
  if (!dbs.outbox.subscriptions.some(({ events }) => events.includes(type))) return;
  const use = readUse(dbs, token.id);
  const owner = readUser(dbs, token.userId);
  enqueue(dbs, type, at, {
    subject: `token:${token.id}`,
    customerId: owner?.customerId ?? null,
    token: JSON.stringify(token),
    ...(use === null ? {} : { use: JSON.stringify(use) }),
  });
}

function enqueue(
  { outbox }: Databases,
  type: WebhookEventType,
  at: EpochMs,
  content: Omit<StoredWebhookEvent, 'id' | 'type' | 'at'>,
): void {
  let event: Stored<StoredWebhookEvent> | undefined;
  for (const { endpoint, events } of outbox.subscriptions) {
    if (!events.includes(type)) continue;
    if (!hasRoom(outbox, endpoint, { type, ...content })) {
      const state = endpointState(outbox, endpoint);
      outbox.put(['endpoint', endpoint], { ...state, dropped: state.dropped + 1 });
      continue;
    }
    event ??= encode<StoredWebhookEvent>({ id: `msg_${newId()}`, type, at, ...content });
    append(outbox, endpoint, event);
  }
}
