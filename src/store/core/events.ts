/** Webhook events, queued in the change that causes them. A sender distributes them (`webhooks.ts`). */
import type { LockedLogin, StoredWebhookEvent, WebhookEventType } from '../../domain/webhook.js';
import type { EpochMs } from '../../util/time.js';
import { newId } from '../../domain/secret.js';
import type { Token } from '../../domain/token.js';
import { passOverDamaged } from '../faults.js';
import { CURSOR, type EndpointState, USE, USER, type ValueOf, WAITING } from './kinds.js';
import type { Transaction } from './transaction.js';

/** Maximum number of queued events per endpoint; further ones are dropped and counted. */
export const MAX_QUEUED = 10_000;
/**
 * A customer's events may fill a queue up to this many times its free places: alone 80 % of it, with
 * revocations 95 %. So there is always room for the first events of others.
 */
export const SHARE = { revocation: 19, other: 4 } as const;
/** Maximum number of dead letters per endpoint; the oldest are dropped and counted. */
export const MAX_DEAD = 1_000;
/** Tokens that expired longer ago cause no event: turning webhooks on must not flood the receiver. */
const EXPIRY_LOOK_BACK_MS = 7 * 86_400_000;
export const LONGEST_RETRY_MS = 6 * 3_600_000;

/** How long an endpoint that no sender names is kept, with its events (milliseconds). */
export const FORGET_ENDPOINT_MS = 86_400_000;

export interface WebhookSubscription {
  /** Its id ({@link EndpointStatus.endpoint}). */
  readonly endpoint: string;
  readonly events: readonly WebhookEventType[];
}

/** An event that is due: the first in the queue of its subject. */
export interface DueWebhook {
  readonly event: StoredWebhookEvent;
  readonly attempts: number;
}

export type WebhookOutcome =
  | { readonly kind: 'delivered' }
  /** Retried at `retryAt`; with `disable`, not before somebody enables the endpoint. */
  | { readonly kind: 'failed'; readonly retryAt: EpochMs; readonly error: string; readonly disable?: true }
  | { readonly kind: 'dead'; readonly error: string };

type EndpointCounts = Omit<EndpointState, 'keptAt' | 'last'>;

export const NO_COUNTS: EndpointCounts = {
  queued: 0,
  dropped: 0,
  deadDropped: 0,
  disabledAt: null,
  lastSuccessAt: null,
  lastFailureAt: null,
  lastError: null,
};

export interface EndpointStatus extends EndpointCounts {
  readonly endpoint: string;
  readonly oldestAt: EpochMs | null;
  readonly dead: number;
}

export const WAITING_EVENTS = 'waiting';
/** Maximum number of events that wait while no sender runs; further ones are dropped. */
const MAX_WAITING = 4 * MAX_QUEUED;

export class Events {
  subscriptions: readonly WebhookSubscription[] = [];

  hasSubscriber(type: WebhookEventType): boolean {
    return this.subscriptions.some(({ events }) => events.includes(type));
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
    if (!this.hasSubscriber(type)) return;
    // The event of a new token does not contain it. An event must not prevent the change.
    const use = type === 'token.created' ? undefined : await tx.peek(USE, token.id).catch(passOverDamaged);
    const owner = await tx.peek(USER, token.userId).catch(passOverDamaged);
    await this.#queue(tx, type, at, {
      subject: `token:${token.id}`,
      customerId: owner?.customerId ?? null,
      token: JSON.stringify(token),
      ...(use == null ? {} : { use: JSON.stringify(use) }),
    });
  }

  async locked(tx: Transaction, locked: LockedLogin, customerId: string, at: EpochMs): Promise<void> {
    await this.#queue(tx, 'login.locked', at, { subject: `user:${locked.userId}`, customerId, locked });
  }

  async #queue(
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
}

type Cursor = ValueOf<typeof CURSOR>;

/** Returns up to where expired tokens were reported. At first, past expiries count as reported. */
export async function readCursor(tx: Transaction, now: EpochMs): Promise<Cursor> {
  const stored = await tx.get(CURSOR, 'tokens');
  const oldest = now - EXPIRY_LOOK_BACK_MS;
  // A clock that was ahead wrote a later one.
  if (stored === undefined || stored.until > now) return { until: now, id: '' };
  return stored.until < oldest ? { until: oldest, id: '' } : stored;
}

function isReported({ id, expiresAt }: Token, cursor: Cursor): boolean {
  if (expiresAt === null || expiresAt > cursor.until + 1) return false;
  return expiresAt <= cursor.until || id <= cursor.id;
}
