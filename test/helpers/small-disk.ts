import { spawnSync } from 'node:child_process';
import { statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { temporaryFolder } from './latchkey.js';

/** Why a test that needs a small disk is skipped; false where it can be mounted. */
export const NO_SMALL_DISK = process.getuid?.() !== 0 && 'mounting a small disk needs root';

/**
 * Mounts a small disk in memory until the test ends, and returns its folder.
 *
 * @param size as `mount` takes it, like `24m`
 */
export function mountSmallDisk(t: Test, size: string): string {
  const disk = temporaryFolder(t);
  t.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', disk]).status, 0);
  t.teardown(() => void spawnSync('umount', ['-l', disk]));
  return disk;
}

/**
 * Fills a disk with a file, whose path it returns.
 *
 * @param left bytes that stay free
 */
export function fillDisk(disk: string, left = 0): string {
  const { bavail, bsize } = statfsSync(disk);
  const filler = join(disk, 'filler');
  try {
    writeFileSync(filler, Buffer.alloc(bavail * bsize - left));
  } catch (error) {
    // The server took a part of it meanwhile: the rest is full just the same.
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
  return filler;
}
