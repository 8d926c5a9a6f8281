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
  if (to === 'stdout') return process.log === undefined ? NO_AUDIT : openLogAudit(process.log, process);
  return openFileAudit(to, settings.required, process);
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
function openLogAudit(log: Destination, { configHash, levelFormat, onFailure }: AuditProcess): AuditLog {
  const note = (...entries: AuditEntry[]): void => {
    for (const entry of entries) {
      const line = log.beginLine();
      if (line === undefined) onFailure?.(new Error('the log is not read'));
      else {
        line.bytes(lineStart(Date.now(), levelFormat?.() ?? 'number'));
        line.text(`,${formatEntry(withHash(entry, configHash)).slice(1, -1)}`);
        line.bytes(AUDIT_LINE_END);
        log.endLine();
      }
    }
  };
  const record = (...entries: AuditEntry[]): void => {
    note(...entries);
    log.flushSoon();
  };
  return { ...NO_AUDIT, record, note };
}

/** Appends entries to a shared file (`O_APPEND`) before the response; required ones are then on disk. */
function openFileAudit(file: string, required: boolean, { configHash, onFailure }: AuditProcess): AuditLog {
  let descriptor: number | null = null;
  let inode = 0;
  /** Whether the file ends with a part of a line, left by a full disk or the end of the machine. */
  let isTorn = false;
  /** Size of the file after this process's last entry, if no other process has written since. */
  let size = 0;
  let failing = false;

  const close = (): void => {
    if (descriptor !== null) closeSync(descriptor);
    descriptor = null;
  };
  /** Opens the file again when its name leads elsewhere, as after a rotation. Another process's last line may be cut. */
  const openIfNeeded = (): number => {
    let stats = statSync(file, { throwIfNoEntry: false });
    if (descriptor === null || stats?.ino !== inode) {
      close();
      descriptor = openToAppend(file);
      stats = fstatSync(descriptor);
      inode = stats.ino;
      size = -1;
    }
    if (stats.size !== size) isTorn = endsWithinLine(file, stats);
    size = stats.size;
    return descriptor;
  };
  /** Several entries are one write, which reaches the disk as fast as one of them. */
  const append = (entries: readonly AuditEntry[]): void => {
    const opened = openIfNeeded();
    const time = new Date().toISOString();
    const text = entries
      .map((entry) => ({ time, ...withHash(entry, configHash), node: NODE, pid: process.pid }))
      .map((entry) => `${formatEntry(entry)}\n`)
      .join('');
    const lines = Buffer.from(isTorn ? `\n${text}` : text);
    if (writeSync(opened, lines) !== lines.length) throw new Error(`${file}: the disk is full`);
    isTorn = false;
    size += lines.length;
    if (required) fdatasyncSync(opened);
  };
  const attempt = (work: () => void): Error | undefined => {
    try {
      work();
      failing = false;
      return undefined;
    } catch (cause) {
      failing = true;
      // The next entry opens the file by name again, because fixing it may mean replacing it.
      close();
      onFailure?.(cause);
      return cause as Error;
    }
  };
  const throwIfRequired = (cause: Error | undefined): void => {
    if (cause === undefined || !required) return;
    const message = `the audit log cannot be written: ${cause.message}`;
    throw new Unavailable({ refusal: 'audit_unavailable' }, message, { cause });
  };
  const record = (...entries: AuditEntry[]): void => throwIfRequired(attempt(() => append(entries)));

  throwIfRequired(attempt(openIfNeeded));
  return {
    record,
    note: (...entries) => void attempt(() => append(entries)),
    ensureWritable: () => {
      if (failing && required) record({ event: 'audit.resumed', outcome: 'success' });
    },
    close,
  };
}

/** Whether a regular file ends within a line; one that is unreadable does not count. */
function endsWithinLine(file: string, stats: Stats): boolean {
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
