import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { type FileHandle, lstat, open, rename } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';

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
export async function writeWhole(
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
