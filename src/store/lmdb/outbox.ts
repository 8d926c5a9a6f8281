import type { Database } from 'lmdb';
import type { EpochMs } from '../../util/time.js';
import type { StoredWebhookEvent } from '../../domain/webhook.js';
import { type DeadWebhook, MAX_QUEUED, SHARE, type WebhookSubscription } from '../webhook-store.js';

/** Sorts after every number and string in a key. */
const LAST = '\uffff';

/**
 * When the first event of a subject is due: a time, or a turn that is due at once. Turns are
 * numbers lower than every time.
 */
export interface SubjectState {
  readonly dueAt: EpochMs;
  readonly attempts: number;
}

/** The stored state of an endpoint, without its events. */
export interface EndpointState {
  readonly queued: number;
  readonly dropped: number;
  readonly deadDropped: number;
  readonly disabledAt: EpochMs | null;
  readonly lastSuccessAt: EpochMs | null;
  readonly lastFailureAt: EpochMs | null;
  readonly lastError: string | null;
  /** When a sender last named it. */
  readonly keptAt: EpochMs;
}

/** The lease of the sender. */
export interface StoredLease {
  readonly name: string;
  readonly holder: string;
  readonly number: number;
  readonly until: EpochMs;
}

/** The values of the database, by the first part of their keys. */
interface Values {
  /** `endpoint, subject, number` */
  readonly queue: StoredWebhookEvent;
  /** `endpoint, subject` */
  readonly subject: SubjectState;
  /** `endpoint, dueAt, subject` */
  readonly due: true;
  /** `endpoint, number`: when the event with that number happened */
  readonly order: EpochMs;
  /** `endpoint, customer`: the number of queued events, if there are any */
  readonly held: number;
  /** `endpoint, number` */
  readonly dead: DeadWebhook;
  /** `endpoint` */
  readonly endpoint: EndpointState;
  readonly lease: StoredLease;
  /** The last number assigned ({@link nextNumber}). */
  readonly number: number;
  readonly expired_until: EpochMs;
  /** The last expired token that was reported, while others of its time wait. */
  readonly expired_part: { readonly until: EpochMs; readonly id: string };
}

type Kind = keyof Values;
export type Key<K extends Kind> = readonly [K, ...(string | number)[]];

/** The queued events, in a database of their own. */
export class Outbox {
  subscriptions: readonly WebhookSubscription[] = [];
  readonly #db: Database<unknown, never>;

  constructor(db: Database<unknown, string>) {
    // Its keys are arrays of several lengths.
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
   * Returns the entries whose keys begin with some parts, optionally up to a value of the next part.
   * They are read at once, so that writes during an iteration move nothing.
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

/** Appends an event to the queue of its subject. */
export function append(outbox: Outbox, endpoint: string, event: StoredWebhookEvent): void {
  const number = nextNumber(outbox);
  outbox.put(['queue', endpoint, event.subject, number], event);
  outbox.put(['order', endpoint, number], event.at);
  if (outbox.get(['subject', endpoint, event.subject]) === undefined)
    setDue(outbox, endpoint, event.subject, { dueAt: number, attempts: 0 });
  const state = endpointState(outbox, endpoint);
  outbox.put(['endpoint', endpoint], { ...state, queued: state.queued + 1 });
  addHeld(outbox, endpoint, event.customerId, 1);
}

/** Whether the queue of an endpoint has room for an event of a customer ({@link SHARE}). */
export function hasRoom(
  outbox: Outbox,
  endpoint: string,
  { type, customerId }: Pick<StoredWebhookEvent, 'type' | 'customerId'>,
): boolean {
  const free = MAX_QUEUED - endpointState(outbox, endpoint).queued;
  const share = type === 'token.revoked' ? SHARE.revocation : SHARE.other;
  return free === MAX_QUEUED || (outbox.get(['held', endpoint, customerId ?? '']) ?? 0) < free * share;
}

/** Adds to the number of queued events of a customer. */
export function addHeld(outbox: Outbox, endpoint: string, customerId: unknown, count: 1 | -1): void {
  const key: Key<'held'> = ['held', endpoint, typeof customerId === 'string' ? customerId : ''];
  const held = (outbox.get(key) ?? 0) + count;
  if (held > 0) outbox.put(key, held);
  else outbox.remove(key);
}

/**
 * Returns the next number of an event or a turn. With turns, no two
 * clocks have to agree on what is due.
 */
export function nextNumber(outbox: Outbox): number {
  const number = (outbox.get(['number']) ?? 0) + 1;
  outbox.put(['number'], number);
  return number;
}

/** Sets when the first event of a subject is due; undefined if it has none. */
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
