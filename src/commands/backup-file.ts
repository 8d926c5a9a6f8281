import { createHash, randomBytes } from 'node:crypto';
import { lstatSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, open, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { RecordCheck, RecordsInvalid } from '../store/record-check.js';
import type { StoreRecord } from '../store/transfer.js';
import { parseUntrustedJson } from '../util/json.js';
import { describeSystemError } from '../util/system-error.js';
import { linesOf } from './log-lines.js';
import { CommandFailed, WrongUsage, withProgress } from './terminal/output.js';

const FORMAT = 'latchkey-backup';
const VERSION = 1;
const CHUNK = 64 * 1024;
const MAX_START = 40;

/**
 * Writes records to a file (mode 0600): a header line, a JSON line per record, and a final line
 * with count and digest. It appears only once it is complete and on disk.
 * @throws RecordsInvalid for records that could not be restored
 */
export async function writeBackup(file: string, records: AsyncIterable<StoreRecord>): Promise<number> {
  const draft = join(dirname(file), `${basename(file).slice(0, MAX_START)}.${process.pid}.${randomBytes(4).toString('hex')}`); // prettier-ignore
  let folder: FileHandle | undefined;
  try {
    await refuseOtherFile(file);
    // Opened first: a folder that cannot be synchronized is an error before the file appears.
    folder = await open(dirname(file), 'r');
    const count = await writeDraft(draft, records);
    await rename(draft, file);
    // A new name is on disk once its folder is.
    await folder.sync();
    return count;
  } catch (error) {
    rmSync(draft, { force: true });
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    throw new CommandFailed(`${file} cannot be written: ${describeSystemError(error)}`, { cause: error });
  } finally {
    await folder?.close();
  }
}

async function writeDraft(draft: string, records: AsyncIterable<StoreRecord>): Promise<number> {
  const handle = await open(draft, 'wx', 0o600);
  try {
    const digest = createHash('sha256');
    const check = new RecordCheck();
    let count = 0;
    let pending = lineOf({ format: FORMAT, version: VERSION, created_at: new Date().toISOString() });
    for await (const record of records) {
      pending += lineOf(check.add(record));
      count += 1;
      if (pending.length < CHUNK) continue;
      digest.update(pending);
      await handle.appendFile(pending);
      pending = '';
    }
    const sha256 = digest.update(pending).digest('hex');
    await handle.appendFile(pending + lineOf({ end: true, count, sha256 }));
    await handle.sync();
    return count;
  } finally {
    await handle.close();
  }
}

/** Escapes two characters that JSON allows, but that some programs treat as line ends. */
function lineOf(value: object): string {
  return `${JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')}\n`;
}

/** Only a backup may be replaced. A rename would also replace a device or a link. */
async function refuseOtherFile(file: string): Promise<void> {
  const known = isFile(file);
  if (known === false) throw new CommandFailed(`${file} is not a regular file; pass the path of a file`);
  if (known === undefined) return;
  for await (const { bytes } of linesOf(file)) {
    if (parseLine(bytes)?.['format'] === FORMAT) return;
    break;
  }
  throw new CommandFailed(`${file} exists and is not a backup; choose another name`);
}

/** Returns undefined where there is nothing, or nothing that this user can see. */
function isFile(path: string, stat: typeof lstatSync = lstatSync): boolean | undefined {
  try {
    return stat(path, { throwIfNoEntry: false })?.isFile();
  } catch {
    return undefined;
  }
}

/**
 * Validates a complete backup, of any size, and returns how to read its records.
 * @throws CommandFailed when it cannot be restored, or if it is changed meanwhile
 */
export async function openBackup(file: string) {
  if (file === '-' || isFile(file, statSync) === false)
    throw new WrongUsage('store restore: pass the path of a file; it is read several times');
  let createdAt = null as string | null;
  const onHead = (head: Head): void => {
    const at = Date.parse(String(head['created_at']));
    if (!Number.isNaN(at)) createdAt = new Date(at).toISOString();
  };
  for await (const _ of withProgress(checkedRecords(file, 'nothing was changed', onHead), 'checked'))
    continue;
  const records = () => checkedRecords(file, 'it was changed meanwhile; run the command again');
  return { createdAt, records };
}

async function* checkedRecords(
  file: string,
  remedy: string,
  onHead?: (head: Head) => void,
): AsyncGenerator<StoreRecord> {
  const check = new RecordCheck();
  try {
    for await (const record of recordsIn(file, onHead)) yield check.add(record);
  } catch (error) {
    const isBroken = error instanceof BrokenBackup || error instanceof RecordsInvalid;
    throw isBroken ? new CommandFailed(`${file}: ${error.message}; ${remedy}`) : error;
  }
}

class BrokenBackup extends Error {}

type Head = Record<string, unknown>;

async function* recordsIn(file: string, onHead: (head: Head) => void = () => undefined): AsyncGenerator {
  const digest = createHash('sha256');
  let count = 0;
  let head: Head | undefined;
  let end: Head | undefined;
  for await (const { bytes, number } of linesOf(file)) {
    if (end !== undefined) throw new BrokenBackup('has data after its end');
    const value = parseLine(bytes);
    if (head === undefined) {
      head = value ?? {};
      refuseForeign(head);
      onHead(head);
    } else if (value === undefined) throw new BrokenBackup(`line ${number} is damaged`);
    else if ('end' in value) {
      end = value;
      continue;
    } else {
      count += 1;
      yield value;
    }
    digest.update(bytes).update('\n');
  }
  if (head === undefined) refuseForeign({});
  if (end?.['count'] !== count || end['sha256'] !== digest.digest('hex'))
    throw new BrokenBackup('is not complete');
}

function refuseForeign({ format, version }: Head): void {
  if (format !== FORMAT) throw new BrokenBackup('is not a Latchkey backup');
  if (version !== VERSION) throw new BrokenBackup(`has version ${String(version)}, known: ${VERSION}`);
}

function parseLine(line: Buffer): Head | undefined {
  try {
    const value = parseUntrustedJson(new TextDecoder('utf-8', { fatal: true }).decode(line));
    return typeof value === 'object' && value !== null ? (value as Head) : undefined;
  } catch {
    return undefined;
  }
}
