/** Webhook events, queued in the change that causes them. A sender distributes them (`webhooks.ts`). */
import { newId } from '../../domain/secret.js';
import type { Token } from '../../domain/token.js';
import type { LockedLogin, StoredWebhookEvent, WebhookEventType } from '../../domain/webhook.js';
import type { EpochMs } from '../../util/time.js';
import { passOverDamaged } from '../faults.js';
import { EXPIRY_LOOK_BACK_MS, MAX_QUEUED, type WebhookSubscription } from '../webhook-store.js';
import { CURSOR, type ExpiredCursor, USE, USER, WAITING } from './kinds.js';
import type { Transaction } from './transaction.js';

export const WAITING_EVENTS = 'waiting';
/** Maximum number of events that wait while no sender runs; further ones are dropped. */
const MAX_WAITING = 4 * MAX_QUEUED;

export class Events {
  subscriptions: readonly WebhookSubscription[] = [];

  async created(tx: Transaction, token: Token): Promise<void> {
    await this.ofToken(tx, 'token.created', token, Date.now());
  }

  /** Queues `token.revoked`; for an expired one `token.expired`, unless that was reported. */
  async removed(tx: Transaction, token: Token): Promise<void> {
    if (this.subscriptions.length === 0) return;
    const now = Date.now();
    if (token.expiresAt === null || token.expiresAt > now)
      await this.ofToken(tx, 'token.revoked', token, now);
    else if (!isReported(token, await readCursor(tx, now)))
      await this.ofToken(tx, 'token.expired', token, now);
  }

  /** Queues `token.expired` if a token's new expiry lies before those that are still to be reported. */
  async replaced(tx: Transaction, before: Token, token: Token): Promise<void> {
    if (this.subscriptions.length === 0) return;
    const now = Date.now();
    const cursor = await readCursor(tx, now);
    if (isReported(token, cursor) && !isReported(before, cursor))
      await this.ofToken(tx, 'token.expired', token, now);
  }

  async ofToken(tx: Transaction, type: WebhookEventType, token: Token, at: EpochMs): Promise<void> {
    if (!this.#hasSubscriber(type)) return;
    // The event of a new token does not contain it. An event must not prevent the change.
    const use = type === 'token.created' ? undefined : await tx.peek(USE, token.id).catch(passOverDamaged);
    const owner = await tx.peek(USER, token.userId).catch(passOverDamaged);
    await this.queue(tx, type, at, {
      subject: `token:${token.id}`,
      customerId: owner?.customerId ?? null,
      token: JSON.stringify(token),
      ...(use == null ? {} : { use: JSON.stringify(use) }),
    });
  }

  async locked(tx: Transaction, locked: LockedLogin, customerId: string, at: EpochMs): Promise<void> {
    await this.queue(tx, 'login.locked', at, { subject: `user:${locked.userId}`, customerId, locked });
  }

  async queue(
    tx: Transaction,
    type: WebhookEventType,
    at: EpochMs,
    content: Omit<StoredWebhookEvent, 'id' | 'type' | 'at'>,
  ): Promise<void> {
    const endpoints = this.subscriptions
      .filter(({ events }) => events.includes(type))
      .map((each) => each.endpoint);
    if (endpoints.length === 0 || (await tx.count(WAITING_EVENTS)) >= MAX_WAITING) return;
    const event: StoredWebhookEvent = { id: `msg_${newId()}`, type, at, ...content };
    // Events of one change are in the order in which they were queued.
    const name = `${String(tx.size).padStart(6, '0')}:${event.id}`;
    tx.put(WAITING, name, { event, endpoints });
    tx.link(WAITING_EVENTS, name, 'revision');
  }

  #hasSubscriber(type: WebhookEventType): boolean {
    return this.subscriptions.some(({ events }) => events.includes(type));
  }
}

/** Returns up to where expired tokens were reported. At first, past expiries count as reported. */
export async function readCursor(tx: Transaction, now: EpochMs): Promise<ExpiredCursor> {
  const stored = await tx.get(CURSOR, 'tokens');
  const oldest = now - EXPIRY_LOOK_BACK_MS;
  // A clock that was ahead wrote a later one.
  if (stored === undefined || stored.until > now) return { until: now, id: '' };
  return stored.until < oldest ? { until: oldest, id: '' } : stored;
}

function isReported({ id, expiresAt }: Token, cursor: ExpiredCursor): boolean {
  if (expiresAt === null || expiresAt > cursor.until + 1) return false;
  return expiresAt <= cursor.until || id <= cursor.id;
}
