import type { LockedLogin, StoredWebhookEvent, WebhookEventType } from '../domain/webhook.js';
import type { EpochMs } from '../util/time.js';
import type { MaybePromise } from '../util/async.js';

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
export const EXPIRY_LOOK_BACK_MS = 7 * 86_400_000;
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

export interface DeadWebhook {
  readonly event: StoredWebhookEvent;
  readonly attempts: number;
  readonly failedAt: EpochMs;
  readonly error: string;
}

/** What is counted of an endpoint. */
export interface EndpointCounts {
  readonly queued: number;
  /** Number of events, and of dead letters, dropped because their queue was full. */
  readonly dropped: number;
  readonly deadDropped: number;
  readonly disabledAt: EpochMs | null;
  readonly lastSuccessAt: EpochMs | null;
  readonly lastFailureAt: EpochMs | null;
  readonly lastError: string | null;
}

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

/** Token events are queued by the change that causes them, per endpoint and subject. */
export interface WebhookStore {
  /** Sets the events that this process queues from now on. Without any, queueing costs nothing. */
  subscribe(subscriptions: readonly WebhookSubscription[]): void;
  /** @param locked null if nobody has the login name: nothing is queued, but it takes as long */
  queueLocked(locked: LockedLogin | null, customerId: string | null, now: EpochMs): Promise<void>;

  /**
   * Acquires or renews the lease of the single sender. Its name is new for each holder; null: another
   * one has it. @param ttl milliseconds
   */
  acquire(holder: string, ttl: number): Promise<string | null>;
  release(lease: string): Promise<void>;
  /** Queues `token.expired` for what expired since the last call. Returns 0 if no more are left. */
  queueExpired(lease: string): Promise<number>;
  /** The first of each subject; null without the lease. A damaged event stops its endpoint. */
  listDue(lease: string, endpoint: string, now: EpochMs, limit: number): Promise<DueWebhook[] | null>;
  /** Returns false without the lease, or if the event is not first any more. */
  settle(lease: string, endpoint: string, event: StoredWebhookEvent, outcome: WebhookOutcome, now: EpochMs): Promise<boolean>;
  /** Endpoints that were not named for a day are deleted. */
  keep(lease: string, endpoints: readonly string[], now: EpochMs): Promise<void>;

  status(): MaybePromise<EndpointStatus[]>;
  /** Oldest first. */
  listDead(endpoint: string): MaybePromise<DeadWebhook[]>;
  /** Requeues dead letters (null: all), enables the endpoint and makes its events due. Returns how many. */
  resend(endpoint: string, ids: readonly string[] | null): Promise<number>;
} // prettier-ignore
