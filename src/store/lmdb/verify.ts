import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { basename } from 'node:path';

/** Offsets in a meta page of the data format that lmdb writes (its `MDB_meta`), little-endian. */
const META = { magic: 24, pageSize: 48, freeRoot: 88, mainRoot: 136, transaction: 152, end: 160 } as const;
const MAGIC = 0xbeefc0de;
const NO_PAGE = 0xffff_ffff_ffff_ffffn;

export class DamagedFile extends Error {}

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
    if (fault !== undefined) throw new DamagedFile(`(${basename(file)} ${fault}); ${remedy}`);
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
