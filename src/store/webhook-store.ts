import type { LockedLogin, StoredWebhookEvent, WebhookEventType } from '../domain/webhook.js';
import type { EpochMs } from '../domain/time.js';
import type { MaybePromise } from '../domain/maybe-promise.js';

/** Events that wait for one endpoint; further ones are dropped, and counted. */
export const MAX_QUEUED = 10_000;
/** Dead letters of one endpoint; the oldest go, and are counted. */
export const MAX_DEAD = 1_000;
/** Expiries longer ago send no event, so that turning webhooks on again does not flood the receiver. */
export const EXPIRY_LOOK_BACK_MS = 7 * 86_400_000;
/** What waits for an endpoint that no sender knows any more goes after this. */
export const FORGET_ENDPOINT_MS = 86_400_000;

/** Which events are queued for an endpoint. */
export interface WebhookSubscription {
  /** Its id ({@link EndpointStatus.endpoint}). */
  readonly endpoint: string;
  readonly events: readonly WebhookEventType[];
}

/** An event that is to be sent now: the first of its subject. */
export interface DueWebhook {
  readonly event: StoredWebhookEvent;
  /** How often it was sent in vain. */
  readonly attempts: number;
}

/** What became of an attempt. */
export type WebhookOutcome =
  | { readonly kind: 'delivered' }
  /** It is sent again then; `disable`: when somebody enables the endpoint. */
  | { readonly kind: 'failed'; readonly retryAt: EpochMs; readonly error: string; readonly disable?: true }
  | { readonly kind: 'dead'; readonly error: string };

/** An event that was given up. */
export interface DeadWebhook {
  readonly event: StoredWebhookEvent;
  readonly attempts: number;
  readonly failedAt: EpochMs;
  readonly error: string;
}

/** What is known of an endpoint, by every sidecar. */
export interface EndpointStatus {
  readonly endpoint: string;
  readonly queued: number;
  /** When the oldest of them happened; null: none waits. */
  readonly oldestAt: EpochMs | null;
  readonly dead: number;
  /** Events that were dropped because the queue was full, and dead letters for the same reason. */
  readonly dropped: number;
  readonly deadDropped: number;
  /** Nothing is sent from then on; null: it is enabled. */
  readonly disabledAt: EpochMs | null;
  readonly lastSuccessAt: EpochMs | null;
  readonly lastFailureAt: EpochMs | null;
  readonly lastError: string | null;
}

/**
 * The queue of webhooks, durable as the rest of the store.
 *
 * The store itself queues what happens to tokens, in the step that changes them: a token that is added is `token.created`;
 * one whose record goes is `token.revoked`, or `token.expired` when its time was up and nobody told so. Each event waits in
 * a line of its subject, for each endpoint that subscribed to it.
 */
export interface WebhookStore {
  /** From now on these events are queued by this process; without any, nothing is, at no cost. */
  subscribe(subscriptions: readonly WebhookSubscription[]): void;
  /** Queues that a user can't log in. */
  queueLocked(locked: LockedLogin, customerId: string, now: EpochMs): Promise<void>;

  /**
   * Takes or renews the lease of the one sender. Returns its name, which is another one for each holder; null when
   * another one holds it. The store's clock counts.
   *
   * @param ttl milliseconds
   */
  acquire(holder: string, ttl: number): Promise<string | null>;
  /** Gives the lease up. */
  release(lease: string): Promise<void>;
  /**
   * Queues `token.expired` for tokens that expired since the last call, in one step with the note that they are told.
   * Returns how many times of expiry may be left; 0: none is.
   */
  queueExpired(lease: string): Promise<number>;
  /** The first events of subjects whose time has come, or null when the lease is another's. */
  listDue(lease: string, endpoint: string, now: EpochMs, limit: number): Promise<DueWebhook[] | null>;
  /** Notes what became of an attempt. False when the lease is another's or the event is not the first one any more. */
  settle(lease: string, endpoint: string, event: StoredWebhookEvent, outcome: WebhookOutcome, now: EpochMs): Promise<boolean>;
  /** Keeps what belongs to these endpoints; what belongs to others goes a day after they were named last. */
  keep(lease: string, endpoints: readonly string[], now: EpochMs): Promise<void>;

  /** What is known of each endpoint that something was queued for. */
  status(): MaybePromise<EndpointStatus[]>;
  /** Dead letters of an endpoint, the oldest first. */
  listDead(endpoint: string): MaybePromise<DeadWebhook[]>;
  /**
   * Queues dead letters again, each behind what waits for its subject, enables the endpoint, and makes due what waits.
   *
   * @param ids of events; null: all
   * @returns how many were queued
   */
  resend(endpoint: string, ids: readonly string[] | null): Promise<number>;
} // prettier-ignore
