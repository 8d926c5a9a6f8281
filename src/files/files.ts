// src/files: reads and writes files that operators name.
// May import config/schema, domain and util.
// It refuses to write through a symbolic link.

import {
  appendFileSync,
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** Maximum size of a file that an operator writes, in bytes. */
const MAX_BYTES = 32 * 1024 * 1024;

/**
 * Reads a regular file: a named pipe blocks the process until someone writes to it, and a device may never
 * end.
 * @throws Error that continues "the file cannot be read:"; a system error has its code
 */
export function readRegularFile(file: string, limit = MAX_BYTES): Buffer {
  // Without this flag, opening a named pipe waits for a writer.
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile() && !stats.isDirectory()) throw new Error('it is not a regular file');
    if (stats.size > limit) throw new Error(`it is over ${limit} bytes`);
    return readFileSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Creates a folder with its parents. `mkdir` of Node with `recursive` never ends where the parent
 * exists and takes no folder (ENOENT), as in `/proc`.
 */
export function makeFolder(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // An existing folder may also be reported as EROFS or EACCES.
    if (isFolder(path)) return;
    const parent = dirname(path);
    const isParentMissing = (error as NodeJS.ErrnoException).code === 'ENOENT' && !exists(parent);
    if (!isParentMissing || parent === path) throw error;
    makeFolder(parent, mode);
    makeFolder(path, mode);
  }
}

/** Whether anything has this path, even a link to nothing. */
function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

const MODE = 0o600;

/** Thrown instead of writing through a link. The message names the file. */
export class LinkRefused extends Error {}

/**
 * Whoever may write to its folder could place a link there, and a command of root would write to another
 * file. So a symbolic link is refused, and for root a hard link to another user's file.
 * @throws LinkRefused, or the system's error
 */
export function openToAppend(file: string): number {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW;
  try {
    return openNew(file, flags);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  let descriptor: number;
  try {
    descriptor = openSync(file, flags);
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ELOOP' ? symbolic(file) : error;
  }
  const { nlink, uid } = fstatSync(descriptor);
  if (!isRoot() || nlink <= 1 || uid === statSync(dirname(file)).uid) return descriptor;
  closeSync(descriptor);
  throw new LinkRefused(`${file} is a hard link to a file of another user; remove it`);
}

export function appendTo(file: string, text: string): void {
  const descriptor = openToAppend(file);
  try {
    appendFileSync(descriptor, text);
  } finally {
    closeSync(descriptor);
  }
}

export function symbolic(file: string): LinkRefused {
  return new LinkRefused(`${file} is a symbolic link; name the file that it leads to`);
}

/**
 * A file that root creates gets the owner of its folder: a server that runs as that user must be
 * able to write to it too.
 */
function openNew(file: string, flags: number): number {
  // With O_EXCL, a link counts as an existing file.
  const descriptor = openSync(file, flags | constants.O_CREAT | constants.O_EXCL, MODE);
  if (!isRoot()) return descriptor;
  try {
    const { uid, gid } = statSync(dirname(file));
    fchownSync(descriptor, uid, gid);
  } catch {
    // Root may lack the right to do this in a container. This process can still write the file.
  }
  return descriptor;
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}

export function readVersion(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}
