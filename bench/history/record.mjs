// A history: the requests to a deployment and their answers, one JSON object per line. Times are in
// milliseconds of one monotonic clock since the start of the run.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';

/**
 * The first line.
 *
 * @typedef {{ type: 'run', store: string, seed: number, minutes: number, kinds: string[],
 *   acknowledge: number, lossless: boolean }} Run
 */
/**
 * A request. `status` is null without an answer. `told` is the id that the upstream received, `by`
 * is the session that changes another credential, and `final` marks the read-back. `user` owns the
 * credential; a change without a credential affects all credentials of that user. `overlap` of a
 * rotation is in milliseconds, and `predecessor` is the credential that it replaced. A command has the status 200, or 503 if it failed.
 *
 * @typedef {{ type: 'op', op: Op, kind: 'token' | 'session', credential: string | null, id: string |
 *   null, user?: string, sidecar: number, start: number, end: number, status: number | null, error?:
 *   string, told?: string, by?: string, overlap?: number, predecessor?: string, final?: boolean }} Operation
 */
/**
 * @typedef {'create' | 'use' | 'revoke' | 'suspend' | 'resume' | 'rotate' | 'end-others' | 'lock' |
 *   'unlock' | 'set-password' | 'code'} Op
 */
/**
 * `gone`: a server of the store is unavailable meanwhile. `sidecar`: the sidecar affected.
 *
 * @typedef {{ type: 'fault', fault: string, target: string, start: number, end: number, gone?:
 *   boolean, sidecar?: number, master?: boolean, late?: boolean, offset?: string }} Fault
 */
/**
 * @typedef {{ type: 'event', event: 'failover', to: string, start: number, end: number }} Failover
 */
/**
 * A sidecar does not serve again; with the state of its store's servers and its log.
 *
 * @typedef {{ type: 'event', event: 'unrecovered', start: number, end: number, sidecar: number,
 *   servers?: unknown[] | undefined, log?: string[] }} Unrecovered
 */
/** @typedef {Operation | Fault | Failover | Unrecovered} Timed */
/** @typedef {Run | Timed} Entry */

/** Writes a history to a file, and keeps it in memory. */
export class Recorder {
  #file;
  #startedAt = performance.now();
  /** @type {string[]} */
  #unwritten = [];
  /** @type {Entry[]} */
  entries = [];

  /** @param {string} file to overwrite */
  constructor(file) {
    this.#file = file;
    writeFileSync(file, '', { mode: 0o600 });
  }

  /** Returns the milliseconds since the run began. */
  now() {
    return Math.round((performance.now() - this.#startedAt) * 10) / 10;
  }

  /** @param {Entry} entry */
  add(entry) {
    this.entries.push(entry);
    this.#unwritten.push(JSON.stringify(entry));
    if (this.#unwritten.length >= 500) this.flush();
  }

  flush() {
    if (this.#unwritten.length > 0) appendFileSync(this.#file, `${this.#unwritten.join('\n')}\n`);
    this.#unwritten = [];
  }
}

/**
 * Reads a recorded history.
 *
 * @param {string} file
 * @returns {Entry[]}
 */
export function readHistory(file) {
  return readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
} // prettier-ignore

/**
 * Returns the facts about a history's run.
 *
 * @param {readonly Entry[]} history
 * @returns {Partial<Run>}
 */
export function runOf(history) {
  return history.find((entry) => entry.type === 'run') ?? {};
}
