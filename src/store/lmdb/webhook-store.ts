import { type EpochMs, HOUR_MS } from '../../domain/time.js';
import type { WebhookStore } from '../webhook-store.js';
import type { Databases } from './databases.js';
import { expiringRange } from './expiry.js';
import type { Outbox, StoredLease } from './outbox.js';
import { readToken } from './read.js';
import type { Transactions } from './transactions.js';
import { tellExpired, tellLocked, toldUntil } from './webhook-events.js';
import {
  deadEvents,
  dueEvents,
  endpointStatuses,
  keepEndpoints,
  resendEvents,
  settleEvent,
} from './webhook-queue.js';

/** Times of expiry that one transaction tells of. */
const EXPIRED_BATCH = 200;

export function lmdbWebhookStore(transactions: Transactions, outbox: Outbox): WebhookStore {
  // What is changed was let in, or makes room, so the space that is kept for removals is enough.
  const change = <T>(work: (dbs: Databases) => T): T => transactions.remove(work);
  const isHeld = (lease: string) => outbox.get(['lease'])?.name === lease;
  return {
    subscribe: (subscriptions) => {
      outbox.subscriptions = subscriptions;
    },
    queueLocked: async (locked, customerId, now) => {
      if (outbox.subscriptions.length > 0)
        transactions.write((dbs) => tellLocked(dbs, locked, customerId, now));
    },
    acquire: async (holder, ttl) => change(() => acquire(outbox, holder, ttl, Date.now())),
    release: async (lease) =>
      change(() => {
        const held = outbox.get(['lease']);
        if (held?.name === lease) outbox.put(['lease'], { ...held, until: 0 });
      }),
    queueExpired: async (lease) => {
      // A write waits for the disk, and mostly nothing has expired.
      if (transactions.read((dbs) => hasNoneToTell(dbs, Date.now()))) return 0;
      return change((dbs) => (isHeld(lease) ? queueExpired(dbs, Date.now()) : 0));
    },
    listDue: async (lease, endpoint, now, limit) =>
      transactions.read(() => (isHeld(lease) ? dueEvents(outbox, endpoint, now, limit) : null)),
    settle: async (lease, endpoint, event, outcome, now) =>
      change(() => isHeld(lease) && settleEvent(outbox, endpoint, event, outcome, now)),
    keep: async (lease, endpoints, now) =>
      change(() => {
        if (isHeld(lease)) keepEndpoints(outbox, endpoints, now);
      }),
    status: () => transactions.read(() => endpointStatuses(outbox)),
    listDead: (endpoint) => transactions.read(() => deadEvents(outbox, endpoint)),
    resend: async (endpoint, ids) => change(() => resendEvents(outbox, endpoint, ids)),
  };
}

/** A clock that was set back leaves no lease that holds for longer than one may. */
function acquire(outbox: Outbox, holder: string, ttl: number, now: EpochMs): string | null {
  const known = outbox.get(['lease']);
  const holds = known !== undefined && known.until > now && known.until <= now + known.ttl;
  if (holds && known.holder !== holder) return null;
  const number = holds ? known.number : (known?.number ?? 0) + 1;
  const lease: StoredLease = { name: `${number}:${holder}`, holder, number, ttl, until: now + ttl };
  outbox.put(['lease'], lease);
  return lease.name;
}

function hasNoneToTell(dbs: Databases, now: EpochMs): boolean {
  const told = dbs.outbox.get(['expired_until']);
  if (told === undefined || told < now - HOUR_MS) return false;
  for (const [, kind] of dbs.expiry.getKeys(expiringRange(told, now))) if (kind === 'token') return false;
  return true;
}

/** A time is told with all tokens that expired then, so that the next call can go on behind it. */
function queueExpired(dbs: Databases, now: EpochMs): number {
  const { outbox } = dbs;
  let until = toldUntil(dbs, now);
  let times = 0;
  // All of them first: what is written meanwhile must not move the cursor.
  const due = Array.from(dbs.expiry.getKeys(expiringRange(until, now)));
  for (const [at, kind, id] of due) {
    if (kind !== 'token') continue;
    if (at !== until && ++times > EXPIRED_BATCH) {
      outbox.put(['expired_until'], until);
      return times;
    }
    until = at;
    tellExpired(dbs, readToken(dbs, id));
  }
  outbox.put(['expired_until'], now);
  return 0;
}
