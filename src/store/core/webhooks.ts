/** Webhook events between the change that causes them and their delivery by the single sender. */
import {
  CURSOR,
  DEAD,
  deadOf,
  dueFor,
  ENDPOINT,
  ENDPOINTS,
  EXPIRY,
  heldFor,
  keyOf,
  LEASE,
  META,
  QUEUE,
  queuedFor,
  TOKEN_ID,
  type ValueOf,
  valueOf,
  WAITING,
} from './kinds.js';
import type { LockedLogin, StoredWebhookEvent } from '../../domain/webhook.js';
import { type EpochMs, HOUR_MS } from '../../util/time.js';
import {
  type DueWebhook,
  type EndpointStatus,
  type Events,
  FORGET_ENDPOINT_MS,
  MAX_DEAD,
  readCursor,
  WAITING_EVENTS,
  type WebhookOutcome,
  type WebhookSubscription,
} from './events.js';
import type { Member } from './kv.js';
import { readToken } from './token-records.js';
import { type Transaction, type Transactor, valueAt, valuePagesOf, valuesOf } from './transaction.js';
import { EndpointQueues, idIn, newState } from './webhook-queues.js';

const BATCH = 200;
const SENDER = 'sender';

export type WebhookStore = ReturnType<typeof webhookStore>;

/** Token events are queued by the change that causes them, per endpoint and subject. */
export function webhookStore(transactor: Transactor, events: Events) {
  const { kv } = transactor;
  // These changes concern events that are already stored, or make room.
  const change = async <T>(decide: (tx: Transaction) => Promise<T>): Promise<T> =>
    transactor.transact(decide, { guard: 'webhooks', isReserved: true });
  /** Makes a change for the holder of the lease. */
  const held = async <T>(lease: string, otherwise: T, decide: (tx: Transaction) => Promise<T>): Promise<T> =>
    change(async (tx) => ((await tx.get(LEASE, SENDER))?.name === lease ? decide(tx) : otherwise));
  const distributeAll = async (lease: string, now: EpochMs): Promise<void> => {
    while (await held(lease, false, async (tx) => distribute(tx, now)));
  };
  return {
    /** Sets the events that this process queues from now on. Without any, queueing costs nothing. */
    subscribe: (subscriptions: readonly WebhookSubscription[]): void => {
      events.subscriptions = subscriptions;
    },
    /** @param locked null if nobody has the login name: nothing is queued, but it takes as long */
    queueLocked: async (
      locked: LockedLogin | null,
      customerId: string | null,
      now: EpochMs,
    ): Promise<void> => {
      if (!events.hasSubscriber('login.locked')) return;
      await transactor.transact(async (tx) => {
        if (locked !== null) return events.locked(tx, locked, customerId ?? '', now);
        // Without such a user, as much is read and written, so that it takes as long.
        await tx.count(WAITING_EVENTS);
        tx.put(META, 'nobody', { number: now });
        tx.link('nobody', 'locked', now);
      });
    },
    /**
     * Acquires or renews the lease of the single sender. Its name is new for each holder; null: another
     * one has it. @param ttl milliseconds
     */
    acquire: async (holder: string, ttl: number) =>
      change(async (tx) => acquire(tx, holder, ttl, await kv.clock())),
    release: async (lease: string) =>
      held(lease, undefined, async (tx) => {
        const known = await tx.get(LEASE, SENDER);
        if (known !== undefined) tx.put(LEASE, SENDER, { ...known, until: 0 });
      }),
    /** Queues `token.expired` for what expired since the last call. Returns 0 if no more are left. */
    queueExpired: async (lease: string) =>
      held(lease, 0, async (tx) => queueExpired(tx, events, await kv.clock())),
    /** The first of each subject; null without the lease. A damaged event stops its endpoint. */
    listDue: async (
      lease: string,
      endpoint: string,
      now: EpochMs,
      limit: number,
    ): Promise<DueWebhook[] | null> => {
      await distributeAll(lease, now);
      if ((await valueAt(kv, LEASE, SENDER))?.name !== lease) return null;
      const state = await valueAt(kv, ENDPOINT, endpoint);
      if (state === undefined || state.disabledAt !== null) return [];
      const subjects = (await kv.range(dueFor(endpoint), { to: now, limit })).map(({ name }) => name);
      const queues = await kv.read(subjects.map((subject) => keyOf(QUEUE, idIn(endpoint, subject))));
      return subjects.flatMap((subject, i): DueWebhook[] => {
        const queue = valueOf(QUEUE, idIn(endpoint, subject), queues[i]);
        const [event] = queue?.events ?? [];
        return queue === undefined || event === undefined ? [] : [{ event, attempts: queue.attempts }];
      });
    },
    /** Returns false without the lease, or if the event is not first any more. */
    settle: async (
      lease: string,
      endpoint: string,
      event: StoredWebhookEvent,
      outcome: WebhookOutcome,
      now: EpochMs,
    ) => held(lease, false, async (tx) => settle(tx, endpoint, event, outcome, now)),
    /** Endpoints that were not named for a day are deleted. */
    keep: async (lease: string, endpoints: readonly string[], now: EpochMs): Promise<void> => {
      await distributeAll(lease, now);
      const lapsed = await held<string[]>(lease, [], async (tx) =>
        keepEndpoints(tx, new Set(endpoints), now),
      );
      for (const endpoint of lapsed) await held(lease, undefined, async (tx) => forget(tx, endpoint));
    },
    status: async (): Promise<EndpointStatus[]> => {
      const found: EndpointStatus[] = [];
      const waiting = new Map<string, { count: number; oldestAt: EpochMs }>();
      for await (const page of valuePagesOf(kv, WAITING_EVENTS, WAITING))
        for (const { event, endpoints } of page)
          for (const endpoint of endpoints) {
            const known = waiting.get(endpoint);
            waiting.set(endpoint, { count: (known?.count ?? 0) + 1, oldestAt: known?.oldestAt ?? event.at });
          }
      const known = (await kv.range(ENDPOINTS, {})).map(({ name }) => name);
      for (const endpoint of new Set([...known, ...waiting.keys()])) {
        const { keptAt: _, last: __, ...counts } = (await valueAt(kv, ENDPOINT, endpoint)) ?? newState(0);
        const [oldest] = await kv.range(queuedFor(endpoint), { limit: 1 });
        const more = waiting.get(endpoint);
        found.push({
          endpoint,
          ...counts,
          queued: counts.queued + (more?.count ?? 0),
          oldestAt: oldest?.score ?? more?.oldestAt ?? null,
          dead: await kv.count(deadOf(endpoint)),
        });
      }
      return found;
    },
    /** Oldest first. */
    listDead: async (endpoint: string) =>
      valuesOf(kv, deadOf(endpoint), DEAD, (name) => idIn(endpoint, name)),
    /** Requeues dead letters (null: all), enables the endpoint and makes its events due. Returns how many. */
    resend: async (endpoint: string, ids: readonly string[] | null) =>
      change(async (tx) => resend(tx, endpoint, ids, await kv.clock())),
  };
}

async function acquire(tx: Transaction, holder: string, ttl: number, now: EpochMs): Promise<string | null> {
  const known = await tx.get(LEASE, SENDER);
  const isHeld = known !== undefined && known.until > now;
  if (isHeld && known.holder !== holder) return null;
  const number = isHeld ? known.number : (known?.number ?? 0) + 1;
  const name = `${number}:${holder}`;
  tx.put(LEASE, SENDER, { name, holder, number, until: now + ttl });
  return name;
}

/** Queues `token.expired` for the first expired tokens. Returns 0 if there are no others. */
async function queueExpired(tx: Transaction, events: Events, now: EpochMs): Promise<number> {
  const stored = await tx.get(CURSOR, 'tokens');
  const cursor = await readCursor(tx, now);
  const after = {
    name: keyOf(TOKEN_ID, cursor.id || '~'),
    score: cursor.id === '' ? cursor.until : cursor.until + 1,
  };
  const due = (await tx.range(EXPIRY, { to: now, after, limit: BATCH })).filter(isToken);
  const isStale = stored === undefined || Math.abs(now - stored.until) > HOUR_MS;
  if (due.length === 0 && !isStale) return 0;
  for (const { name } of due) {
    const token = await readToken(tx, idOf(name));
    if (token !== undefined) await events.ofToken(tx, 'token.expired', token, now);
  }
  const last = due.length === BATCH ? due.at(-1) : undefined;
  tx.put(
    CURSOR,
    'tokens',
    last === undefined ? { until: now, id: '' } : { until: last.score - 1, id: idOf(last.name) },
  );
  return last === undefined ? 0 : due.length;
}

const isToken = ({ name }: Member) => name.startsWith(`${TOKEN_ID.name}:`);
const idOf = (name: string) => name.slice(name.indexOf(':') + 1);

/** Returns whether there may be more. */
async function distribute(tx: Transaction, now: EpochMs): Promise<boolean> {
  const waiting = await tx.range(WAITING_EVENTS, { limit: BATCH });
  await tx.load(waiting.map(({ name }) => keyOf(WAITING, name)));
  const events = await Promise.all(waiting.map(async ({ name }) => tx.get(WAITING, name)));
  await tx.load(
    events.flatMap((each) =>
      (each?.endpoints ?? []).map((to) => keyOf(QUEUE, idIn(to, each?.event.subject ?? ''))),
    ),
  );
  const queues = new Map<string, EndpointQueues>();
  for (const { name } of waiting) {
    const each = await tx.get(WAITING, name);
    for (const endpoint of each?.endpoints ?? []) {
      const queue = queues.get(endpoint) ?? (await EndpointQueues.open(tx, endpoint, now));
      queues.set(endpoint, queue);
      if (each !== undefined) await queue.append(each.event);
    }
    tx.remove(WAITING, name);
    tx.unlink(WAITING_EVENTS, name);
  }
  return waiting.length === BATCH;
}

/** Returns false if the event is not first any more. */
async function settle(
  tx: Transaction,
  endpoint: string,
  { id, subject }: StoredWebhookEvent,
  outcome: WebhookOutcome,
  now: EpochMs,
): Promise<boolean> {
  await tx.load([keyOf(ENDPOINT, endpoint), keyOf(QUEUE, idIn(endpoint, subject))]);
  const queues = await EndpointQueues.open(tx, endpoint, now);
  const { events: [first], attempts } = await queues.queueOf(subject); // prettier-ignore
  if (first?.id !== id) return false;
  if (outcome.kind === 'failed') {
    await queues.retry(subject, outcome.retryAt);
    const disabled = outcome.disable === true ? { disabledAt: now } : {};
    queues.note({ lastFailureAt: now, lastError: outcome.error, ...disabled });
    return true;
  }
  await queues.removeFirst(subject);
  if (outcome.kind === 'delivered') queues.note({ lastSuccessAt: now });
  else {
    queues.note({ lastFailureAt: now, lastError: outcome.error });
    await addDead(tx, queues, { event: first, attempts: attempts + 1, failedAt: now, error: outcome.error });
  }
  return true;
}

async function addDead(tx: Transaction, queues: EndpointQueues, dead: ValueOf<typeof DEAD>): Promise<void> {
  const { endpoint, state } = queues;
  if ((await tx.count(deadOf(endpoint))) >= MAX_DEAD) {
    const [oldest] = await tx.range(deadOf(endpoint), { limit: 1 });
    if (oldest !== undefined) queues.removeDead(oldest.name);
    queues.note({ deadDropped: state.deadDropped + 1 });
  }
  tx.put(DEAD, idIn(endpoint, dead.event.id), dead);
  tx.link(deadOf(endpoint), dead.event.id, 'revision');
}

async function resend(
  tx: Transaction,
  endpoint: string,
  ids: readonly string[] | null,
  now: EpochMs,
): Promise<number> {
  if (!(await tx.has(ENDPOINT, endpoint))) return 0;
  const queues = await EndpointQueues.open(tx, endpoint, now);
  let count = 0;
  for (const { name } of await tx.range(deadOf(endpoint))) {
    if (ids !== null && !ids.includes(name)) continue;
    const dead = await tx.get(DEAD, idIn(endpoint, name));
    queues.removeDead(name);
    if (dead === undefined) continue;
    await queues.append(dead.event);
    count += 1;
  }
  // In the order in which they were due.
  for (const { name } of await tx.range(dueFor(endpoint))) queues.setDue(name, null);
  queues.note({ disabledAt: null });
  return count;
}

/** Returns those that no sender has named for a while. */
async function keepEndpoints(tx: Transaction, known: ReadonlySet<string>, now: EpochMs): Promise<string[]> {
  const lapsed: string[] = [];
  for (const { name } of await tx.range(ENDPOINTS)) {
    const queues = await EndpointQueues.open(tx, name, now);
    if (known.has(name)) queues.note({ keptAt: now });
    else if (queues.state.keptAt < now - FORGET_ENDPOINT_MS) lapsed.push(name);
  }
  return lapsed;
}

async function forget(tx: Transaction, endpoint: string): Promise<void> {
  for (const { name } of await tx.range(dueFor(endpoint))) tx.remove(QUEUE, idIn(endpoint, name));
  for (const { name } of await tx.range(deadOf(endpoint))) tx.remove(DEAD, idIn(endpoint, name));
  for (const index of [dueFor(endpoint), deadOf(endpoint), queuedFor(endpoint), heldFor(endpoint)])
    for (const { name } of await tx.range(index)) tx.unlink(index, name);
  tx.remove(ENDPOINT, endpoint);
  tx.unlink(ENDPOINTS, endpoint);
}
