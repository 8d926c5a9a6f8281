import { deadLetterOf, firstEvent } from '../webhook-records.js';
import type { DeadWebhook, EndpointStatus, WebhookStore } from '../webhook-store.js';
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
      return rows.map(([subject, text, attempts]) => ({
        event: firstEvent(parsed(text), endpoint, subject),
        attempts: Number(attempts) || 0,
      }));
    },
    settle: async (lease, endpoint, { id, subject }, outcome, now) =>
      (await client.script('settleWebhook', lease, endpoint, subject, id, now, JSON.stringify(outcome))) ===
      1,
    keep: async (lease, endpoints, now) =>
      void (await client.script('keepWebhooks', lease, now, ...endpoints)),
    status: async () => ((await client.script('readWebhooks')) as StatusRow[]).map(statusOf),
    listDead: async (endpoint) =>
      (await deadTexts(client, endpoint)).map((text) => deadLetterIn(text, endpoint)),
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

type DueRow = readonly [subject: string, text: string, attempts: string];

/** Returns the texts of the dead letters of an endpoint, oldest first. */
export async function deadTexts(client: RedisClient, endpoint: string): Promise<string[]> {
  return (await client.script('readDeadWebhooks', endpoint)) as string[];
}

/** @throws RecordUnreadable */
export function deadLetterIn(text: string, endpoint: string): DeadWebhook {
  const stored = parsed(text) as { readonly event?: unknown } | null | undefined;
  return deadLetterOf({ ...stored, event: parsed(stored?.event) }, endpoint);
}

/** Parses JSON; undefined if it is none. */
export function parsed(text: unknown): unknown {
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
