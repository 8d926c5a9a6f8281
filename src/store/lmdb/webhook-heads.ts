import type { StoredWebhookEvent } from '../../domain/webhook.js';
import { firstEvent } from '../webhook-records.js';
import { addHeld, endpointState, nextNumber, type Outbox, setDue } from './outbox.js';

/** Removes the first event of a subject, and makes the next one due. Run it in a write transaction. */
export function removeFirst(outbox: Outbox, endpoint: string, subject: string): void {
  const first = firstEntry(outbox, endpoint, subject);
  if (first !== undefined) {
    const number = first.key[3] as number;
    addHeld(outbox, endpoint, first.value?.customerId, -1);
    outbox.remove(first.key);
    outbox.remove(['order', endpoint, number]);
    const state = endpointState(outbox, endpoint);
    outbox.put(['endpoint', endpoint], { ...state, queued: state.queued - 1 });
  }
  const isLast = firstEntry(outbox, endpoint, subject) === undefined;
  setDue(outbox, endpoint, subject, isLast ? undefined : { dueAt: nextNumber(outbox), attempts: 0 });
}

/** Returns the first event of a subject. @throws RecordUnreadable */
export function headOf(outbox: Outbox, endpoint: string, subject: string): StoredWebhookEvent {
  return firstEvent(firstEntry(outbox, endpoint, subject)?.value, endpoint, subject);
}

function firstEntry(outbox: Outbox, endpoint: string, subject: string) {
  return outbox.entries(['queue', endpoint, subject], { limit: 1 })[0];
}

/** Returns how often the first event of a subject was tried. */
export function attemptsOf(outbox: Outbox, endpoint: string, subject: string): number {
  return outbox.get(['subject', endpoint, subject])?.attempts ?? 0;
}
