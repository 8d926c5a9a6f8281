import { payloadOf, type StoredWebhookEvent } from '../domain/webhook.js';
import { RecordNewer } from './faults.js';
import { isText, isTime, RECORD_VERSION, removable } from './records.js';
import type { DeadWebhook } from './webhook-store.js';

/** Returns the first event of a subject. @throws RecordUnreadable */
export function firstEvent(stored: unknown, endpoint: string, subject: string): StoredWebhookEvent {
  const { v } = (stored ?? {}) as { readonly v?: unknown };
  const id = `${endpoint}/${subject}`;
  if (typeof v === 'number' && v > RECORD_VERSION)
    throw new RecordNewer(`the next webhook event needs a newer Latchkey (webhook ${id})`);
  const event = eventOf(stored);
  if (event?.subject !== subject) throw removable('webhook', id, 'the next webhook event is damaged');
  return event;
}

/** Returns a stored dead letter. @throws RecordUnreadable */
export function deadLetterOf(stored: unknown, endpoint: string): DeadWebhook {
  const dead = stored as DeadWebhook | null | undefined;
  const isWhole = eventOf(dead?.event) !== undefined && isTime(dead?.failedAt) && isText(dead?.error);
  if (!isWhole) throw removable('dead_letter', endpoint, 'a dead letter is damaged');
  return dead as DeadWebhook;
}

/** Returns a stored event; undefined if it cannot be sent. */
function eventOf(stored: unknown): StoredWebhookEvent | undefined {
  const event = stored as StoredWebhookEvent | null | undefined;
  if (!isText(event?.id) || !isText(event?.type) || !isText(event?.subject)) return undefined;
  try {
    payloadOf(event as StoredWebhookEvent);
    return event as StoredWebhookEvent;
  } catch {
    return undefined;
  }
}
