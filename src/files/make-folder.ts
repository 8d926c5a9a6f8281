import { lstatSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

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
