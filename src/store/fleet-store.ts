import type { EpochMs } from '../util/time.js';
import type { MaybePromise } from '../util/async.js';

/** A process writes its heartbeat this often, in milliseconds. */
export const HEARTBEAT_MS = 3_000;
/** A process whose latest heartbeat is older than this, in milliseconds, is considered gone. */
export const LIVE_MS = 12_000;

/**
 * A process that serves requests, as it describes itself. The workers of
 * a sidecar share its `sidecar`.
 */
export interface Member {
  readonly id: string;
  readonly sidecar: string;
  /** Host and port, like `pod-1:8080`. */
  readonly name: string;
  readonly pid: number;
  readonly version: string;
  readonly configHash: string;
  /** When its sidecar started, by that machine's clock. */
  readonly startedAt: EpochMs;
  /**
   * Milliseconds since its notification link was last confirmed; null with the
   * embedded store, which has none.
   */
  readonly linkAge: number | null;
}

/** A process whose latest heartbeat is recent enough. */
export interface LiveMember extends Member {
  /** Milliseconds since its heartbeat, measured without comparing the clocks of two machines. */
  readonly age: number;
}

/** The processes that serve requests from this store, and their acknowledgements of revocations. */
export interface FleetStore {
  /** Writes the heartbeat of a process and removes processes that are gone. */
  beat(member: Member): Promise<void>;
  /** Lists the live processes, ordered by id. */
  list(): MaybePromise<LiveMember[]>;
  /** Removes a process that exited, if it is listed. It counts as having answered everything. */
  leave(id: string): Promise<void>;
  /**
   * Asks every process to answer once it has dropped everything that ended before now.
   *
   * @param question a unique id
   */
  ask(question: string): Promise<void>;
  /**
   * Records that a process dropped everything that ended before a question.
   * Ignored for an unknown question.
   */
  answer(question: string, member: string): Promise<void>;
  /**
   * Returns the ids of the processes that answered or left.
   *
   * That a process is not listed does not mean that it left: a clock may have been set.
   */
  answers(question: string): MaybePromise<string[]>;
}
