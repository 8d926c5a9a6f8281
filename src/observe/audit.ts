import {
  closeSync,
  fdatasyncSync,
  fstatSync,
  openSync,
  readSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import type { Config } from '../config/schema/config.js';
import { Unavailable } from '../domain/refusal.js';
import { openToAppend } from '../files/files.js';
import type { Destination } from './destination.js';
import { AUDIT_LINE_END, type LevelFormat, lineStart } from './json-line.js';
import { maskTokens, printable } from '../util/text.js';

/** One entry: plain values by name. The time, node and process id are added when it is written. */
export type AuditEntry = Readonly<Record<string, unknown>>;

export interface AuditLog {
  /** @throws Unavailable when entries are required and these cannot be written */
  record(...entries: AuditEntry[]): void;
  /** Writes entries for something that takes effect even if they cannot be written. */
  note(...entries: AuditEntry[]): void;
  /** Checks that the entry of a change can be written. @throws Unavailable if required ones cannot */
  ensureWritable(): void;
  close(): void;
}

export interface AuditProcess {
  /** Entries carry it unless they name their request's configuration. */
  readonly configHash: () => string | undefined;
  readonly levelFormat?: () => LevelFormat | undefined;
  readonly log?: Destination;
  readonly onFailure?: (error: unknown) => void;
}

/** @throws Unavailable when entries are required and the file cannot be opened */
export function openAuditLog(settings: Config['audit'], process: AuditProcess): AuditLog {
  const { to } = settings;
  if (to === null) return NO_AUDIT;
  if (to === 'stdout') return process.log === undefined ? NO_AUDIT : new LogAudit(process.log, process);
  return new FileAudit(to, settings.required, process);
}

const NEWLINE = 0x0a;
const NODE = hostname();

const NO_AUDIT: AuditLog = {
  record: () => undefined,
  note: () => undefined,
  ensureWritable: () => undefined,
  close: () => undefined,
};

/** Writes entries to the process's log, whatever its level, without the serializer: there may be many. */
class LogAudit implements AuditLog {
  readonly #log: Destination;
  readonly #process: AuditProcess;

  constructor(log: Destination, process: AuditProcess) {
    this.#log = log;
    this.#process = process;
  }

  record(...entries: AuditEntry[]): void {
    this.note(...entries);
    this.#log.flushSoon();
  }

  note(...entries: AuditEntry[]): void {
    for (const entry of entries) {
      const line = this.#log.beginLine();
      if (line === undefined) this.#process.onFailure?.(new Error('the log is not read'));
      else {
        line.bytes(lineStart(Date.now(), this.#process.levelFormat?.() ?? 'number'));
        line.text(`,${formatEntry(withHash(entry, this.#process.configHash)).slice(1, -1)}`);
        line.bytes(AUDIT_LINE_END);
        this.#log.endLine();
      }
    }
  }

  ensureWritable(): void {}
  close(): void {}
}

/** Appends entries to a shared file (`O_APPEND`) before the response; required ones are then on disk. */
class FileAudit implements AuditLog {
  readonly #file: string;
  readonly #required: boolean;
  readonly #process: AuditProcess;
  #descriptor: number | null = null;
  #inode = 0;
  /** Whether the file ends with a part of a line, left by a full disk or the end of the machine. */
  #isTorn = false;
  /** Size of the file after this process's last entry, if no other process has written since. */
  #size = 0;
  #failing = false;

  constructor(file: string, required: boolean, process: AuditProcess) {
    this.#file = file;
    this.#required = required;
    this.#process = process;
    this.#throwIfRequired(this.#attempt(() => this.#openIfNeeded()));
  }

  record(...entries: AuditEntry[]): void {
    this.#throwIfRequired(this.#attempt(() => this.#append(entries)));
  }

  note(...entries: AuditEntry[]): void {
    this.#attempt(() => this.#append(entries));
  }

  /** Several entries are one write, which reaches the disk as fast as one of them. */
  #append(entries: readonly AuditEntry[]): void {
    const descriptor = this.#openIfNeeded();
    const text = entries.map((entry) => `${formatEntry(this.#complete(entry))}\n`).join('');
    const lines = Buffer.from(this.#isTorn ? `\n${text}` : text);
    if (writeSync(descriptor, lines) !== lines.length) throw new Error(`${this.#file}: the disk is full`);
    this.#isTorn = false;
    this.#size += lines.length;
    if (this.#required) fdatasyncSync(descriptor);
  }

  #complete(entry: AuditEntry): AuditEntry {
    const time = new Date().toISOString();
    return { time, ...withHash(entry, this.#process.configHash), node: NODE, pid: process.pid };
  }

  ensureWritable(): void {
    if (this.#failing && this.#required) this.record({ event: 'audit.resumed', outcome: 'success' });
  }

  close(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  /** Opens the file again when its name leads elsewhere, as after a rotation. Another process's last line may be cut. */
  #openIfNeeded(): number {
    let stats = statSync(this.#file, { throwIfNoEntry: false });
    if (this.#descriptor === null || stats?.ino !== this.#inode) {
      this.close();
      this.#descriptor = openToAppend(this.#file);
      stats = fstatSync(this.#descriptor);
      this.#inode = stats.ino;
      this.#size = -1;
    }
    if (stats.size !== this.#size) this.#isTorn = isTorn(this.#file, stats);
    this.#size = stats.size;
    return this.#descriptor;
  }

  #attempt(work: () => void): Error | undefined {
    try {
      work();
      this.#failing = false;
      return undefined;
    } catch (cause) {
      this.#failing = true;
      // The next entry opens the file by name again, because fixing it may mean replacing it.
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

/** Whether a regular file ends within a line; one that is unreadable does not count. */
function isTorn(file: string, stats: Stats): boolean {
  if (!stats.isFile() || stats.size === 0) return false;
  const last = Buffer.alloc(1);
  try {
    const descriptor = openSync(file, 'r');
    try {
      return readSync(descriptor, last, 0, 1, stats.size - 1) === 1 && last[0] !== NEWLINE;
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return false;
  }
}

/** Adds the configuration's hash. Entries caused by a request already carry that of the request. */
function withHash(entry: AuditEntry, configHash: AuditProcess['configHash']): AuditEntry {
  return entry['config_hash'] === undefined ? { ...entry, config_hash: configHash() } : entry;
}

/** Formats an entry as JSON for any destination, with tokens masked and {@link printable}. */
function formatEntry(entry: AuditEntry): string {
  return printable(maskTokens(JSON.stringify(entry)));
}
