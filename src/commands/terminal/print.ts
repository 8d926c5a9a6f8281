import { writeSync } from 'node:fs';
import { describeSystemError } from '../../domain/system-error.js';
import { OutputFailed } from './failure.js';

const STDOUT = 1;
/** Delay before a write to a full pipe or terminal is repeated. */
const BUSY_MS = 10;

/**
 * Writes a text to standard output, all of it.
 *
 * @param done what the command has done, if only this text could tell it; added to the error
 * @throws OutputFailed
 */
export function print(text: string, done?: string): void {
  const bytes = Buffer.from(text);
  try {
    for (let written = 0; written < bytes.length;) written += writeSome(bytes.subarray(written));
  } catch (cause) {
    const reason = `standard output cannot be written: ${describeSystemError(cause)}`;
    throw new OutputFailed(done === undefined ? reason : `${reason}; ${done}`, {
      cause,
      isQuiet: done === undefined && (cause as NodeJS.ErrnoException).code === 'EPIPE',
    });
  }
}

/** Writes some of the bytes, and returns how many; 0 when the reader has to catch up first. */
function writeSome(bytes: Buffer): number {
  try {
    return writeSync(STDOUT, bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BUSY_MS);
    return 0;
  }
}
