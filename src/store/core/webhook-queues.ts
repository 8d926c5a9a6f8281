/** The queues of webhook endpoints: one for each subject, whose events are sent in order. */
import type { StoredWebhookEvent } from '../../domain/webhook.js';
import type { EpochMs } from '../../util/time.js';
import { MAX_QUEUED, NO_COUNTS, SHARE } from './events.js';
import {
  DEAD,
  deadOf,
  dueFor,
  ENDPOINT,
  ENDPOINTS,
  type EndpointState,
  heldFor,
  QUEUE,
  queuedFor,
  type ValueOf,
} from './kinds.js';
import type { Transaction } from './transaction.js';

/** Ids of endpoints contain no slash. */
export const idIn = (endpoint: string, name: string) => `${endpoint}/${name}`;

export const newState = (keptAt: EpochMs): EndpointState => ({ ...NO_COUNTS, last: 0, keptAt });

export class EndpointQueues {
  readonly endpoint: string;
  readonly #tx: Transaction;
  state: EndpointState;
  readonly #held = new Map<string, number>();

  private constructor(tx: Transaction, endpoint: string, state: EndpointState) {
    this.#tx = tx;
    this.endpoint = endpoint;
    this.state = state;
  }

  static async open(tx: Transaction, endpoint: string, now: EpochMs): Promise<EndpointQueues> {
    const state = (await tx.get(ENDPOINT, endpoint)) ?? newState(now);
    return new EndpointQueues(tx, endpoint, state);
  }

  note(change: Partial<EndpointState>): void {
    this.state = { ...this.state, ...change };
    this.#tx.put(ENDPOINT, this.endpoint, this.state);
    this.#tx.link(ENDPOINTS, this.endpoint);
  }

  /** Appends an event to the queue of its subject, or drops and counts it if there is no room. */
  async append(event: StoredWebhookEvent): Promise<void> {
    if (!(await this.#hasRoom(event))) return this.note({ dropped: this.state.dropped + 1 });
    const queue = await this.queueOf(event.subject);
    this.#write(event.subject, { ...queue, events: [...queue.events, event] });
    this.#tx.link(queuedFor(this.endpoint), event.id, event.at);
    await this.#count(event, 1);
    if (queue.events.length === 0) this.setDue(event.subject, null);
    this.note({ queued: this.state.queued + 1 });
  }

  async queueOf(subject: string): Promise<ValueOf<typeof QUEUE>> {
    return (await this.#tx.get(QUEUE, idIn(this.endpoint, subject))) ?? { events: [], attempts: 0 };
  }

  /** The next one is due. */
  async removeFirst(subject: string): Promise<void> {
    const [first, ...events] = (await this.queueOf(subject)).events;
    if (first === undefined) return;
    this.#write(subject, { events, attempts: 0 });
    this.#tx.unlink(queuedFor(this.endpoint), first.id);
    await this.#count(first, -1);
    if (events.length > 0) this.setDue(subject, null);
    this.note({ queued: this.state.queued - 1 });
  }

  async retry(subject: string, at: EpochMs): Promise<void> {
    const queue = await this.queueOf(subject);
    this.#write(subject, { ...queue, attempts: queue.attempts + 1 });
    this.setDue(subject, at);
  }

  /** @param at null: at once, after those that are due */
  setDue(subject: string, at: EpochMs | null): void {
    if (at === null) this.note({ last: this.state.last + 1 });
    this.#tx.link(dueFor(this.endpoint), subject, at ?? this.state.last);
  }

  removeDead(id: string): void {
    this.#tx.remove(DEAD, idIn(this.endpoint, id));
    this.#tx.unlink(deadOf(this.endpoint), id);
  }

  #write(subject: string, queue: ValueOf<typeof QUEUE>): void {
    if (queue.events.length > 0) return this.#tx.put(QUEUE, idIn(this.endpoint, subject), queue);
    this.#tx.remove(QUEUE, idIn(this.endpoint, subject));
    this.#tx.unlink(dueFor(this.endpoint), subject);
  }

  async #hasRoom({ type, customerId }: StoredWebhookEvent): Promise<boolean> {
    const free = MAX_QUEUED - this.state.queued;
    const share = type === 'token.revoked' ? SHARE.revocation : SHARE.other;
    return free === MAX_QUEUED || (await this.#heldOf(customerId)) < free * share;
  }

  async #heldOf(customerId: string | null | undefined): Promise<number> {
    const id = customerId ?? '';
    const known = this.#held.get(id) ?? (await this.#tx.scores(heldFor(this.endpoint), [id]))[0] ?? 0;
    this.#held.set(id, known);
    return known;
  }

  async #count({ customerId }: StoredWebhookEvent, more: 1 | -1): Promise<void> {
    const id = customerId ?? '';
    const held = (await this.#heldOf(customerId)) + more;
    this.#held.set(id, held);
    if (held > 0) this.#tx.link(heldFor(this.endpoint), id, held);
    else this.#tx.unlink(heldFor(this.endpoint), id);
  }
}
