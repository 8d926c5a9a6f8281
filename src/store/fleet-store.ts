import type { EpochMs } from '../util/time.js';
import type { MaybePromise } from '../util/async.js';

export const HEARTBEAT_MS = 3_000;
export const LIVE_MS = 12_000;

/** A process that serves requests. The workers of a sidecar share its `sidecar`. */
export interface Member {
  readonly id: string;
  readonly sidecar: string;
  /** Host and port, like `pod-1:8080`. */
  readonly name: string;
  readonly pid: number;
  readonly version: string;
  readonly configHash: string;
  readonly startedAt: EpochMs;
  /** Milliseconds since its notification link was last confirmed; null with the embedded store. */
  readonly linkAge: number | null;
}

export interface LiveMember extends Member {
  /** Milliseconds since its heartbeat, measured without comparing the clocks of two machines. */
  readonly age: number;
}

export interface FleetStore {
  /** Writes the heartbeat of a process and removes processes that are gone. */
  beat(member: Member): Promise<void>;
  list(): MaybePromise<LiveMember[]>;
  /** Removes a process that exited, if it is listed. It counts as having answered everything. */
  leave(id: string): Promise<void>;
  /** Asks every process to answer once it has dropped everything that ended before now. */
  ask(question: string): Promise<void>;
  /** Ignored for an unknown question. */
  answer(question: string, member: string): Promise<void>;
  /** Returns who answered or left. Who is not listed need not have left: a clock may have been set. */
  answers(question: string): MaybePromise<string[]>;
}
