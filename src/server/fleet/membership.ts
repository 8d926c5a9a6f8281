import { hostname } from 'node:os';
import type { KnownFleet } from '../../accounts/fleet-receipts.js';
import type { Log } from '../../observe/log.js';
import { fleetConfigs, fleetSidecars } from '../../observe/metrics.js';
import { linkAge } from '../../observe/metrics/store.js';
import { readVersion } from '../../observe/version.js';
import type { Endings } from '../../store/endings.js';
import { type FleetStore, HEARTBEAT_MS, type LiveMember, type Member } from '../../store/fleet-store.js';
import cluster from 'node:cluster';
import { newId } from '../../domain/secret.js';
import type { EpochMs } from '../../domain/time.js';

/** A start waits so long for the first heartbeat, and goes on without it. */
const FIRST_BEAT_MS = 2_000;
/** Different configurations are reported when so many looks in a row found them: sidecars are reloaded one after another. */
const LOOKS = 2;

/** One process that serves, as a member of the fleet: its heartbeats, and its answers to who waits for it. */
export class Membership {
  readonly #store: FleetStore;
  readonly #log: Log;
  #self: Member;
  #members: readonly LiveMember[] = [];
  #timer: NodeJS.Timeout | undefined;
  #differing = 0;
  #reported = '';

  /** @param port that it is going to listen on */
  constructor(store: FleetStore, endings: Endings, log: Log, configHash: string, port: number) {
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
    // Whoever does not learn of it is named as one that has not dropped what ended.
    endings.listen({ asked: (question) => void store.answer(question, id).catch(() => undefined) });
  }

  get known(): KnownFleet {
    return { members: this.#members, self: { ...this.#self, age: 0 } };
  }

  /** Writes the first heartbeat. Nothing may be served before: it would not be waited for. */
  async join(): Promise<void> {
    const waited = new Promise<void>((resolve) => setTimeout(resolve, FIRST_BEAT_MS).unref());
    await Promise.race([this.#beat(), waited]);
    this.#timer = setInterval(() => void this.#beat(), HEARTBEAT_MS).unref();
  }

  /** It serves something else from now on. */
  update(changed: Partial<Pick<Member, 'name' | 'configHash'>>): void {
    this.#self = { ...this.#self, ...changed };
    void this.#beat();
  }

  /** Its streams are over, and it lets nobody in any more. */
  async leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#store.leave(this.#self.id).catch(() => undefined);
  }

  /** A store that can't be written now is beaten again; until then the others may take this process for gone. */
  async #beat(): Promise<void> {
    try {
      this.#self = { ...this.#self, linkAge: linkAge() };
      await this.#store.beat(this.#self);
      this.#members = await this.#store.list();
    } catch {
      return;
    }
    fleetSidecars.set(new Set(this.#members.map(({ sidecar }) => sidecar)).size);
    const hashes = new Set(this.#members.map(({ configHash }) => configHash));
    fleetConfigs.set(hashes.size);
    this.#differing = hashes.size > 1 ? this.#differing + 1 : 0;
    this.#report();
  }

  /** One process of a sidecar reports, once for each set of configurations. */
  #report(): void {
    const { sidecar, id, configHash } = this.#self;
    if (this.#members.find((each) => each.sidecar === sidecar)?.id !== id) return;
    if (this.#differing < LOOKS) {
      if (this.#differing === 0) this.#reported = '';
      return;
    }
    const others = this.#members.filter((each) => each.configHash !== configHash);
    const found = [...new Set(others.map((each) => `${each.name} ${each.configHash}`))].join(', ');
    if (found === this.#reported) return;
    this.#reported = found;
    this.#log.warn({ config_hash: configHash, others: found }, 'sidecars run different configurations');
  }
}

/** How a process that listens there is named. */
export function nameOf(port: number | string): string {
  return `${hostname()}:${port}`;
}

/** A process of this sidecar died: it holds nothing any more. */
export function noteDeath(store: FleetStore, pid: number): void {
  store.leave(memberId(ownSidecar(), pid)).catch(() => undefined);
}

/** Where a primary leaves for its workers which sidecar they belong to. */
const VARIABLE = 'LATCHKEY_SIDECAR';

/** One server with all of its processes. */
export interface Sidecar {
  readonly id: string;
  readonly startedAt: EpochMs;
}

let own: Sidecar | undefined;

/** The sidecar that this process belongs to; a primary begins one, which its workers inherit. */
export function ownSidecar(): Sidecar {
  return (own ??= beginSidecar());
}

function beginSidecar(): Sidecar {
  const [id, startedAt] = cluster.isWorker ? (process.env[VARIABLE] ?? '').split(' ') : [];
  if (id !== undefined && startedAt !== undefined) return { id, startedAt: Number(startedAt) };
  const sidecar = { id: newId(), startedAt: Date.now() };
  process.env[VARIABLE] = `${sidecar.id} ${sidecar.startedAt}`;
  return sidecar;
}

/** The id of one of its processes. */
function memberId({ id }: Sidecar, pid: number): string {
  return `${id}-${pid}`;
}
