import { randomBytes } from 'node:crypto';

const PREFIX = randomBytes(9).toString('base64url');
let count = 0;

/** Returns an inexpensive request id, unique across processes and restarts. */
export function newRequestId(): string {
  count += 1;
  return `${PREFIX}-${count.toString(36)}`;
}
