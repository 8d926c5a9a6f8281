import {
  accessSync,
  closeSync,
  constants as files,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describeSystemError } from '../../util/system-error.js';
import { LinkRefused, symbolic } from '../../files/files.js';
import { StoreUnavailable } from '../faults.js';

export function unopened(path: string, cause: unknown): StoreUnavailable {
  const { code, message, path: file = path } = cause as { code?: string | number; message: string; path?: string };
  // LMDB's own error codes are negative; those of the system are not.
  const isOfSystem = typeof code === 'string' || (code !== undefined && code > 0);
  const isKnown = cause instanceof DamagedFile || cause instanceof LinkRefused;
  const reason = typeof code === 'string' ? describeSystemError(cause) : message;
  const remedy = isOfSystem
    ? `; run the command as the user that runs Latchkey, let that user read and write ${file} (chown, chmod), or set store.path to another folder`
    : '; restore it from a backup';
  return new StoreUnavailable(`${path} cannot be opened as a store: ${reason}${isKnown ? '' : remedy}`, { cause });
} // prettier-ignore

/**
 * Refuses a file that this user may not use: without permission for a lock file, lmdb dies (SIGSEGV).
 * A symbolic link is refused: lmdb would write to the file that it leads to.
 */
export function refuseForbidden(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() === true) throw symbolic(file);
  if (existsSync(file)) accessSync(file, files.R_OK | files.W_OK);
  else accessSync(dirname(file), files.W_OK | files.X_OK);
}

/** Whether this process has a store open, perhaps by another path. Unknown outside Linux. */
export function isOpenHere(path: string): boolean {
  if (process.platform !== 'linux') return true;
  const file = join(path, 'data.mdb');
  return existsSync(file) && readFileSync('/proc/self/maps', 'utf8').includes(realpathSync(file));
}

/**
 * LMDB knows readers by their process ids. Where another container's process has the same one, a
 * read would fail after ten seconds, in which no process could write.
 */
export function refuseSameId(readers: string, path: string): void {
  if (!new RegExp(`^ *${process.pid} `, 'm').test(readers)) return;
  throw new StoreUnavailable(
    `${path} is in use in another container, by a process with the same id (${process.pid}); run the command in that ` +
      'container: docker exec CONTAINER latchkey ..., or kubectl exec POD -- latchkey ...',
  );
}

/** Offsets in a meta page of the data format that lmdb writes (its `MDB_meta`), little-endian. */
const META = { magic: 24, pageSize: 48, freeRoot: 88, mainRoot: 136, transaction: 152, end: 160 } as const;
const MAGIC = 0xbeefc0de;
const NO_PAGE = 0xffff_ffff_ffff_ffffn;

class DamagedFile extends Error {}

/**
 * Refuses a damaged file before lmdb maps it unchecked, which would kill the process.
 * @param mayBeEmpty as while another process creates it
 */
export function refuseDamaged(file: string, mayBeEmpty: boolean, remedy: string): void {
  let descriptor: number;
  try {
    descriptor = openSync(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    const fault = faultOf(descriptor, fstatSync(descriptor).size, mayBeEmpty);
    if (fault !== undefined) throw new DamagedFile(`${basename(file)} ${fault}; ${remedy}`);
  } finally {
    closeSync(descriptor);
  }
}

/** In words that follow the file's name; undefined if nothing is wrong. */
function faultOf(descriptor: number, size: number, mayBeEmpty: boolean): string | undefined {
  if (size === 0) return mayBeEmpty ? undefined : 'is empty, as a full disk leaves it';
  const first = readMeta(descriptor, 0);
  if (first === undefined) return 'is not an LMDB file, or its beginning is damaged';
  const second = readMeta(descriptor, first.pageSize);
  if (second === undefined) return 'is truncated, or its second page is damaged';
  const newest = second.transaction > first.transaction ? second : first;
  const roots = [newest.freeRoot, newest.mainRoot].filter((page) => page !== NO_PAGE);
  const needed = roots.reduce((most, page) => (page > most ? page : most), 1n) + 1n;
  return BigInt(size) < needed * BigInt(newest.pageSize) ? 'is truncated' : undefined;
}

function readMeta(descriptor: number, offset: number) {
  const page = Buffer.alloc(META.end);
  if (readSync(descriptor, page, 0, META.end, offset) < META.end) return undefined;
  if (page.readUInt32LE(META.magic) !== MAGIC) return undefined;
  return {
    pageSize: page.readUInt32LE(META.pageSize),
    freeRoot: page.readBigUInt64LE(META.freeRoot),
    mainRoot: page.readBigUInt64LE(META.mainRoot),
    transaction: page.readBigUInt64LE(META.transaction),
  };
}
