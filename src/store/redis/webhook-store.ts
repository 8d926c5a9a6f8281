import { ListReader } from '../faults.js';
import {
  damagedDeadLetter,
  deadLetterOf,
  droppedEvent,
  eventOf,
  isNewer,
  newerEvent,
} from '../webhook-records.js';
import type { DeadWebhook, DueWebhook, EndpointStatus, WebhookStore } from '../webhook-store.js';
import type { RedisClient } from './client.js';

export function redisWebhookStore(client: RedisClient): WebhookStore {
  let subscribed = false;
  return {
    subscribe: (subscriptions) => {
      subscribed = subscriptions.length > 0;
      client.subscriptions = subscriptions;
    },
    queueLocked: async (locked, customerId) => {
      if (subscribed)
        await client.script('queueLocked', locked === null ? '' : JSON.stringify(locked), customerId ?? '');
    },
    acquire: async (holder, ttl) => (await client.script('acquireWebhooks', holder, ttl)) as string | null,
    release: async (lease) => void (await client.script('releaseWebhooks', lease)),
    queueExpired: async (lease) =>
      subscribed ? ((await client.script('queueExpired', lease)) as number) : 0,
    listDue: async (lease, endpoint, now, limit) => {
      const rows = (await client.script('readDueWebhooks', lease, endpoint, now, limit)) as DueRow[] | null;
      if (rows === null) return null;
      const due = new ListReader<DueWebhook>();
      for (const [subject, text, digest, attempts] of rows) {
        const stored = parsed(text);
        const event = eventOf(stored);
        if (event?.subject === subject) due.add(() => ({ event, attempts: Number(attempts) || 0 }));
        else if (isNewer(stored)) due.fail(newerEvent(endpoint, subject));
        else if ((await client.script('dropWebhook', lease, endpoint, subject, digest)) === 1)
          due.fail(droppedEvent(endpoint, subject));
      }
      return due.end();
    },
    settle: async (lease, endpoint, { id, subject }, outcome, now) =>
      (await client.script('settleWebhook', lease, endpoint, subject, id, now, JSON.stringify(outcome))) ===
      1,
    keep: async (lease, endpoints, now) =>
      void (await client.script('keepWebhooks', lease, now, ...endpoints)),
    status: async () => ((await client.script('readWebhooks')) as StatusRow[]).map(statusOf),
    listDead: async (endpoint) => {
      const letters = new ListReader<DeadWebhook>();
      for (const text of (await client.script('readDeadWebhooks', endpoint)) as string[]) {
        const stored = parsed(text) as { readonly event?: unknown } | null | undefined;
        const dead = deadLetterOf({ ...stored, event: parsed(stored?.event) });
        if (dead === undefined) letters.fail(damagedDeadLetter(endpoint));
        else letters.add(() => dead);
      }
      return letters.end();
    },
    resend: async (endpoint, ids) =>
      (await client.script(
        'resendWebhooks',
        endpoint,
        ids === null ? 'all' : 'some',
        ...(ids ?? []),
      )) as number,
  };
}

type StatusRow = readonly [
  endpoint: string,
  queued: number,
  oldestAt: string,
  dead: number,
  state: readonly string[],
];

type DueRow = readonly [subject: string, text: string, digest: string, attempts: string];

/** Parses JSON; undefined if it is none. */
function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text)) as unknown;
  } catch {
    return undefined;
  }
}

function statusOf([endpoint, queued, oldestAt, dead, fields]: StatusRow): EndpointStatus {
  const state = new Map<string, string>();
  for (let i = 0; i < fields.length; i += 2) state.set(fields[i] ?? '', fields[i + 1] ?? '');
  const time = (name: string) => (state.has(name) ? Number(state.get(name)) : null);
  return {
    endpoint,
    queued,
    oldestAt: oldestAt === '' ? null : Number(oldestAt),
    dead,
    dropped: time('dropped') ?? 0,
    deadDropped: time('deadDropped') ?? 0,
    disabledAt: time('disabledAt'),
    lastSuccessAt: time('lastSuccessAt'),
    lastFailureAt: time('lastFailureAt'),
    lastError: state.get('lastError') ?? null,
  };
}
