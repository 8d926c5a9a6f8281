import { randomBytes } from 'node:crypto';

const PREFIX = randomBytes(9).toString('base64url');
let count = 0;

/** An id for one request: unique over processes and restarts, and cheap. */
export function newRequestId(): string {
  count += 1;
  return `${PREFIX}-${count.toString(36)}`;
}
