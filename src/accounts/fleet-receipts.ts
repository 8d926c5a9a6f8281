import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '../domain/secret.js';
import { StoreUnavailable } from '../store/faults.js';
import { type FleetStore, LIVE_MS, type LiveMember } from '../store/fleet-store.js';

/** A sidecar that has not dropped what ended is waited for this long, in milliseconds. */
const WAIT_MS = 5_000;
/** How often answers are looked for: soon at first, then less often. */
const FIRST_LOOK_MS = 2;
const MAX_LOOK_MS = 25;
/** How often it is looked for processes that ended meanwhile. */
const LIST_MS = 250;

/** Which sidecars have dropped what ended. */
export interface FleetReceipt {
  /** How many were up when it ended. */
  readonly sidecars: number;
  /** Milliseconds until the last of those that have dropped it was known to; null when none has. */
  readonly slowestMs: number | null;
  /** Those that have not, by name. */
  readonly missing: readonly MissingSidecar[];
}

interface MissingSidecar {
  readonly name: string;
  /** Milliseconds between its latest heartbeat and the revocation. */
  readonly heartbeatAge: number;
}

/** What this process knows of the fleet without asking the store. */
export interface KnownFleet {
  /** The processes that were live at its latest heartbeat. */
  readonly members: readonly LiveMember[];
  /** Itself; null when it serves nobody. */
  readonly self: LiveMember | null;
}

/**
 * Waits until every sidecar has dropped what just ended: its cache, and the streams that it let in. All times are those of
 * this process's monotonic clock.
 *
 * A sidecar has dropped it when all of its processes answer a question that was asked after the revocation. One that ends
 * meanwhile holds nothing any more; one that starts meanwhile reads the store anew.
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
    let asked = false;
    let listedAt = performance.now();
    for (let look = FIRST_LOOK_MS; !pending.isOver && performance.now() < until; look *= 2) {
      try {
        if (!asked) await this.#store.ask(question);
        asked = true;
        pending.note(await this.#store.answers(question), performance.now() - sentAt);
        if (pending.isOver) break;
        if (performance.now() - listedAt >= LIST_MS) {
          pending.compare(await this.#store.list(), performance.now() - sentAt);
          listedAt = performance.now();
        }
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
      }
      await sleep(Math.min(look, MAX_LOOK_MS, Math.max(0, until - performance.now())));
    }
    return pending.receipt();
  }

  /** Those that are live. Where the store can't tell, those that this process knew last. */
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

/** The processes that are waited for. */
interface FoundMembers {
  readonly all: readonly LiveMember[];
  /** Those of which the store said just now that they are live. */
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

  get isOver(): boolean {
    return this.#waiting.size === 0;
  }

  note(ids: readonly string[], ms: number): void {
    for (const id of ids) if (this.#waiting.delete(id)) this.#slowest = ms;
  }

  /** Notes who left: who is not live any more though its heartbeats are not too old. */
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
