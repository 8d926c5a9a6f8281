import type { LockedLogin, StoredWebhookEvent, WebhookEventType } from '../domain/webhook.js';
import type { EpochMs } from '../util/time.js';
import type { MaybePromise } from '../util/async.js';

/** Maximum number of queued events per endpoint; further ones are dropped and counted. */
export const MAX_QUEUED = 10_000;
/**
 * A customer's events may fill a queue up to this many times its free places. So one customer alone
 * fills 80 % of it, 95 % with revocations, and there is always room for the first events of others.
 */
export const SHARE = { revocation: 19, other: 4 } as const;
/** Maximum number of dead letters per endpoint; the oldest are dropped and counted. */
export const MAX_DEAD = 1_000;
/**
 * Tokens that expired longer ago than this cause no event (milliseconds). Turning webhooks on again
 * must not flood the receiver.
 */
export const EXPIRY_LOOK_BACK_MS = 7 * 86_400_000;
/** Longest delay before a retry, in milliseconds. */
export const LONGEST_RETRY_MS = 6 * 3_600_000;

/** How long an endpoint that no sender names is kept, with its events (milliseconds). */
export const FORGET_ENDPOINT_MS = 86_400_000;

/** The event types that are queued for an endpoint. */
export interface WebhookSubscription {
  /** Its id ({@link EndpointStatus.endpoint}). */
  readonly endpoint: string;
  readonly events: readonly WebhookEventType[];
}

/** An event that is due: the first in the queue of its subject. */
export interface DueWebhook {
  readonly event: StoredWebhookEvent;
  /** Number of failed attempts so far. */
  readonly attempts: number;
}

/** The outcome of a delivery attempt. */
export type WebhookOutcome =
  | { readonly kind: 'delivered' }
  /** Retried at `retryAt`; with `disable`, not before somebody enables the endpoint. */
  | { readonly kind: 'failed'; readonly retryAt: EpochMs; readonly error: string; readonly disable?: true }
  | { readonly kind: 'dead'; readonly error: string };

/** A dead letter: an event that is no longer retried. */
export interface DeadWebhook {
  readonly event: StoredWebhookEvent;
  readonly attempts: number;
  readonly failedAt: EpochMs;
  readonly error: string;
}

/** The state of an endpoint, shared by all sidecars. */
export interface EndpointStatus {
  readonly endpoint: string;
  readonly queued: number;
  /** When the oldest queued event happened; null if none is queued. */
  readonly oldestAt: EpochMs | null;
  readonly dead: number;
  /** Number of events, and of dead letters, dropped because their queue was full. */
  readonly dropped: number;
  readonly deadDropped: number;
  /** When sending was disabled; null if it is enabled. */
  readonly disabledAt: EpochMs | null;
  readonly lastSuccessAt: EpochMs | null;
  readonly lastFailureAt: EpochMs | null;
  readonly lastError: string | null;
}

/**
 * The webhook queue, as durable as the rest of the store.
 *
 * The store queues token events itself, in the atomic step that changes the token. Adding
 * a token queues `token.created`. Removing one queues `token.revoked`, or `token.expired`
 * if it had expired and that was not queued yet. Each endpoint has a queue per subject for
 * the events that it subscribed to.
 */
export interface WebhookStore {
  /** Sets the events that this process queues from now on. Without any, queueing costs nothing. */
  subscribe(subscriptions: readonly WebhookSubscription[]): void;
  /**
   * Queues a `login.locked` event: a user cannot log in.
   *
   * @param locked null if nobody has the login name: nothing is queued, but it takes as long
   */
  queueLocked(locked: LockedLogin | null, customerId: string | null, now: EpochMs): Promise<void>;

  /**
   * Acquires or renews the lease of the single sender, by the store's clock. Returns the name of
   * the lease, which is new for each holder, or null if another holder has it.
   *
   * @param ttl milliseconds
   */
  acquire(holder: string, ttl: number): Promise<string | null>;
  /** Releases the lease. */
  release(lease: string): Promise<void>;
  /**
   * Queues `token.expired` for tokens that expired since the last call. The events
   * and the new position are written atomically. Returns a positive number if more
   * tokens may be left, otherwise 0.
   */
  queueExpired(lease: string): Promise<number>;
  /**
   * Lists the due events, the first of each subject; null if the lease is held by another sender.
   *
   * @throws RecordUnreadable, which stops the endpoint until the event is removed
   */
  listDue(lease: string, endpoint: string, now: EpochMs, limit: number): Promise<DueWebhook[] | null>;
  /**
   * Records the outcome of an attempt. Returns false if another sender holds the lease or the event
   * is not first any more.
   */
  settle(lease: string, endpoint: string, event: StoredWebhookEvent, outcome: WebhookOutcome, now: EpochMs): Promise<boolean>;
  /**
   * Keeps the queues and state of these endpoints. Those of an endpoint that was
   * not named for a day are deleted.
   */
  keep(lease: string, endpoints: readonly string[], now: EpochMs): Promise<void>;

  /** Returns the state of each endpoint that events were ever queued for. */
  status(): MaybePromise<EndpointStatus[]>;
  /** Lists the dead letters of an endpoint, oldest first. */
  listDead(endpoint: string): MaybePromise<DeadWebhook[]>;
  /**
   * Requeues dead letters, each at the end of its subject's queue. It also enables the endpoint and
   * makes its queued events due.
   *
   * @param ids of events; null: all
   * @returns how many were queued
   */
  resend(endpoint: string, ids: readonly string[] | null): Promise<number>;
} // prettier-ignore
