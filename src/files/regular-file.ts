import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';

/** Maximum size of a file that an operator writes, in bytes. */
const MAX_BYTES = 32 * 1024 * 1024;

/**
 * Reads a regular file: a named pipe blocks the process until someone writes to it, and a device
 * may never end.
 *
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
