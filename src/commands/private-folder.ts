import { lstatSync, mkdirSync, type Stats, statSync } from 'node:fs';
import { describeSystemError } from '../domain/system-error.js';
import { CommandFailed } from './terminal/failure.js';

const OTHERS = 0o077;

/** Makes a folder (mode 0700), or takes one that only this user can read and change. @throws CommandFailed */
export function needPrivateFolder(folder: string, hint: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new CommandFailed(`${folder} cannot be created: ${describeSystemError(error)}; ${hint}`);
  }
  refuseForeign(folder, statSync(folder), hint);
}

/** @throws CommandFailed when a file is there that this user did not write, or that others can read or change */
export function refuseForeignFile(file: string, hint: string): void {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  if (stats === undefined) return;
  if (!stats.isFile()) throw new CommandFailed(`${file} is not a regular file; ${hint}`);
  refuseForeign(file, stats, hint);
}

function refuseForeign(path: string, { uid, mode }: Stats, hint: string): void {
  // Windows knows neither.
  if (process.getuid === undefined) return;
  if (uid !== process.getuid()) throw new CommandFailed(`${path} belongs to another user; ${hint}`);
  if ((mode & OTHERS) === 0) return;
  const rights = (mode & 0o777).toString(8).padStart(4, '0');
  const right = (mode & 0o100) === 0 ? '600' : '700';
  throw new CommandFailed(`other users can use ${path} (mode ${rights}); chmod ${right} it, or ${hint}`);
}
