import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../domain/secret.js';
import { payloadOf } from '../domain/webhook.js';
import { WakeableSleep } from '../domain/wakeable-sleep.js';
import type { DueWebhook, WebhookOutcome, WebhookStore } from '../store/webhook-store.js';
import { backoff } from './backoff.js';
import type { Answer, Message } from './deliver.js';
import type { WebhookEndpoint } from './endpoint.js';
import { SenderLease } from './sender-lease.js';

/** The store is asked this often for events that others queued. */
const POLL_MS = 250;
/** Tokens that expired are looked for this often. */
const EXPIRED_MS = 1_000;
/** What endpoints left behind is looked for this often. */
const KEEP_MS = 60_000;
/** Attempts to one endpoint at a time, of different tokens; one while it fails. */
const CONCURRENCY = 4;
/** An outcome that can't be noted is tried again after this: the event must not be sent over and over meanwhile. */
const NOTE_AGAIN_MS = 500;
const GONE = 410;

/** What the sender tells its process. */
export interface SenderEvents {
  /** An attempt is over, and its outcome is noted. @param retryAt null unless it is sent again */
  readonly attempted: (endpoint: string, due: DueWebhook, answer: Answer, outcome: WebhookOutcome) => void;
  /** This process sends from now on, or does not any more. */
  readonly sending: (sends: boolean) => void;
  readonly failed: (error: unknown) => void;
}

/** Sends a message once. */
export type Deliver = (endpoint: WebhookEndpoint, message: Message, signal: AbortSignal) => Promise<Answer>;

/**
 * Sends what is queued, in one process of the fleet: the holder of the lease. Of one token, and for one endpoint, an event
 * is sent when the one before it was delivered or given up; those of other tokens do not wait for it.
 */
export class WebhookSender {
  readonly #store: WebhookStore;
  readonly #endpoints: () => readonly WebhookEndpoint[];
  readonly #deliver: Deliver;
  readonly #events: SenderEvents;
  readonly #lease: SenderLease;
  /** Subjects with an attempt under way, by endpoint. */
  readonly #busy = new Map<string, Map<string, Promise<void>>>();
  /** Endpoints whose last attempt failed. */
  readonly #failing = new Set<string>();
  #stopped = false;
  #keptAt = -Infinity;
  #expiredAt = -Infinity;
  /** An attempt is over since the last turn began. */
  #woken = false;
  readonly #rest = new WakeableSleep();
  #running: Promise<void> = Promise.resolve();

  /** @param endpoints of the configuration as it is now */
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

  /** Takes nothing more, waits for attempts under way, and gives the lease up: for a time in milliseconds at most. */
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
      if (!this.#stopped && !this.#woken) await this.#rest.sleep(POLL_MS);
    }
  }

  async #turn(): Promise<void> {
    const endpoints = this.#endpoints();
    if (endpoints.length === 0) return this.#lease.release();
    const lease = await this.#lease.renew();
    if (lease === null) return;
    await this.#tidy(endpoints, lease);
    for (const endpoint of endpoints) await this.#fill(endpoint, lease);
  }

  async #tidy(endpoints: readonly WebhookEndpoint[], lease: string): Promise<void> {
    const now = performance.now();
    if (now - this.#expiredAt > EXPIRED_MS) {
      while ((await this.#store.queueExpired(lease)) > 0);
      this.#expiredAt = now;
    }
    if (now - this.#keptAt <= KEEP_MS) return;
    const ids = endpoints.map(({ id }) => id);
    await this.#store.keep(lease, ids, Date.now());
    this.#keptAt = now;
  }

  /** Begins attempts as long as there is room. */
  async #fill(endpoint: WebhookEndpoint, lease: string): Promise<void> {
    const busy = this.#busyOf(endpoint.id);
    const room = (this.#failing.has(endpoint.id) ? 1 : CONCURRENCY) - busy.size;
    if (room <= 0 || this.#stopped) return;
    // Those under way are due as well.
    const due = await this.#store.listDue(lease, endpoint.id, Date.now(), busy.size + room);
    for (const each of (due ?? []).filter(({ event }) => !busy.has(event.subject)).slice(0, room)) {
      const { subject } = each.event;
      const attempt = this.#attempt(endpoint, each, lease)
        .catch((error: unknown) => this.#events.failed(error))
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
    // Whoever has the lease by now sends it again.
    if (signal.aborted) return;
    const outcome = outcomeOf(answer, due, endpoint, Date.now());
    if (answer.error === null) this.#failing.delete(endpoint.id);
    else this.#failing.add(endpoint.id);
    if (await this.#settle(endpoint.id, due, outcome, lease, signal))
      this.#events.attempted(endpoint.id, due, answer, outcome);
  }

  /** Notes an outcome, however long the store can't take it, unless the lease is lost. */
  async #settle(endpoint: string, { event }: DueWebhook, outcome: WebhookOutcome, lease: string, signal: AbortSignal): Promise<boolean> {
    for (;;) {
      try {
        return await this.#store.settle(lease, endpoint, event, outcome, Date.now());
      } catch (error) {
        this.#events.failed(error);
        await sleep(NOTE_AGAIN_MS, undefined, { ref: false });
        if (signal.aborted) return false;
      }
    }
  } // prettier-ignore

  #busyOf(endpoint: string): Map<string, Promise<void>> {
    const known = this.#busy.get(endpoint) ?? new Map<string, Promise<void>>();
    this.#busy.set(endpoint, known);
    return known;
  }

  #wake(): void {
    this.#woken = true;
    this.#rest.wake();
  }
}

function outcomeOf(
  { status, error, retryAfter }: Answer,
  { attempts }: DueWebhook,
  { maxAttempts }: WebhookEndpoint,
  now: number,
): WebhookOutcome {
  if (error === null) return { kind: 'delivered' };
  const failures = attempts + 1;
  const retryAt = now + backoff(failures, retryAfter);
  if (status === GONE) return { kind: 'failed', retryAt, error, disable: true };
  return failures >= maxAttempts ? { kind: 'dead', error } : { kind: 'failed', retryAt, error };
}
