import { formatTime, type EpochMs } from '../util/time.js';
import type { DeadWebhook } from '../store/records.js';
import { type EndpointStatus, NO_COUNTS } from '../store/core/events.js';
import type { WebhookStore } from '../store/core/webhooks.js';

/** Returns the state of webhooks for operators, without URL paths, queries or secrets. */
export async function webhookReport(store: WebhookStore, configured: readonly string[]) {
  const statuses = await store.status();
  const known = new Set(statuses.map(({ endpoint }) => endpoint));
  const endpoints = [
    ...statuses.map((status) => endpointObject(status, configured.includes(status.endpoint))),
    ...configured
      .filter((endpoint) => !known.has(endpoint))
      .map((endpoint) => endpointObject({ ...UNUSED, endpoint }, true)),
  ].toSorted((a, b) => (a.endpoint < b.endpoint ? -1 : 1));
  const deadLetters = [];
  for (const { endpoint } of statuses)
    for (const dead of await store.listDead(endpoint)) deadLetters.push(deadObject(endpoint, dead));
  return { endpoints, dead_letters: deadLetters };
}

/** Queues dead letters again, and counts them by endpoint; undefined when it is unknown. */
export async function resendWebhooks(
  store: WebhookStore,
  configured: readonly string[],
  endpoint: string | undefined,
  ids: readonly string[] | null,
): Promise<{ readonly endpoint: string; readonly resent: number }[] | undefined> {
  const known = new Set([...configured, ...(await store.status()).map((each) => each.endpoint)]);
  if (endpoint !== undefined && !known.has(endpoint)) return undefined;
  const resent = [];
  for (const each of endpoint === undefined ? known : [endpoint])
    resent.push({ endpoint: each, resent: await store.resend(each, ids) });
  return resent;
}

const UNUSED: Omit<EndpointStatus, 'endpoint'> = { ...NO_COUNTS, oldestAt: null, dead: 0 };

function endpointObject(status: EndpointStatus, configured: boolean) {
  return {
    endpoint: status.endpoint,
    configured,
    queued: status.queued,
    oldest_at: time(status.oldestAt),
    dead_letters: status.dead,
    dropped: status.dropped,
    dead_letters_dropped: status.deadDropped,
    disabled_at: time(status.disabledAt),
    last_success_at: time(status.lastSuccessAt),
    last_failure_at: time(status.lastFailureAt),
    last_error: status.lastError,
  };
}

function deadObject(endpoint: string, { event, attempts, failedAt, error }: DeadWebhook) {
  const { id, type, subject, at } = event;
  return { endpoint, id, type, subject, timestamp: time(at), attempts, failed_at: time(failedAt), error };
}

function time(at: EpochMs | null): string | null {
  return at === null ? null : formatTime(at);
}
