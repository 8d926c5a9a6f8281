import { eventOf, isNewer } from '../webhook-records.js';
import { addHeld, endpointState, type Key, nextNumber, type Outbox, setDue } from './outbox.js';

/** Removes an event that is still damaged or missing, by its key. Run it in a write transaction. */
export function dropDamaged(outbox: Outbox, endpoint: string, due: Key<'due'>): boolean {
  const subject = due[3] as string;
  const { event, isNewer, number } = headOf(outbox, endpoint, subject);
  if (event !== undefined || isNewer) return false;
  outbox.remove(due);
  removeFirst(outbox, endpoint, subject, number);
  return true;
}

/**
 * Removes the first event of a subject, and makes the next one due. Run it in a write transaction.
 *
 * @param number of the event; undefined if it is missing
 */
export function removeFirst(
  outbox: Outbox,
  endpoint: string,
  subject: string,
  number: number | undefined,
): void {
  if (number !== undefined) {
    addHeld(outbox, endpoint, outbox.get(['queue', endpoint, subject, number])?.customerId, -1);
    outbox.remove(['queue', endpoint, subject, number]);
    outbox.remove(['order', endpoint, number]);
  }
  const isLast = headOf(outbox, endpoint, subject).number === undefined;
  setDue(outbox, endpoint, subject, isLast ? undefined : { dueAt: nextNumber(outbox), attempts: 0 });
  const isEmpty = outbox.entries(['due', endpoint], { limit: 1 }).length === 0;
  // The number of a missing event is unknown.
  if (isEmpty) for (const { key } of outbox.entries(['order', endpoint])) outbox.remove(key);
  const state = endpointState(outbox, endpoint);
  outbox.put(['endpoint', endpoint], { ...state, queued: isEmpty ? 0 : state.queued - 1 });
}

/** Returns the first event of a subject; undefined if it cannot be sent. */
export function headOf(outbox: Outbox, endpoint: string, subject: string) {
  const [head] = outbox.entries(['queue', endpoint, subject], { limit: 1 });
  const event = eventOf(head?.value);
  return {
    event: event?.subject === subject ? event : undefined,
    isNewer: isNewer(head?.value),
    number: head?.key[3] as number | undefined,
  };
}

/** Returns how often the first event of a subject was tried. */
export function attemptsOf(outbox: Outbox, endpoint: string, subject: string): number {
  return outbox.get(['subject', endpoint, subject])?.attempts ?? 0;
}
