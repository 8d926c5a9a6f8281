import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, rmSync, statSync } from 'node:fs';
import { type FileHandle, lstat, open, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { counted } from '../util/text.js';
import { parseUntrustedJson } from '../util/json.js';
import { describeSystemError } from '../util/system-error.js';
import { RecordCheck, RecordsInvalid } from '../store/transfer-check.js';
import type { StoreRecord } from '../store/transfer.js';
import { CommandFailed } from './terminal/output.js';

const FORMAT = 'latchkey-backup';
const VERSION = 1;
const LINE_FEED = 0x0a;
/** Lines are buffered up to this many characters before they are written. */
const CHUNK = 64 * 1024;

/**
 * Writes records to a file (mode 0600) and returns their number.
 *
 * The file has a header line, one JSON line per record, and a final line with their count and
 * digest. It appears only once it is complete, on disk, and has been read back.
 */
export async function writeBackup(
  file: string,
  records: AsyncIterable<StoreRecord>,
  onRecord: (count: number) => void,
): Promise<number> {
  let count = 0;
  await writeWhole(
    file,
    async (handle) => {
      const lines = new LineWriter(handle);
      await lines.write({ format: FORMAT, version: VERSION, created_at: new Date().toISOString() });
      for await (const record of records) {
        await lines.write(record);
        onRecord(++count);
      }
      await lines.end(count);
    },
    (draft) => verify(draft, count),
  );
  return count;
}

/**
 * Returns the creation time of the backup that a new one would replace.
 *
 * Returns undefined when there is no such file.
 *
 * @throws CommandFailed when the file is not a backup, or cannot be read
 */
export async function replacedBackup(file: string): Promise<string | undefined> {
  if (!isRegular(file)) return undefined;
  try {
    for await (const line of linesOf(file)) {
      const head = parseLine(line);
      if (head?.['format'] === FORMAT) return String(head['created_at']);
      break;
    }
  } catch (error) {
    if (!(error instanceof BrokenBackup)) throw error;
    throw new CommandFailed(`${file} exists and ${error.message}; choose another name`);
  }
  throw new CommandFailed(`${file} exists and is not a backup; choose another name`);
}

/** Anything else, and a path that cannot be used, is refused when the backup is written. */
function isRegular(file: string): boolean {
  try {
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

interface Backup {
  /** When the backup was started, from its header; null when the header has no valid time. */
  readonly createdAt: string | null;
  readonly records: StoreRecord[];
}

/** Reads a complete backup and validates it. @throws CommandFailed when it cannot be restored */
export async function readBackup(file: string): Promise<Backup> {
  const records: StoreRecord[] = [];
  let createdAt: string | null = null;
  try {
    const check = new RecordCheck();
    const onHead = (head: Record<string, unknown>): void => {
      const at = Date.parse(String(head['created_at']));
      if (!Number.isNaN(at)) createdAt = new Date(at).toISOString();
    };
    for await (const record of recordsIn(file, onHead)) records.push(check.add(record));
    check.end();
  } catch (error) {
    if (isBroken(error)) throw new CommandFailed(`${file}: ${error.message}; nothing was changed`);
    throw error;
  }
  return { createdAt, records };
}

async function verify(draft: string, expected: number): Promise<void> {
  let count = 0;
  try {
    const check = new RecordCheck();
    for await (const record of recordsIn(draft)) {
      check.add(record);
      count += 1;
    }
    check.end();
    if (count !== expected) throw new BrokenBackup(`has ${counted(count, 'record')} instead of ${expected}`);
  } catch (error) {
    if (!isBroken(error)) throw error;
    throw new CommandFailed(`the backup was read back and ${error.message}; no file was written`);
  }
}

class BrokenBackup extends Error {}

function isBroken(error: unknown): error is Error {
  return error instanceof BrokenBackup || error instanceof RecordsInvalid;
}

/** Buffers lines into larger writes and computes the digest of all of them. */
class LineWriter {
  readonly #handle: FileHandle;
  readonly #digest = createHash('sha256');
  #pending = '';

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  async write(value: object): Promise<void> {
    // Some programs treat these two as line ends, although JSON allows them unescaped.
    const json = JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029');
    this.#pending += `${json}\n`;
    if (this.#pending.length >= CHUNK) await this.#flush();
  }

  async end(count: number): Promise<void> {
    await this.#flush();
    const sha256 = this.#digest.digest('hex');
    await this.#handle.appendFile(`${JSON.stringify({ end: true, count, sha256 })}\n`);
  }

  async #flush(): Promise<void> {
    this.#digest.update(this.#pending);
    await this.#handle.appendFile(this.#pending);
    this.#pending = '';
  }
}

/**
 * Yields the records of a backup.
 *
 * @throws BrokenBackup when it is incomplete, at the latest at its end
 */
async function* recordsIn(
  file: string,
  onHead: (head: Record<string, unknown>) => void = () => undefined,
): AsyncGenerator {
  const digest = createHash('sha256');
  let count = 0;
  let head: Record<string, unknown> | undefined;
  let end: Record<string, unknown> | undefined;
  for await (const line of linesOf(file)) {
    if (end !== undefined) throw new BrokenBackup('has data after its end');
    const value = parseLine(line);
    if (value === undefined && head === undefined) refuseForeign({});
    if (value === undefined) throw new BrokenBackup(`line ${count + 2} is damaged`);
    if (head !== undefined && 'end' in value) {
      end = value;
      continue;
    }
    digest.update(line).update('\n');
    if (head === undefined) {
      head = value;
      refuseForeign(head);
      onHead(head);
    } else {
      count += 1;
      yield value;
    }
  }
  if (head === undefined) refuseForeign({});
  if (end?.['count'] !== count || end['sha256'] !== digest.digest('hex'))
    throw new BrokenBackup('is not complete');
}

function refuseForeign({ format, version }: Record<string, unknown>): void {
  if (format !== FORMAT) throw new BrokenBackup('is not a Latchkey backup');
  if (version !== VERSION) throw new BrokenBackup(`has version ${String(version)}, known: ${VERSION}`);
}

/**
 * Yields the lines of a file as bytes. Only a line feed ends one: a name may contain any other
 * separator.
 */
async function* linesOf(file: string): AsyncGenerator<Buffer> {
  const parts: Buffer[] = [];
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      let from = 0;
      for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
        yield Buffer.concat([...parts.splice(0), chunk.subarray(from, at)]);
        from = at + 1;
      }
      if (from < chunk.length) parts.push(chunk.subarray(from));
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw code === undefined ? error : new BrokenBackup(`cannot be read: ${describeSystemError(error)}`);
  }
  if (parts.length > 0) yield Buffer.concat(parts);
}

function parseLine(line: Buffer): Record<string, unknown> | undefined {
  try {
    const value = parseUntrustedJson(new TextDecoder('utf-8', { fatal: true }).decode(line));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Maximum number of characters of a temporary name that are those of the file. */
const MAX_START = 40;

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Writes a file (mode 0600) atomically: it appears complete and on disk, or not at all.
 *
 * The temporary file is removed when something fails or a signal stops the process.
 *
 * @param check reads the temporary file; when it throws, the file does not appear
 * @throws CommandFailed that names the file when it cannot be written
 */
async function writeWhole(
  file: string,
  write: (handle: FileHandle) => Promise<void>,
  check: (draft: string) => Promise<void>,
): Promise<void> {
  await refuseSpecial(file);
  const draft = draftOf(file);
  const stop = (signal: NodeJS.Signals): void => {
    remove(draft);
    // The listener has been removed, so this ends the process as the signal would have.
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) process.once(signal, stop);
  let folder: FileHandle | undefined;
  try {
    // Opened first: a folder that cannot be synchronized is an error before the file appears.
    folder = await open(dirname(file), 'r');
    await writeDraft(draft, write);
    await check(draft);
    await rename(draft, file);
    // A new name is on disk once its folder is.
    await folder.sync();
  } catch (error) {
    remove(draft);
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    throw new CommandFailed(`${file} cannot be written: ${describeSystemError(error)}`, { cause: error });
  } finally {
    await folder?.close();
    for (const signal of SIGNALS) process.off(signal, stop);
  }
}

async function writeDraft(draft: string, write: (handle: FileHandle) => Promise<void>): Promise<void> {
  const handle = await open(draft, 'wx', 0o600);
  try {
    await write(handle);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function remove(draft: string): void {
  try {
    rmSync(draft, { force: true });
  } catch {
    // It could not be created either.
  }
}

/** Returns the path of a temporary file, whose name is not too long where that of the file is not. */
function draftOf(file: string): string {
  const start = basename(file).slice(0, MAX_START);
  return join(dirname(file), `${start}.${process.pid}.${randomBytes(4).toString('hex')}`);
}

/** A rename would replace a device or a link by a file. */
async function refuseSpecial(file: string): Promise<void> {
  const known = await lstat(file).catch(() => undefined);
  if (known !== undefined && !known.isFile())
    throw new CommandFailed(`${file} is not a regular file; pass the path of a file`);
}
