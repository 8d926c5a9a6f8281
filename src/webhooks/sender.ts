// src/webhooks: sends the events that the store queues.
// May import store and all below.
// One process of the fleet sends, by a lease in the store.

import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../domain/secret.js';
import { payloadOf } from '../domain/webhook.js';
import { WakeableSleep } from '../util/async.js';
import { type DueWebhook, LONGEST_RETRY_MS, type WebhookOutcome } from '../store/core/events.js';
import type { WebhookStore } from '../store/core/webhooks.js';
import type { deliver, DeliveryResult } from './deliver.js';
import type { WebhookEndpoint } from './endpoint.js';

/** Lease time, milliseconds. A sender that is killed or suspended is replaced after this. */
const LEASE_MS = 5_000;
const RENEW_MS = 1_500;

/**
 * The lease that makes one process the sender. It runs from the moment the store was asked, by a
 * monotonic clock, so that a process that was suspended finds its lease expired.
 */
export class SenderLease {
  readonly #store: Pick<WebhookStore, 'acquire' | 'release'>;
  readonly #holder: string;
  readonly #onChange: (held: boolean) => void;
  #name: string | null = null;
  #requestedAt = -Infinity;
  #abortController = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  /** @param holder a name that no other process uses */
  constructor(
    store: Pick<WebhookStore, 'acquire' | 'release'>,
    holder: string,
    onChange: (held: boolean) => void,
  ) {
    this.#store = store;
    this.#holder = holder;
    this.#onChange = onChange;
  }

  /** Acquires the lease, or renews it when due; null while another process holds it. */
  async renew(): Promise<string | null> {
    const requestedAt = performance.now();
    if (requestedAt - this.#requestedAt < RENEW_MS) return this.#name;
    const name = await this.#store.acquire(this.#holder, LEASE_MS);
    this.#requestedAt = requestedAt;
    if (name !== this.#name) this.end();
    if (name === null) return null;
    if (this.#name === null) {
      this.#name = name;
      this.#abortController = new AbortController();
      this.#onChange(true);
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.end(), requestedAt + LEASE_MS - performance.now()).unref();
    return this.#isExpired() ? null : name;
  }

  signalOf(lease: string): AbortSignal {
    // After the process was suspended, the timer fires late.
    if (this.#isExpired()) this.end();
    return lease === this.#name ? this.#abortController.signal : AbortSignal.abort();
  }

  async release(): Promise<void> {
    const name = this.#name;
    this.end();
    this.#requestedAt = -Infinity;
    // If the release fails, the lease expires by itself.
    if (name !== null) await this.#store.release(name).catch(() => undefined);
  }

  #isExpired(): boolean {
    return performance.now() - this.#requestedAt >= LEASE_MS;
  }

  /** Ends the lease in this process only. */
  end(): void {
    clearTimeout(this.#timer);
    if (this.#name === null) return;
    this.#name = null;
    this.#abortController.abort();
    this.#onChange(false);
  }
}

/** Interval at which the store is polled for events that other processes queued, milliseconds. */
const POLL_MS = 250;
/** Interval at which expired tokens are looked for, milliseconds. */
const EXPIRED_MS = 1_000;
/** Minimum pause between two parts of many expired tokens, milliseconds. */
const EXPIRED_PAUSE_MS = 100;
/** Interval at which data of removed endpoints is cleaned up, milliseconds. */
const CLEANUP_MS = 60_000;
/** Concurrent attempts per endpoint, each for another token; 1 while the endpoint fails. */
const CONCURRENCY = 4;
/** Pause after an attempt without a stored outcome: it must not be resent over and over. */
const RETRY_MS = 500;
const GONE = 410;

export interface SenderEvents {
  /** An attempt has ended, and its outcome is stored. */
  readonly attempted: (
    endpoint: string,
    due: DueWebhook,
    answer: DeliveryResult,
    outcome: WebhookOutcome,
  ) => void;
  readonly sending: (sends: boolean) => void;
  readonly failed: (error: unknown) => void;
}

export type Deliver = typeof deliver;

/**
 * Sends queued events, if this process holds the lease of the fleet. Those of one token and
 * endpoint are sent in order: each waits until the previous one was delivered or given up.
 */
export class WebhookSender {
  readonly #store: WebhookStore;
  readonly #endpoints: () => readonly WebhookEndpoint[];
  readonly #deliver: Deliver;
  readonly #events: SenderEvents;
  readonly #lease: SenderLease;
  /** Subjects with an attempt in flight, by endpoint. */
  readonly #busy = new Map<string, Map<string, Promise<void>>>();
  readonly #failing = new Set<string>();
  #stopped = false;
  #cleanedUpAt = -Infinity;
  #expiredDueAt = -Infinity;
  /** Whether an attempt has ended since the last turn began. */
  #woken = false;
  readonly #idleSleep = new WakeableSleep();
  #running: Promise<void> = Promise.resolve();

  constructor(
    store: WebhookStore,
    endpoints: () => readonly WebhookEndpoint[],
    deliver: Deliver,
    events: SenderEvents,
  ) {
    this.#store = store;
    this.#endpoints = endpoints;
    this.#deliver = deliver;
    this.#events = events;
    this.#lease = new SenderLease(store, newId(), events.sending);
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Waits for attempts in flight, and releases the lease. @param patience milliseconds */
  async stop(patience: number): Promise<void> {
    this.#stopped = true;
    this.#wake();
    await Promise.race([this.#end(), sleep(patience, undefined, { ref: false })]);
    this.#lease.end();
  }

  async #end(): Promise<void> {
    await this.#running;
    await Promise.allSettled([...this.#busy.values()].flatMap((subjects) => [...subjects.values()]));
    await this.#lease.release();
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#woken = false;
      try {
        await this.#turn();
      } catch (error) {
        this.#events.failed(error);
      }
      if (!this.#stopped && !this.#woken) await this.#idleSleep.sleep(POLL_MS);
    }
  }

  async #turn(): Promise<void> {
    const endpoints = this.#endpoints();
    if (endpoints.length === 0) return this.#lease.release();
    const lease = await this.#lease.renew();
    if (lease === null) return;
    // What is damaged for one must not stop the others.
    const { failed } = this.#events;
    await this.#cleanUp(endpoints, lease).catch(failed);
    for (const endpoint of endpoints) await this.#fill(endpoint, lease).catch(failed);
  }

  async #cleanUp(endpoints: readonly WebhookEndpoint[], lease: string): Promise<void> {
    const now = performance.now();
    if (now >= this.#expiredDueAt) {
      // The rest waits for a later turn, so that the lease is renewed, and events are sent.
      const isRestLeft = (await this.#store.queueExpired(lease)) > 0;
      this.#expiredDueAt = now + (isRestLeft ? EXPIRED_PAUSE_MS : EXPIRED_MS);
    }
    if (now - this.#cleanedUpAt <= CLEANUP_MS) return;
    const ids = endpoints.map(({ id }) => id);
    await this.#store.keep(lease, ids, Date.now());
    this.#cleanedUpAt = now;
  }

  async #fill(endpoint: WebhookEndpoint, lease: string): Promise<void> {
    const busy = this.#busyOf(endpoint.id);
    const room = (this.#failing.has(endpoint.id) ? 1 : CONCURRENCY) - busy.size;
    if (room <= 0 || this.#stopped) return;
    // Events in flight are listed as due too.
    const limit = busy.size + room;
    const due = (await this.#store.listDue(lease, endpoint.id, Date.now(), limit)) ?? [];
    for (const each of due.filter(({ event }) => !busy.has(event.subject)).slice(0, room)) {
      const { subject } = each.event;
      const attempt = this.#attempt(endpoint, each, lease)
        .catch(async (error: unknown) => this.#pauseAfter(error))
        .finally(() => {
          busy.delete(subject);
          this.#wake();
        });
      busy.set(subject, attempt);
    }
  }

  async #attempt(endpoint: WebhookEndpoint, due: DueWebhook, lease: string): Promise<void> {
    const signal = this.#lease.signalOf(lease);
    if (signal.aborted) return;
    const message = { id: due.event.id, body: payloadOf(due.event) };
    const answer = await this.#deliver(endpoint, message, signal);
    // The next holder of the lease sends the event again.
    if (signal.aborted) return;
    const outcome = outcomeOf(answer, due, endpoint, Date.now());
    if (answer.error === null) this.#failing.delete(endpoint.id);
    else this.#failing.add(endpoint.id);
    if (await this.#settle(endpoint.id, due, outcome, lease, signal))
      this.#events.attempted(endpoint.id, due, answer, outcome);
  }

  /** Stores an outcome, retrying for as long as the store fails, unless the lease is lost. */
  async #settle(endpoint: string, { event }: DueWebhook, outcome: WebhookOutcome, lease: string, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      try {
        return await this.#store.settle(lease, endpoint, event, outcome, Date.now());
      } catch (error) {
        await this.#pauseAfter(error);
        if (signal.aborted) return false;
      }
    }
  } // prettier-ignore

  /** Reports an error, and waits: the event is due again as soon as its subject is free. */
  async #pauseAfter(error: unknown): Promise<void> {
    this.#events.failed(error);
    await sleep(RETRY_MS, undefined, { ref: false });
  }

  #busyOf(endpoint: string): Map<string, Promise<void>> {
    const known = this.#busy.get(endpoint) ?? new Map<string, Promise<void>>();
    this.#busy.set(endpoint, known);
    return known;
  }

  #wake(): void {
    this.#woken = true;
    this.#idleSleep.wake();
  }
}

function outcomeOf(
  { status, error, retryAfter }: DeliveryResult,
  { attempts }: DueWebhook,
  { max_attempts: maxAttempts }: WebhookEndpoint,
  now: number,
): WebhookOutcome {
  if (error === null) return { kind: 'delivered' };
  const failures = attempts + 1;
  const retryAt = now + backoff(failures, retryAfter);
  if (status === GONE) return { kind: 'failed', retryAt, error, disable: true };
  return failures >= maxAttempts ? { kind: 'dead', error } : { kind: 'failed', retryAt, error };
}

/** Delay after the first failure, milliseconds. */
const FIRST_MS = 1_000;

/**
 * Returns milliseconds that double with each failure. The last quarter is random, so that events that failed
 * together spread out again. A delay that the endpoint requested takes precedence.
 * @param failures at least 1
 */
export function backoff(failures: number, retryAfter: number | null, random = Math.random()): number {
  if (retryAfter !== null) return Math.min(LONGEST_RETRY_MS, Math.max(FIRST_MS, retryAfter));
  const wait = Math.min(LONGEST_RETRY_MS, FIRST_MS * 2 ** (failures - 1));
  return Math.round(wait * (0.75 + 0.25 * random));
}
