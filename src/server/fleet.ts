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

/**
 * A serving process as a member of the fleet: sends its heartbeats and confirms revocations.
 * @param settled resolves when nothing acts any more for credentials that have ended
 */
export function createMembership(
  store: FleetStore,
  endings: Endings,
  log: Log,
  configHash: string,
  port: number,
  settled: () => Promise<void>,
) {
  const { id: sidecar, startedAt } = ownSidecar();
  const { pid } = process;
  const id = memberId(sidecar, pid);
  const version = readVersion();
  let self: Member = { id, sidecar, name: nameOf(port), pid, version, configHash, startedAt, linkAge: null };
  let members: readonly LiveMember[] = [];
  let listedAt = performance.now();
  let timer: NodeJS.Timeout | undefined;
  /** The heartbeat in progress, or the last one. It never rejects. */
  let beating = Promise.resolve();
  let hasLeft = false;
  /** Whether the absence of heartbeats was reported. */
  let isMissing = false;

  const write = async (): Promise<void> => {
    if (hasLeft) return;
    try {
      self = { ...self, linkAge: linkAge() };
      await store.beat(self);
      members = await store.list();
    } catch (error) {
      if (isMissing || performance.now() - listedAt < LIVE_MS) return;
      isMissing = true;
      const reason = (error as Error).message;
      log.warn({ reason }, 'heartbeats not written; other sidecars take this process for gone');
      return;
    }
    listedAt = performance.now();
    isMissing = false;
    metrics.fleetSidecars.set(new Set(members.map((each) => each.sidecar)).size);
    metrics.fleetConfigs.set(new Set(members.map((each) => each.configHash)).size);
  };
  /** If the store is not writable, the next interval retries; meanwhile, others may consider this process gone. */
  const beat = (): Promise<void> => (beating = beating.then(write));

  // If the answer is lost, this process is reported as not having dropped the revoked credentials.
  endings.on('asked', (question) => {
    settled()
      .then(() => store.answer(question, id))
      .catch(() => undefined);
  });
  // After an outage, others list this process only once it has written a heartbeat.
  endings.on('resumed', () => void (timer !== undefined && beat()));
  return {
    known: (): KnownFleet => {
      // None is left out for its age: nobody could write a heartbeat while the store was unavailable.
      const elapsed = Math.round(performance.now() - listedAt);
      return {
        members: members.map((each) => ({ ...each, age: each.age + elapsed })),
        self: { ...self, age: 0 },
      };
    },
    /** Nothing may be served before the first heartbeat, because nobody would wait for this process. */
    join: async (): Promise<void> => {
      const waited = new Promise<void>((resolve) => setTimeout(resolve, FIRST_BEAT_MS).unref());
      await Promise.race([beat(), waited]);
      timer = setInterval(() => void beat(), HEARTBEAT_MS).unref();
    },
    /** Updates the heartbeat when the process serves under another name or configuration. */
    update: (changed: Partial<Pick<Member, 'name' | 'configHash'>>): void => {
      self = { ...self, ...changed };
      void beat();
    },
    /** Leaves the fleet. Call it when all streams have ended and no more requests are accepted. */
    leave: async (): Promise<void> => {
      clearInterval(timer);
      hasLeft = true;
      // A heartbeat written afterwards would list this process again.
      await beating;
      await store.leave(id).catch(() => undefined);
    },
  };
}

export function nameOf(port: number | string): string {
  return `${hostname()}:${port}`;
}

/** Removes a process of this sidecar that died from the fleet. */
export function noteDeath(store: FleetStore, pid: number): void {
  store.leave(memberId(ownSidecar().id, pid)).catch(() => undefined);
}

const VARIABLE = 'LATCHKEY_SIDECAR';

let isBegun = false;

/** Returns the sidecar of this process. A primary creates one, and its workers inherit it. */
export function ownSidecar(): { readonly id: string; readonly startedAt: EpochMs } {
  if (!cluster.isWorker && !isBegun) process.env[VARIABLE] = `${newId()} ${Date.now()}`;
  isBegun = true;
  const [id = '', startedAt] = (process.env[VARIABLE] ?? '').split(' ');
  return { id, startedAt: Number(startedAt) };
}

function memberId(sidecar: string, pid: number): string {
  return `${sidecar}-${pid}`;
}
