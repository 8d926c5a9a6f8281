import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** Offsets in a meta page of the data format that lmdb writes (its `MDB_meta`), little-endian. */
const META = { magic: 24, pageSize: 48, freeRoot: 88, mainRoot: 136, transaction: 152, end: 160 } as const;
const MAGIC = 0xbeefc0de;
const NO_PAGE = 0xffff_ffff_ffff_ffffn;

/**
 * Returns what is wrong with a data file before it is mapped; undefined if nothing is. lmdb maps it
 * unchecked, and damage would kill the process (measured: SIGSEGV on a foreign file, SIGBUS on a
 * truncated one). A file that does not exist yet is fine.
 */
export function faultOfDataFile(file: string): string | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const { size } = fstatSync(descriptor);
    return size === 0 ? undefined : faultOfMetas(descriptor, size);
  } finally {
    closeSync(descriptor);
  }
}

function faultOfMetas(descriptor: number, size: number): string | undefined {
  const first = readMeta(descriptor, 0);
  if (first === undefined) return 'data.mdb is not an LMDB file, or its beginning is damaged';
  const second = readMeta(descriptor, first.pageSize);
  if (second === undefined) return 'data.mdb is truncated, or its second page is damaged';
  const newest = second.transaction > first.transaction ? second : first;
  const roots = [newest.freeRoot, newest.mainRoot].filter((page) => page !== NO_PAGE);
  const needed = roots.reduce((most, page) => (page > most ? page : most), 1n) + 1n;
  return BigInt(size) < needed * BigInt(newest.pageSize) ? 'data.mdb is truncated' : undefined;
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
