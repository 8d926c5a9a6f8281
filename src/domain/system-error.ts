/** System errors that operators meet, in words. */
const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EADDRINUSE: 'address already in use',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EISDIR: 'it is a directory',
  ENOENT: 'no such file or directory',
  ENOSPC: 'no space left on the device',
  ENOTDIR: 'a part of its path is not a directory',
  ENOTFOUND: 'host name not found',
  EROFS: 'read-only file system',
  ETIMEDOUT: 'connection timed out',
};

/** A system error in words and by its code: `no such file or directory (ENOENT)`. */
export function describeSystemError(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === undefined) return message;
  const words = WORDS[code];
  return words === undefined ? code : `${words} (${code})`;
}
