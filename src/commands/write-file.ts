import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { type FileHandle, lstat, open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';

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
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  const stop = (signal: NodeJS.Signals): void => {
    rmSync(draft, { force: true });
    // The listener has been removed, so this ends the process as the signal would have.
    process.kill(process.pid, signal);
  };
  for (const signal of SIGNALS) process.once(signal, stop);
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      await write(handle);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await check(draft);
    await rename(draft, file);
    await syncFolder(dirname(file));
  } catch (error) {
    rmSync(draft, { force: true });
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    throw new CommandFailed(`${file} cannot be written: ${describeSystemError(error)}`, { cause: error });
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop);
  }
}

/** A rename would replace a device or a link by a file. */
async function refuseSpecial(file: string): Promise<void> {
  const known = await lstat(file).catch(() => undefined);
  if (known !== undefined && !known.isFile())
    throw new CommandFailed(`${file} is not a regular file; pass the path of a file`);
}

/** A new name is on disk once its folder is. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
