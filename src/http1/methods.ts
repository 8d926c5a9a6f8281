import { bytesOf } from './bytes.js';

/**
 * The methods that a request line may contain.
 *
 * These are the registered methods (RFC 9110 16.1) that the parsers of other servers know, and
 * PURGE. Which of them are served is decided elsewhere.
 */
export const REGISTERED_METHODS: readonly string[] = [
  'GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'PURGE', 'ACL', 'BIND', 'CHECKOUT',
  'COPY', 'LINK', 'LOCK', 'MERGE', 'MKACTIVITY', 'MKCALENDAR', 'MKCOL', 'MOVE', 'PROPFIND', 'PROPPATCH', 'REBIND',
  'REPORT', 'SEARCH', 'UNBIND', 'UNLINK', 'UNLOCK',
]; // prettier-ignore

export const MAX_METHOD_LENGTH = Math.max(...REGISTERED_METHODS.map(({ length }) => length));

interface Method {
  readonly text: string;
  readonly bytes: Uint8Array;
}

/** Methods by length and first letter. */
const table: Method[][] = Array.from({ length: (MAX_METHOD_LENGTH + 1) * 32 }, () => []);
for (const text of REGISTERED_METHODS) {
  const bytes = bytesOf(text);
  (table[bytes.length * 32 + ((bytes[0] as number) & 31)] as Method[]).push({ text, bytes });
}

/**
 * Returns the registered method that equals a range of bytes.
 *
 * @param end at most {@link MAX_METHOD_LENGTH} after `start`
 */
export function findMethod(bytes: Uint8Array, start: number, end: number): string | undefined {
  const length = end - start;
  const cell = table[length * 32 + ((bytes[start] as number) & 31)] as Method[];
  for (const { text, bytes: own } of cell) {
    let i = 0;
    while (i < length && own[i] === bytes[start + i]) i++;
    if (i === length) return text;
  }
  return undefined;
}
