import type { EpochMs } from '../../domain/time.js';
import type { StoredWebhookEvent } from '../../domain/webhook.js';
import {
  type DeadWebhook,
  type DueWebhook,
  type EndpointStatus,
  FORGET_ENDPOINT_MS,
  MAX_DEAD,
  type WebhookOutcome,
} from '../webhook-store.js';
import { append, type EndpointState, endpointState, nextNumber, type Outbox, setDue } from './outbox.js';

/** The first events of subjects whose time or turn has come. */
export function dueEvents(outbox: Outbox, endpoint: string, now: EpochMs, limit: number): DueWebhook[] {
  if (endpointState(outbox, endpoint).disabledAt !== null) return [];
  const found: DueWebhook[] = [];
  for (const { key } of outbox.entries(['due', endpoint], { to: now, limit })) {
    const subject = key[3] as string;
    const event = headOf(outbox, endpoint, subject)?.event;
    const attempts = outbox.get(['subject', endpoint, subject])?.attempts ?? 0;
    if (event !== undefined) found.push({ event, attempts });
  }
  return found;
}

/** Notes what became of an attempt; false when the event is not the first one any more. Run it in a write transaction. */
export function settleEvent(
  outbox: Outbox,
  endpoint: string,
  { id, subject }: StoredWebhookEvent,
  outcome: WebhookOutcome,
  now: EpochMs,
): boolean {
  const head = headOf(outbox, endpoint, subject);
  if (head?.event.id !== id) return false;
  const attempts = (outbox.get(['subject', endpoint, subject])?.attempts ?? 0) + 1;
  const note = (change: Partial<EndpointState>) =>
    outbox.put(['endpoint', endpoint], { ...endpointState(outbox, endpoint), ...change });
  if (outcome.kind === 'failed') {
    setDue(outbox, endpoint, subject, { dueAt: outcome.retryAt, attempts });
    const disabled = outcome.disable === true ? { disabledAt: now } : {};
    note({ lastFailureAt: now, lastError: outcome.error, ...disabled });
    return true;
  }
  outbox.remove(['queue', endpoint, subject, head.number]);
  outbox.remove(['order', endpoint, head.number]);
  const isLast = headOf(outbox, endpoint, subject) === undefined;
  setDue(outbox, endpoint, subject, isLast ? undefined : { dueAt: nextNumber(outbox), attempts: 0 });
  const queued = endpointState(outbox, endpoint).queued - 1;
  if (outcome.kind === 'delivered') note({ queued, lastSuccessAt: now });
  else {
    note({ queued, lastFailureAt: now, lastError: outcome.error });
    bury(outbox, endpoint, { event: head.event, attempts, failedAt: now, error: outcome.error });
  }
  return true;
}

function headOf(outbox: Outbox, endpoint: string, subject: string) {
  for (const { key, value } of outbox.entries(['queue', endpoint, subject], { limit: 1 }))
    return { event: value, number: key[3] as number };
  return undefined;
}

function bury(outbox: Outbox, endpoint: string, dead: DeadWebhook): void {
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

export function deadEvents(outbox: Outbox, endpoint: string): DeadWebhook[] {
  return outbox.entries(['dead', endpoint]).map(({ value }) => value);
}

/** Run it in a write transaction. */
export function resendEvents(outbox: Outbox, endpoint: string, ids: readonly string[] | null): number {
  let count = 0;
  for (const { key, value } of outbox.entries(['dead', endpoint])) {
    if (ids !== null && !ids.includes(value.event.id)) continue;
    outbox.remove(key);
    append(outbox, endpoint, value.event);
    count += 1;
  }
  if (outbox.get(['endpoint', endpoint]) === undefined) return count;
  for (const { key, value } of outbox.entries(['subject', endpoint]))
    setDue(outbox, endpoint, key[2] as string, { ...value, dueAt: nextNumber(outbox) });
  outbox.put(['endpoint', endpoint], { ...endpointState(outbox, endpoint), disabledAt: null });
  return count;
}

export function endpointStatuses(outbox: Outbox): EndpointStatus[] {
  return outbox.entries(['endpoint']).map(({ key, value }) => {
    const endpoint = key[1] as string;
    const { keptAt: _, ...state } = value;
    const [oldest] = outbox.entries(['order', endpoint], { limit: 1 });
    return {
      endpoint,
      ...state,
      oldestAt: oldest?.value ?? null,
      dead: deadNumbers(outbox, endpoint).length,
    };
  });
}

/** Forgets endpoints that no sender knows any more. Run it in a write transaction. */
export function keepEndpoints(outbox: Outbox, endpoints: readonly string[], now: EpochMs): void {
  const known = new Set(endpoints);
  for (const { key, value } of outbox.entries(['endpoint'])) {
    const endpoint = key[1] as string;
    if (known.has(endpoint)) outbox.put(['endpoint', endpoint], { ...value, keptAt: now });
    else if (value.keptAt < now - FORGET_ENDPOINT_MS) forget(outbox, endpoint);
  }
}

function forget(outbox: Outbox, endpoint: string): void {
  for (const kind of ['queue', 'subject', 'due', 'order', 'dead'] as const)
    for (const { key } of outbox.entries([kind, endpoint])) outbox.remove(key);
  outbox.remove(['endpoint', endpoint]);
}
