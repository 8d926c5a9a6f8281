import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../domain/secret.js';
import { StoreUnavailable } from '../store/faults.js';
import { type FleetStore, LIVE_MS, type LiveMember } from '../store/fleet-store.js';

/** Maximum wait for sidecars to drop what was revoked, in milliseconds. */
const WAIT_MS = 5_000;
/** Poll interval for answers, in milliseconds; doubles from the first to the maximum. */
const FIRST_POLL_MS = 2;
const MAX_POLL_MS = 25;
/** How often the list of live processes is read again, in milliseconds. */
const LIST_MS = 250;

/** Which sidecars have dropped what was revoked. */
export interface FleetReceipt {
  /** Number of sidecars that were up at the revocation. */
  readonly sidecars: number;
  /** Milliseconds from the revocation to the last confirmation; null if there was none. */
  readonly slowestMs: number | null;
  /** The sidecars that have not confirmed, by name. */
  readonly missing: readonly MissingSidecar[];
}

interface MissingSidecar {
  readonly name: string;
  /** Milliseconds between its latest heartbeat and the revocation. */
  readonly heartbeatAge: number;
}

/** What this process knows about the fleet without asking the store. */
export interface KnownFleet {
  /** The processes that were live at this process's latest heartbeat. */
  readonly members: readonly LiveMember[];
  /** This process; null if it does not serve requests. */
  readonly self: LiveMember | null;
}

/**
 * Waits until every sidecar has dropped what was just revoked.
 *
 * A sidecar drops it from its cache and ends the streams that it allowed. All times are from this
 * process's monotonic clock.
 *
 * A sidecar is done when all of its processes answer a question that was asked after the
 * revocation. A process that ends in the meantime no longer holds anything; one that starts reads
 * the store afresh.
 */
export class FleetReceipts {
  readonly #store: FleetStore;
  readonly #known: () => KnownFleet;
  readonly #waitMs: number;

  constructor(store: FleetStore, known: () => KnownFleet, waitMs = WAIT_MS) {
    this.#store = store;
    this.#known = known;
    this.#waitMs = waitMs;
  }

  /** @param sentAt `performance.now()` when the revocation was sent to the store */
  async collect(sentAt: number): Promise<FleetReceipt> {
    const until = performance.now() + this.#waitMs;
    const pending = new Pending(await this.#members(until));
    const question = newId();
    let isAsked = false;
    let listedAt = performance.now();
    for (
      let pollInterval = FIRST_POLL_MS;
      !pending.isComplete && performance.now() < until;
      pollInterval *= 2
    ) {
      try {
        if (!isAsked) await this.#store.ask(question);
        isAsked = true;
        pending.note(await this.#store.answers(question), performance.now() - sentAt);
        if (pending.isComplete) break;
        if (performance.now() - listedAt >= LIST_MS) {
          pending.compare(await this.#store.list(), performance.now() - sentAt);
          listedAt = performance.now();
        }
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
      }
      await sleep(Math.min(pollInterval, MAX_POLL_MS, Math.max(0, until - performance.now())));
    }
    return pending.receipt();
  }

  /** Returns the live processes, or those last known to this process if the store cannot tell. */
  async #members(until: number): Promise<FoundMembers> {
    const { members, self } = this.#known();
    const late = new AbortController();
    const timeout = sleep(Math.max(0, until - performance.now()), undefined, late);
    const listed = Promise.resolve(this.#store.list()).catch((error: unknown) => {
      if (error instanceof StoreUnavailable) return undefined;
      throw error;
    });
    const found = await Promise.race([listed, timeout]).finally(() => late.abort());
    const all = found ?? members;
    const isListed = self === null || all.some(({ id }) => id === self.id);
    return { all: isListed ? all : [...all, self], listed: found ?? [] };
  }
}

/** The processes to wait for. */
interface FoundMembers {
  readonly all: readonly LiveMember[];
  /** Those that the store has just reported as live. */
  readonly listed: readonly LiveMember[];
}

/** The processes that have not answered yet. */
class Pending {
  readonly #sidecars: ReadonlyMap<string, MissingSidecar>;
  readonly #waiting: Map<string, LiveMember>;
  readonly #listed: readonly LiveMember[];
  readonly #startedAt = performance.now();
  #slowest: number | null = null;

  constructor({ all, listed }: FoundMembers) {
    this.#waiting = new Map(all.map((member) => [member.id, member]));
    this.#sidecars = new Map(all.map((each) => [each.sidecar, { name: each.name, heartbeatAge: each.age }]));
    this.#listed = listed;
  }

  get isComplete(): boolean {
    return this.#waiting.size === 0;
  }

  note(ids: readonly string[], ms: number): void {
    for (const id of ids) if (this.#waiting.delete(id)) this.#slowest = ms;
  }

  /** Marks processes that left: no longer live although their last heartbeat is recent enough. */
  compare(live: readonly LiveMember[], ms: number): void {
    const elapsed = performance.now() - this.#startedAt;
    const ids = new Set(live.map(({ id }) => id));
    const left = this.#listed.filter(({ id, age }) => !ids.has(id) && age + elapsed < LIVE_MS - LIST_MS);
    this.note(left.map(({ id }) => id), ms);
  } // prettier-ignore

  receipt(): FleetReceipt {
    const missing = new Map([...this.#waiting.values()].map(({ sidecar }) => [sidecar, this.#sidecars.get(sidecar)]));
    return {
      sidecars: this.#sidecars.size,
      slowestMs: this.#slowest === null ? null : Math.ceil(this.#slowest),
      missing: [...missing.values()].filter((each) => each !== undefined),
    };
  } // prettier-ignore
}
