import type { EpochMs } from '../domain/time.js';
import type { MaybePromise } from '../domain/maybe-promise.js';

/** A process writes its heartbeat this often, in milliseconds. */
export const HEARTBEAT_MS = 3_000;
/** A process whose latest heartbeat is older than this, in milliseconds, is considered gone. */
export const LIVE_MS = 12_000;

/** A process that serves requests, as it describes itself. The workers of one sidecar have its `sidecar` in common. */
export interface Member {
  readonly id: string;
  readonly sidecar: string;
  /** Host and port, like `pod-1:8080`. */
  readonly name: string;
  readonly pid: number;
  readonly version: string;
  readonly configHash: string;
  /** When its sidecar was started, by the clock of that machine. */
  readonly startedAt: EpochMs;
  /** Milliseconds since it was certain to receive change notifications; null with the embedded store, which has none. */
  readonly linkAge: number | null;
}

/** A process whose heartbeat is not too old. */
export interface LiveMember extends Member {
  /** Milliseconds since its heartbeat. No clocks of two machines are compared for it. */
  readonly age: number;
}

/** The processes that serve requests from this store, and which of them have dropped what ended. */
export interface FleetStore {
  /** Writes the heartbeat of a process, and removes those that are gone. */
  beat(member: Member): Promise<void>;
  /** The processes that are live, in the order of their ids. */
  list(): MaybePromise<LiveMember[]>;
  /** Removes a process that ended, if it is listed. */
  leave(id: string): Promise<void>;
  /** Asks every process to answer when it has dropped what ended until now. @param question an id of its own */
  ask(question: string): Promise<void>;
  /** Notes that a process has dropped what ended before a question. An answer to none is ignored. */
  answer(question: string, member: string): Promise<void>;
  /** The ids of those that answered. */
  answers(question: string): MaybePromise<string[]>;
}
