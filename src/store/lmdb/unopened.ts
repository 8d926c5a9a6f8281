import { accessSync, constants as files, existsSync, lstatSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname } from 'node:path';
import { describeSystemError } from '../../util/system-error.js';
import { LinkRefused, symbolic } from '../../files/files.js';
import { StoreUnavailable } from '../faults.js';
import { DamagedFile } from './verify.js';

const MAKE_WRITABLE = 'make it writable for the user that runs Latchkey (chown)';

export function unopened(path: string, cause: unknown): StoreUnavailable {
  if (cause instanceof DamagedFile)
    return new StoreUnavailable(`${path} cannot be opened as a store ${cause.message}`, { cause });
  if (cause instanceof LinkRefused)
    return new StoreUnavailable(`${path} cannot be opened as a store: ${cause.message}`, { cause });
  const { code, message } = cause as { code?: string | number; message: string };
  if (code === 'EACCES' || code === constants.errno.EACCES) return forbidden(path, cause);
  // LMDB's own error codes are negative; those of the system are not.
  const isAboutFolder = typeof code === 'string' || (code !== undefined && code > 0);
  const reason = typeof code === 'string' ? describeSystemError(cause) : message;
  const remedy = isAboutFolder
    ? `${MAKE_WRITABLE}, or set store.path to another folder`
    : 'restore it from a backup';
  return new StoreUnavailable(`${path} cannot be opened as a store (${reason}); ${remedy}`, { cause });
}

/**
 * Refuses a file that this user may not use: without permission for a lock file, lmdb dies (SIGSEGV).
 * A symbolic link is refused: lmdb would write to the file that it leads to.
 */
export function refuseForbidden(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() === true) throw symbolic(file);
  if (existsSync(file)) accessSync(file, files.R_OK | files.W_OK);
  else accessSync(dirname(file), files.W_OK | files.X_OK);
}

function forbidden(path: string, cause: unknown): StoreUnavailable {
  const [found, uid] = ownerOf((cause as NodeJS.ErrnoException).path ?? path);
  const reason = describeSystemError({ code: 'EACCES' });
  const remedy =
    uid === process.getuid?.()
      ? `${found} denies its own user access: run chmod u+rwX on it`
      : `${found} belongs to the user with the id ${uid}: run the command as that user, or ${MAKE_WRITABLE}`;
  return new StoreUnavailable(`${path} cannot be opened as a store (${reason}); ${remedy}`, { cause });
}

function ownerOf(path: string): [found: string, uid: number] {
  try {
    const known = statSync(path, { throwIfNoEntry: false });
    return known === undefined ? ownerOf(dirname(path)) : [path, known.uid];
  } catch {
    return ownerOf(dirname(path));
  }
}
