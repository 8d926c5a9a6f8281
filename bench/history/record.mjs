// A history: what was asked of a deployment and what it answered, one JSON object a line.
//
//   { type: 'run', store, seed, lossless, ... }                     the first line
//   { type: 'op', op: 'create' | 'use' | 'revoke', credential, id, sidecar, start, end, status, ... }
//   { type: 'fault', fault, target, start, end, gone?, sidecar? }   gone: a server of the store is away meanwhile
//   { type: 'event', event, start, end, ... }                       a failover; an old copy put back
//
// Times are milliseconds of one monotonic clock since the run began. A status is null when no answer came.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';

/** Writes a history, and keeps it. */
export class Recorder {
  #file;
  #startedAt = performance.now();
  #unwritten = [];
  entries = [];

  /** @param file written anew */
  constructor(file) {
    this.#file = file;
    writeFileSync(file, '', { mode: 0o600 });
  }

  /** Milliseconds since the run began. */
  now() {
    return Math.round((performance.now() - this.#startedAt) * 10) / 10;
  }

  add(entry) {
    this.entries.push(entry);
    this.#unwritten.push(JSON.stringify(entry));
    if (this.#unwritten.length >= 500) this.flush();
    return entry;
  }

  flush() {
    if (this.#unwritten.length > 0) appendFileSync(this.#file, `${this.#unwritten.join('\n')}\n`);
    this.#unwritten = [];
  }
}

/** Reads a history that was written before. */
export function readHistory(file) {
  return readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
} // prettier-ignore
