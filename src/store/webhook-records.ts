import { payloadOf, type StoredWebhookEvent } from '../domain/webhook.js';
import { RecordDamaged } from './faults.js';
import { isText, isTime } from './record-fields.js';
import type { DeadWebhook } from './webhook-store.js';

/** Returns a stored event; undefined if it is damaged, so that it cannot be sent. */
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

/** Creates the error for a damaged dead letter. */
export function damagedDeadLetter(endpoint: string): RecordDamaged {
  return new RecordDamaged(
    `a dead letter of ${endpoint} is damaged; "latchkey webhook resend --endpoint ${endpoint}" removes it`,
  );
}
