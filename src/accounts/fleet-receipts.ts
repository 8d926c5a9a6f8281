import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../domain/secret.js';
import { StoreUnavailable } from '../store/faults.js';
import type { FleetStore, LiveMember } from '../store/core/fleet.js';

const WAIT_MS = 5_000;
/** Doubles from the first to the maximum. */
const FIRST_POLL_MS = 2;
const MAX_POLL_MS = 25;

export interface FleetReceipt {
  /** Sidecars that were up at the revocation. */
  readonly sidecars: number;
  /** To the last confirmation; null if there was none. */
  readonly slowestMs: number | null;
  /** With the milliseconds between the latest heartbeat and the revocation. */
  readonly missing: readonly { readonly name: string; readonly heartbeatAge: number }[];
}

/** What this process knows without asking the store. */
export interface KnownFleet {
  readonly members: readonly LiveMember[];
  /** Null if this process serves no requests. */
  readonly self: LiveMember | null;
}

/**
 * Waits until every sidecar has dropped what was just revoked: when all of its processes answer a question
 * asked after the revocation. A process that ends meanwhile holds nothing; one that starts reads the store
 * afresh.
 * @param sentAt `performance.now()` when the revocation was sent to the store
 */
export async function collectReceipt(
  store: FleetStore,
  known: KnownFleet,
  sentAt: number,
  waitMs = WAIT_MS,
): Promise<FleetReceipt> {
  const until = performance.now() + waitMs;
  const question = newId();
  const all = await membersOf(store, known, question);
  const waiting = new Map(all.map((member) => [member.id, member]));
  let slowestMs: number | null = null;
  let isAsked = false;
  for (let interval = FIRST_POLL_MS; waiting.size > 0 && performance.now() < until; interval *= 2) {
    try {
      if (!isAsked) await store.ask(question);
      isAsked = true;
      for (const id of await store.answers(question))
        if (waiting.delete(id)) slowestMs = Math.ceil(performance.now() - sentAt);
      if (waiting.size === 0) break;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
    }
    await sleep(Math.min(interval, MAX_POLL_MS, Math.max(0, until - performance.now())));
  }
  const sidecars = new Map(all.map((each) => [each.sidecar, { name: each.name, heartbeatAge: each.age }]));
  const missing = new Set([...waiting.values()].map(({ sidecar }) => sidecars.get(sidecar)));
  return { sidecars: sidecars.size, slowestMs, missing: [...missing].filter((each) => each !== undefined) };
}

/** Includes those last known here: the store may be unavailable, or list too few. */
async function membersOf(
  store: FleetStore,
  { members, self }: KnownFleet,
  question: string,
): Promise<readonly LiveMember[]> {
  const [found, left] = await listed(store, question);
  const remaining = members.filter(({ id }) => !left.includes(id));
  const all = [...remaining, ...(self === null ? [] : [self]), ...found];
  return [...new Map(all.map((each) => [each.id, each])).values()];
}

/** Returns the live processes and the ids of those that left. */
async function listed(
  store: FleetStore,
  question: string,
): Promise<readonly [readonly LiveMember[], readonly string[]]> {
  try {
    // Nobody was asked yet, so those who "answered" are those that left.
    return [await store.list(), await store.answers(question)];
  } catch (error) {
    if (error instanceof StoreUnavailable) return [[], []];
    throw error;
  }
}
