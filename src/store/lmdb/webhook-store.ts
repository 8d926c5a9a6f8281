import type { EpochMs } from '../../util/time.js';
import {
  type DeadWebhook,
  type DueWebhook,
  type EndpointStatus,
  FORGET_ENDPOINT_MS,
  MAX_DEAD,
  type WebhookOutcome,
  type WebhookStore,
} from '../webhook-store.js';
import type { Databases } from './databases.js';
import { expiredAfter, expiredCursor, hasNoExpired, moveCursor } from './expired-cursor.js';
import {
  append,
  type EndpointState,
  endpointState,
  nextNumber,
  type Outbox,
  setDue,
  type StoredLease,
} from './outbox.js';
import { deadLetterOf } from '../webhook-records.js';
import type { Transactions } from './transactions.js';
import { attemptsOf, headOf, removeFirst } from './webhook-heads.js';
import { queueExpired, queueLocked, queueNobody } from './webhook-events.js';
import type { StoredWebhookEvent } from '../../domain/webhook.js';

/** Maximum number of expired tokens per transaction. */
const EXPIRED_BATCH = 200;

export function lmdbWebhookStore(transactions: Transactions, outbox: Outbox): WebhookStore {
  // These changes concern events that are already stored, or make room. So the space
  // reserved for removals is enough.
  const change = <T>(work: (dbs: Databases) => T): T => transactions.remove(work);
  const isHeld = (lease: string) => outbox.get(['lease'])?.name === lease;
  return {
    subscribe: (subscriptions) => {
      outbox.subscriptions = subscriptions;
    },
    queueLocked: async (locked, customerId, now) => {
      if (outbox.subscriptions.length > 0)
        transactions.write((dbs) =>
          locked === null ? queueNobody(dbs) : queueLocked(dbs, locked, customerId ?? '', now),
        );
    },
    acquire: async (holder, ttl) => change(() => acquire(outbox, holder, ttl, Date.now())),
    release: async (lease) =>
      change(() => {
        const held = outbox.get(['lease']);
        if (held?.name === lease) outbox.put(['lease'], { ...held, until: 0 });
      }),
    queueExpired: async (lease) => {
      // A write waits for the disk, and usually nothing has expired.
      if (transactions.read((dbs) => hasNoExpired(dbs, Date.now()))) return 0;
      return change((dbs) => (isHeld(lease) ? queueExpiries(dbs, Date.now()) : 0));
    },
    listDue: async (lease, endpoint, now, limit) =>
      transactions.read(() => (isHeld(lease) ? dueEvents(outbox, endpoint, now, limit) : null)),
    settle: async (lease, endpoint, event, outcome, now) =>
      change(() => isHeld(lease) && settleEvent(outbox, endpoint, event, outcome, now)),
    keep: async (lease, endpoints, now) =>
      change(() => {
        if (isHeld(lease)) keepEndpoints(outbox, endpoints, now);
      }),
    status: () => transactions.read(() => endpointStatuses(outbox)),
    listDead: (endpoint) => transactions.read(() => deadEvents(outbox, endpoint)),
    resend: async (endpoint, ids) => change(() => resendEvents(outbox, endpoint, ids)),
  };
}

/** Acquires or renews the lease. */
function acquire(outbox: Outbox, holder: string, ttl: number, now: EpochMs): string | null {
  const known = outbox.get(['lease']);
  const holds = known !== undefined && known.until > now;
  if (holds && known.holder !== holder) return null;
  const number = holds ? known.number : (known?.number ?? 0) + 1;
  const lease: StoredLease = { name: `${number}:${holder}`, holder, number, until: now + ttl };
  outbox.put(['lease'], lease);
  return lease.name;
}

/** Queues `token.expired` for the first expired tokens. Returns 0 if there are no others. */
function queueExpiries(dbs: Databases, now: EpochMs): number {
  // Read all keys first: writes in the loop must not move the cursor.
  const due = expiredAfter(dbs, expiredCursor(dbs, now), now, EXPIRED_BATCH);
  for (const [, , id] of due) queueExpired(dbs, id);
  const isFull = due.length === EXPIRED_BATCH;
  moveCursor(dbs, isFull ? due.at(-1) : undefined, now);
  return isFull ? due.length : 0;
}

/** Returns the first events of subjects whose time or turn has come. */
function dueEvents(outbox: Outbox, endpoint: string, now: EpochMs, limit: number): DueWebhook[] {
  if (endpointState(outbox, endpoint).disabledAt !== null) return [];
  return outbox.entries(['due', endpoint], { to: now, limit }).map(({ key }) => {
    const subject = key[3] as string;
    return { event: headOf(outbox, endpoint, subject), attempts: attemptsOf(outbox, endpoint, subject) };
  });
}

/**
 * Records the outcome of an attempt. Returns false if the event is not first any more.
 * Run it in a write transaction.
 */
function settleEvent(
  outbox: Outbox,
  endpoint: string,
  { id, subject }: StoredWebhookEvent,
  outcome: WebhookOutcome,
  now: EpochMs,
): boolean {
  if (outbox.get(['subject', endpoint, subject]) === undefined) return false;
  const event = headOf(outbox, endpoint, subject);
  if (event.id !== id) return false;
  const attempts = attemptsOf(outbox, endpoint, subject) + 1;
  const note = (change: Partial<EndpointState>) =>
    outbox.put(['endpoint', endpoint], { ...endpointState(outbox, endpoint), ...change });
  if (outcome.kind === 'failed') {
    setDue(outbox, endpoint, subject, { dueAt: outcome.retryAt, attempts });
    const disabled = outcome.disable === true ? { disabledAt: now } : {};
    note({ lastFailureAt: now, lastError: outcome.error, ...disabled });
    return true;
  }
  removeFirst(outbox, endpoint, subject);
  if (outcome.kind === 'delivered') note({ lastSuccessAt: now });
  else {
    note({ lastFailureAt: now, lastError: outcome.error });
    addDeadLetter(outbox, endpoint, { event, attempts, failedAt: now, error: outcome.error });
  }
  return true;
}

function addDeadLetter(outbox: Outbox, endpoint: string, dead: DeadWebhook): void {
  const numbers = deadNumbers(outbox, endpoint);
  const [oldest] = numbers;
  if (numbers.length >= MAX_DEAD && oldest !== undefined) {
    outbox.remove(['dead', endpoint, oldest]);
    const state = endpointState(outbox, endpoint);
    outbox.put(['endpoint', endpoint], { ...state, deadDropped: state.deadDropped + 1 });
  }
  outbox.put(['dead', endpoint, (numbers.at(-1) ?? 0) + 1], dead);
}

function deadNumbers(outbox: Outbox, endpoint: string): number[] {
  return outbox.entries(['dead', endpoint]).map(({ key }) => key[2] as number);
}

function deadEvents(outbox: Outbox, endpoint: string): DeadWebhook[] {
  return outbox.entries(['dead', endpoint]).map(({ value }) => deadLetterOf(value, endpoint));
}

/** Run it in a write transaction. */
function resendEvents(outbox: Outbox, endpoint: string, ids: readonly string[] | null): number {
  let count = 0;
  for (const { key, value } of outbox.entries(['dead', endpoint])) {
    const { event } = deadLetterOf(value, endpoint);
    if (ids !== null && !ids.includes(event.id)) continue;
    outbox.remove(key);
    append(outbox, endpoint, event);
    count += 1;
  }
  if (outbox.get(['endpoint', endpoint]) === undefined) return count;
  // In the order in which they were due.
  for (const { key } of outbox.entries(['due', endpoint])) {
    const subject = key[3] as string;
    const attempts = attemptsOf(outbox, endpoint, subject);
    setDue(outbox, endpoint, subject, { dueAt: nextNumber(outbox), attempts });
  }
  outbox.put(['endpoint', endpoint], { ...endpointState(outbox, endpoint), disabledAt: null });
  return count;
}

function endpointStatuses(outbox: Outbox): EndpointStatus[] {
  return outbox.entries(['endpoint']).map(({ key }) => {
    const endpoint = key[1] as string;
    const { keptAt: _, ...state } = endpointState(outbox, endpoint);
    const [oldest] = outbox.entries(['order', endpoint], { limit: 1 });
    return {
      endpoint,
      ...state,
      oldestAt: oldest?.value ?? null,
      dead: deadNumbers(outbox, endpoint).length,
    };
  });
}

/** Deletes endpoints that no sender has named for a while. Run it in a write transaction. */
function keepEndpoints(outbox: Outbox, endpoints: readonly string[], now: EpochMs): void {
  const known = new Set(endpoints);
  for (const { key } of outbox.entries(['endpoint'])) {
    const endpoint = key[1] as string;
    const state = endpointState(outbox, endpoint);
    if (known.has(endpoint)) outbox.put(['endpoint', endpoint], { ...state, keptAt: now });
    else if (state.keptAt < now - FORGET_ENDPOINT_MS) forget(outbox, endpoint);
  }
}

function forget(outbox: Outbox, endpoint: string): void {
  for (const kind of ['queue', 'subject', 'due', 'order', 'held', 'dead'] as const)
    for (const { key } of outbox.entries([kind, endpoint])) outbox.remove(key);
  outbox.remove(['endpoint', endpoint]);
}
