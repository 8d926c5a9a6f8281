import type { StoredWebhookEvent } from '../../domain/webhook.js';
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
      const rows = (await client.script('readDueWebhooks', lease, endpoint, now, limit)) as string[] | null;
      return rows && dueOf(rows);
    },
    settle: async (lease, endpoint, { id, subject }, outcome, now) =>
      (await client.script('settleWebhook', lease, endpoint, subject, id, now, JSON.stringify(outcome))) ===
      1,
    keep: async (lease, endpoints, now) =>
      void (await client.script('keepWebhooks', lease, now, ...endpoints)),
    status: async () => ((await client.script('readWebhooks')) as StatusRow[]).map(statusOf),
    listDead: async (endpoint) =>
      ((await client.script('readDeadWebhooks', endpoint)) as string[]).map((text) => {
        const dead = JSON.parse(text) as Omit<DeadWebhook, 'event'> & { readonly event: string };
        return { ...dead, event: JSON.parse(dead.event) as StoredWebhookEvent };
      }),
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

function dueOf(rows: readonly string[]): DueWebhook[] {
  const due: DueWebhook[] = [];
  for (let i = 0; i < rows.length; i += 2)
    due.push({ event: JSON.parse(rows[i] ?? '') as StoredWebhookEvent, attempts: Number(rows[i + 1]) });
  return due;
} // prettier-ignore

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
