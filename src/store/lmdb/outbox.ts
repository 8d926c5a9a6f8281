import type { Database } from 'lmdb';
import type { EpochMs } from '../../domain/time.js';
import type { StoredWebhookEvent } from '../../domain/webhook.js';
import type { DeadWebhook, WebhookSubscription } from '../webhook-store.js';

/** Sorts behind every number and text of a key. */
const LAST = '\uffff';

/** Where a subject stands: its first event is sent then, or in its turn. Turns are numbers below every time. */
export interface SubjectState {
  readonly dueAt: EpochMs;
  readonly attempts: number;
}

/** What is kept of an endpoint besides its events. */
export interface EndpointState {
  readonly queued: number;
  readonly dropped: number;
  readonly deadDropped: number;
  readonly disabledAt: EpochMs | null;
  readonly lastSuccessAt: EpochMs | null;
  readonly lastFailureAt: EpochMs | null;
  readonly lastError: string | null;
  /** When a sender knew it last. */
  readonly keptAt: EpochMs;
}

/** Who may send. */
export interface StoredLease {
  readonly name: string;
  readonly holder: string;
  readonly number: number;
  /** Milliseconds. */
  readonly ttl: number;
  readonly until: EpochMs;
}

/** What the one database holds, by the first part of its keys. */
interface Values {
  /** `endpoint, subject, number` */
  readonly queue: StoredWebhookEvent;
  /** `endpoint, subject` */
  readonly subject: SubjectState;
  /** `endpoint, dueAt, subject` */
  readonly due: true;
  /** `endpoint, number`: when the event with that number happened */
  readonly order: EpochMs;
  /** `endpoint, number` */
  readonly dead: DeadWebhook;
  /** `endpoint` */
  readonly endpoint: EndpointState;
  readonly lease: StoredLease;
  /** The highest one ({@link nextNumber}). */
  readonly number: number;
  readonly expired_until: EpochMs;
}

type Kind = keyof Values;
type Key<K extends Kind> = readonly [K, ...(string | number)[]];

/** The events that wait to be sent, in a database of their own. */
export class Outbox {
  subscriptions: readonly WebhookSubscription[] = [];
  readonly #db: Database<unknown, never>;

  constructor(db: Database<unknown, string>) {
    // Its keys are lists of several lengths.
    this.#db = db as Database<unknown, never>;
  }

  get<K extends Kind>(key: Key<K>): Values[K] | undefined {
    return this.#db.get(key as never) as Values[K] | undefined;
  }

  put<K extends Kind>(key: Key<K>, value: Values[K]): void {
    this.#db.putSync(key as never, value);
  }

  remove(key: Key<Kind>): void {
    this.#db.removeSync(key as never);
  }

  /**
   * Entries whose keys begin with some parts, up to a further part where it is given. They are read at once, so that
   * what is written while one goes over them moves nothing.
   */
  entries<K extends Kind>(
    first: Key<K>,
    { to = LAST, limit }: { to?: number | string; limit?: number } = {},
  ): { readonly key: Key<K>; readonly value: Values[K] }[] {
    const range = {
      start: first as never,
      end: [...first, to, LAST] as never,
      ...(limit === undefined ? {} : { limit }),
    };
    return Array.from(this.#db.getRange(range), ({ key, value }) => ({ key, value: value as Values[K] }));
  }
}

/** Puts an event behind what waits for its subject. */
export function append(outbox: Outbox, endpoint: string, event: StoredWebhookEvent): void {
  const number = nextNumber(outbox);
  outbox.put(['queue', endpoint, event.subject, number], event);
  outbox.put(['order', endpoint, number], event.at);
  if (outbox.get(['subject', endpoint, event.subject]) === undefined)
    setDue(outbox, endpoint, event.subject, { dueAt: number, attempts: 0 });
  const state = endpointState(outbox, endpoint);
  outbox.put(['endpoint', endpoint], { ...state, queued: state.queued + 1 });
}

/** Numbers events, and turns: no two clocks have to agree on what is due at once. */
export function nextNumber(outbox: Outbox): number {
  const number = (outbox.get(['number']) ?? 0) + 1;
  outbox.put(['number'], number);
  return number;
}

/** Says when the first event of a subject is sent; undefined when there is none. */
export function setDue(outbox: Outbox, endpoint: string, subject: string, next: SubjectState | undefined): void {
  const before = outbox.get(['subject', endpoint, subject]);
  if (before !== undefined) outbox.remove(['due', endpoint, before.dueAt, subject]);
  if (next === undefined) {
    outbox.remove(['subject', endpoint, subject]);
    return;
  }
  outbox.put(['subject', endpoint, subject], next);
  outbox.put(['due', endpoint, next.dueAt, subject], true);
} // prettier-ignore

export function endpointState(outbox: Outbox, endpoint: string): EndpointState {
  return outbox.get(['endpoint', endpoint]) ?? { ...NEW, keptAt: Date.now() };
}

const NEW: Omit<EndpointState, 'keptAt'> = {
  queued: 0,
  dropped: 0,
  deadDropped: 0,
  disabledAt: null,
  lastSuccessAt: null,
  lastFailureAt: null,
  lastError: null,
};
