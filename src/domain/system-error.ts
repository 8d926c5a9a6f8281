/** What goes wrong with files, in words. */
const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EISDIR: 'it is a directory',
  ENOENT: 'no such file or directory',
  ENOSPC: 'no space left on the device',
  ENOTDIR: 'a part of its path is not a directory',
  EROFS: 'read-only file system',
};

/** A system error in words and by its code: `no such file or directory (ENOENT)`. */
export function describeSystemError(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === undefined) return message;
  const words = WORDS[code];
  return words === undefined ? code : `${words} (${code})`;
}
