import { createHash, randomBytes } from 'node:crypto';
import { closeSync, createReadStream, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { StoreRecord } from '../../store/transfer.js';
import { CommandFailed } from '../terminal/failure.js';

const FORMAT = 'latchkey-backup';
const VERSION = 1;

/**
 * Writes records to a file (mode 0600), one JSON line each between a head and an end with their count and digest.
 * The file appears when it is whole and on disk. Returns how many records it has.
 */
export async function writeBackup(
  file: string,
  records: AsyncIterable<StoreRecord>,
  onRecord: (count: number) => void,
): Promise<number> {
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  const fd = openSync(draft, 'wx', 0o600);
  const digest = createHash('sha256');
  const write = (value: object): void => {
    const line = `${JSON.stringify(value)}\n`;
    digest.update(line);
    writeSync(fd, line);
  };
  let count = 0;
  try {
    write({ format: FORMAT, version: VERSION, created_at: new Date().toISOString() });
    for await (const record of records) {
      write(record);
      onRecord(++count);
    }
    writeSync(fd, `${JSON.stringify({ end: true, count, sha256: digest.digest('hex') })}\n`);
    fsyncSync(fd);
    closeSync(fd);
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  return count;
}

/** Reads a backup to its end before anything is done with it. @throws CommandFailed when it is not whole */
export async function readBackup(file: string): Promise<StoreRecord[]> {
  const fail = (reason: string) => new CommandFailed(`${file}: ${reason}; nothing was changed`);
  const records: StoreRecord[] = [];
  const digest = createHash('sha256');
  let head: { format?: unknown; version?: unknown } | undefined;
  let end: { end?: boolean; count?: number; sha256?: string } | undefined;
  const input = createReadStream(file, 'utf8');
  const opened = new Promise<void>((resolve, reject) => input.once('open', () => resolve()).once('error', reject));
  await opened.catch((error: NodeJS.ErrnoException) => {
    throw fail(`can not be read (${error.code ?? 'unknown error'})`);
  });
  for await (const line of createInterface({ input })) {
    if (end !== undefined) throw fail('something stands behind its end');
    const value = parseLine(line);
    if (value === undefined) throw fail(`line ${records.length + 2} is damaged`);
    if (head === undefined) head = value;
    else if ('end' in value) {
      end = value;
      continue;
    } else records.push(value as StoreRecord);
    digest.update(`${line}\n`);
  }
  if (head?.format !== FORMAT) throw fail('is no backup of Latchkey');
  if (head.version !== VERSION) throw fail(`has version ${String(head.version)}, known: ${VERSION}`);
  if (end?.count !== records.length || end.sha256 !== digest.digest('hex')) throw fail('is not whole');
  return records;
} // prettier-ignore

function parseLine(line: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(line) as unknown;
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
