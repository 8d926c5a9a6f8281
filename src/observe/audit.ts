import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { hostname } from 'node:os';
import { Unavailable } from '../domain/unavailable.js';
import type { Destination } from './destination.js';
import { lineStart } from './json-line.js';
import { maskTokens } from './mask-tokens.js';
import { printable } from './printable.js';

/** One entry: plain values by name. Time, node and process are added when it is written. */
export type AuditEntry = Readonly<Record<string, unknown>>;

export interface AuditSettings {
  /** `stdout`, a file, or null for none. */
  readonly to: string | null;
  readonly required: boolean;
}

export interface AuditLog {
  /** Writes an entry. @throws Unavailable when it can't be written and must be */
  record(entry: AuditEntry): void;
  /** Writes an entry of something that stands, whether its entry can be written or not. */
  note(entry: AuditEntry): void;
  /** Asked before something is changed. @throws Unavailable when its entry could not be written and must be */
  ensureWritable(): void;
  /** Opens the file again by its name, after it was moved away. */
  reopen(): void;
  close(): void;
}

export interface AuditProcess {
  /** The configuration that the process runs now. Entries name it, unless they name that of their request. */
  readonly configHash: () => string | undefined;
  /** Where the lines of the process's own log go; absent where there is none, in commands. */
  readonly log?: Destination;
  /** Called with each entry that could not be written. */
  readonly onFailure?: (error: unknown) => void;
}

/** Opens the audit log. @throws Unavailable when its file must be there and can't be opened */
export function openAuditLog(settings: AuditSettings, process: AuditProcess): AuditLog {
  const { to } = settings;
  if (to === null) return NO_AUDIT;
  if (to === 'stdout')
    return process.log === undefined ? NO_AUDIT : new LogAudit(process.log, process.configHash);
  return new FileAudit(to, settings.required, process);
}

const NO_AUDIT: AuditLog = {
  record: () => undefined,
  note: () => undefined,
  ensureWritable: () => undefined,
  reopen: () => undefined,
  close: () => undefined,
};

/**
 * Lines of the process's own log, whatever its level is. What was refused may be asked for at any rate, so its lines wait for
 * others, and do not go through the log's serializer: with both it cost more than forwarding a request.
 */
class LogAudit implements AuditLog {
  readonly #log: Destination;
  readonly #configHash: AuditProcess['configHash'];

  constructor(log: Destination, configHash: AuditProcess['configHash']) {
    this.#log = log;
    this.#configHash = configHash;
  }

  record(entry: AuditEntry): void {
    this.note(entry);
    this.#log.flushSoon();
  }

  note(entry: AuditEntry): void {
    const line = this.#log.beginLine();
    if (line === undefined) return;
    line.bytes(lineStart(Date.now()));
    line.text(`,${JSON.stringify(withHash(entry, this.#configHash)).slice(1, -1)},"msg":"audit"}\n`);
    this.#log.endLine();
  }

  ensureWritable(): void {}
  reopen(): void {}
  close(): void {}
}

/**
 * A file that several processes add whole lines to (`O_APPEND`). A line is written before the answer that it is about;
 * where entries are required it is on disk by then.
 */
class FileAudit implements AuditLog {
  readonly #file: string;
  readonly #required: boolean;
  readonly #process: AuditProcess;
  #descriptor: number | null = null;
  #failing = false;

  constructor(file: string, required: boolean, process: AuditProcess) {
    this.#file = file;
    this.#required = required;
    this.#process = process;
    this.#throwIfRequired(this.#attempt(() => this.#open()));
  }

  record(entry: AuditEntry): void {
    this.#throwIfRequired(this.#attempt(() => this.#append(entry)));
  }

  note(entry: AuditEntry): void {
    this.#attempt(() => this.#append(entry));
  }

  #append(entry: AuditEntry): void {
    const descriptor = this.#descriptor ?? this.#open();
    const line = Buffer.from(`${formatEntry(withHash(entry, this.#process.configHash))}\n`);
    // A part of a line is of no use, and the rest of it would run into the next one.
    if (writeSync(descriptor, line) !== line.length) throw new Error(`${this.#file}: the disk is full`);
    if (this.#required) fdatasyncSync(descriptor);
  }

  ensureWritable(): void {
    if (this.#failing && this.#required) this.record({ event: 'audit.resumed', outcome: 'success' });
  }

  reopen(): void {
    // The next entry opens it, or fails where a failure can still refuse something.
    this.close();
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  #open(): number {
    this.#descriptor = openSync(this.#file, 'a', 0o600);
    return this.#descriptor;
  }

  /** @returns what went wrong, or undefined */
  #attempt(work: () => void): Error | undefined {
    try {
      work();
      this.#failing = false;
      return undefined;
    } catch (cause) {
      this.#failing = true;
      // The next entry looks for the file by its name again: whoever fixes it may put another one there.
      this.close();
      this.#process.onFailure?.(cause);
      return cause as Error;
    }
  }

  #throwIfRequired(cause: Error | undefined): void {
    if (cause === undefined || !this.#required) return;
    throw new Unavailable(
      { refusal: 'audit_unavailable' },
      `the audit log cannot be written: ${cause.message}`,
      { cause },
    );
  }
}

/** An entry that names a configuration. What a request caused names that of the request already. */
function withHash(entry: AuditEntry, configHash: AuditProcess['configHash']): AuditEntry {
  return entry['config_hash'] === undefined ? { ...entry, config_hash: configHash() } : entry;
}

const NODE = hostname();

/** An entry as one line of JSON, whatever it holds. */
function formatEntry(entry: AuditEntry): string {
  const line = JSON.stringify({ time: new Date().toISOString(), ...entry, node: NODE, pid: process.pid });
  return printable(maskTokens(line));
}
