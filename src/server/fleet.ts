import cluster from 'node:cluster';
import { hostname } from 'node:os';
import type { KnownFleet } from '../accounts/fleet-receipts.js';
import { newId } from '../domain/secret.js';
import type { Log } from '../observe/log.js';
import { metrics, linkAge } from '../observe/metrics.js';
import { readVersion } from '../files/files.js';
import type { Endings } from '../store/endings.js';
import { type FleetStore, HEARTBEAT_MS, LIVE_MS, type LiveMember } from '../store/core/fleet.js';
import type { Member } from '../store/core/kinds.js';
import type { EpochMs } from '../util/time.js';

/** Maximum wait for the first heartbeat at start, milliseconds. */
const FIRST_BEAT_MS = 2_000;

/** A serving process as a member of the fleet: sends its heartbeats and confirms revocations. */
export class Membership {
  readonly #store: FleetStore;
  readonly #log: Log;
  #self: Member;
  #members: readonly LiveMember[] = [];
  #listedAt = performance.now();
  #timer: NodeJS.Timeout | undefined;
  /** The heartbeat in progress, or the last one. It never rejects. */
  #beating = Promise.resolve();
  #hasLeft = false;
  /** Whether the absence of heartbeats was reported. */
  #isMissing = false;

  /** @param settled resolves when nothing acts any more for credentials that have ended */
  constructor(
    store: FleetStore,
    endings: Endings,
    log: Log,
    configHash: string,
    port: number,
    settled: () => Promise<void>,
  ) {
    const sidecar = ownSidecar();
    const id = memberId(sidecar, process.pid);
    this.#store = store;
    this.#log = log;
    this.#self = {
      id,
      sidecar: sidecar.id,
      name: nameOf(port),
      pid: process.pid,
      version: readVersion(),
      configHash,
      startedAt: sidecar.startedAt,
      linkAge: null,
    };
    // If the answer is lost, this process is reported as not having dropped the revoked credentials.
    endings.on('asked', (question) => {
      settled()
        .then(() => store.answer(question, id))
        .catch(() => undefined);
    });
    // After an outage, others list this process only once it has written a heartbeat.
    endings.on('resumed', () => void (this.#timer !== undefined && this.#beat()));
  }

  get known(): KnownFleet {
    // None is left out for its age: nobody could write a heartbeat while the store was unavailable.
    const elapsed = Math.round(performance.now() - this.#listedAt);
    const members = this.#members.map((each) => ({ ...each, age: each.age + elapsed }));
    return { members, self: { ...this.#self, age: 0 } };
  }

  /** Nothing may be served before the first heartbeat, because nobody would wait for this process. */
  async join(): Promise<void> {
    const waited = new Promise<void>((resolve) => setTimeout(resolve, FIRST_BEAT_MS).unref());
    await Promise.race([this.#beat(), waited]);
    this.#timer = setInterval(() => void this.#beat(), HEARTBEAT_MS).unref();
  }

  /** Updates the heartbeat when the process serves under another name or configuration. */
  update(changed: Partial<Pick<Member, 'name' | 'configHash'>>): void {
    this.#self = { ...this.#self, ...changed };
    void this.#beat();
  }

  /** Leaves the fleet. Call it when all streams have ended and no more requests are accepted. */
  async leave(): Promise<void> {
    clearInterval(this.#timer);
    this.#hasLeft = true;
    // A heartbeat written afterwards would list this process again.
    await this.#beating;
    await this.#store.leave(this.#self.id).catch(() => undefined);
  }

  /**
   * If the store is not writable, the next interval retries; meanwhile, others may consider this process
   * gone.
   */
  #beat(): Promise<void> {
    this.#beating = this.#beating.then(() => this.#write());
    return this.#beating;
  }

  async #write(): Promise<void> {
    if (this.#hasLeft) return;
    try {
      this.#self = { ...this.#self, linkAge: linkAge() };
      await this.#store.beat(this.#self);
      this.#members = await this.#store.list();
      this.#listedAt = performance.now();
      this.#isMissing = false;
    } catch (error) {
      this.#reportMissing(error as Error);
      return;
    }
    metrics.fleetSidecars.set(new Set(this.#members.map(({ sidecar }) => sidecar)).size);
    metrics.fleetConfigs.set(new Set(this.#members.map(({ configHash }) => configHash)).size);
  }

  #reportMissing({ message }: Error): void {
    if (this.#isMissing || performance.now() - this.#listedAt < LIVE_MS) return;
    this.#isMissing = true;
    this.#log.warn({ reason: message }, 'heartbeats not written; other sidecars take this process for gone');
  }
}

export function nameOf(port: number | string): string {
  return `${hostname()}:${port}`;
}

/** Removes a process of this sidecar that died from the fleet. */
export function noteDeath(store: FleetStore, pid: number): void {
  store.leave(memberId(ownSidecar(), pid)).catch(() => undefined);
}

const VARIABLE = 'LATCHKEY_SIDECAR';

let own: ReturnType<typeof beginSidecar> | undefined;

/** Returns the sidecar of this process. A primary creates one, and its workers inherit it. */
export function ownSidecar() {
  return (own ??= beginSidecar());
}

function beginSidecar(): { readonly id: string; readonly startedAt: EpochMs } {
  const [id, startedAt] = cluster.isWorker ? (process.env[VARIABLE] ?? '').split(' ') : [];
  if (id !== undefined && startedAt !== undefined) return { id, startedAt: Number(startedAt) };
  const sidecar = { id: newId(), startedAt: Date.now() };
  process.env[VARIABLE] = `${sidecar.id} ${sidecar.startedAt}`;
  return sidecar;
}

function memberId({ id }: { readonly id: string }, pid: number): string {
  return `${id}-${pid}`;
}
