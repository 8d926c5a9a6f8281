import { payloadOf, type StoredWebhookEvent } from '../domain/webhook.js';
import { RecordDamaged, RecordUnreadable } from './faults.js';
import { isText, isTime, RECORD_VERSION } from './records.js';
import type { DeadWebhook } from './webhook-store.js';

/** Whether a newer Latchkey queued an event, which only that can judge to be damaged. */
export function isNewer(stored: unknown): boolean {
  const { v } = (stored ?? {}) as { readonly v?: unknown };
  return typeof v === 'number' && v > RECORD_VERSION;
}

/** Returns a stored event; undefined if it cannot be sent. */
export function eventOf(stored: unknown): StoredWebhookEvent | undefined {
  const event = stored as StoredWebhookEvent | null | undefined;
  if (!isText(event?.id) || !isText(event?.type) || !isText(event?.subject)) return undefined;
  try {
    payloadOf(event as StoredWebhookEvent);
    return event as StoredWebhookEvent;
  } catch {
    return undefined;
  }
}

/** Returns a stored dead letter; undefined if it is damaged. */
export function deadLetterOf(stored: unknown): DeadWebhook | undefined {
  const dead = stored as DeadWebhook | null | undefined;
  const isWhole = eventOf(dead?.event) !== undefined && isTime(dead?.failedAt) && isText(dead?.error);
  return isWhole ? (dead as DeadWebhook) : undefined;
}

/** Creates the report of a damaged event, which was removed. */
export function droppedEvent(endpoint: string, subject: string): RecordDamaged {
  return new RecordDamaged(`the next event of ${subject} for ${endpoint} was damaged`);
}

/** Creates the report of an event that stays queued until a newer Latchkey sends it. */
export function newerEvent(endpoint: string, subject: string): RecordUnreadable {
  return new RecordUnreadable(`the next event of ${subject} for ${endpoint} needs a newer Latchkey`);
}

/** Creates the error for a damaged dead letter. */
export function damagedDeadLetter(endpoint: string): RecordDamaged {
  return new RecordDamaged(
    `a dead letter of ${endpoint} is damaged; "latchkey webhook resend --endpoint ${endpoint}" removes it`,
  );
}
