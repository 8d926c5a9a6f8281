import { randomFillSync } from 'node:crypto';

/** 120 bits: not guessable from the ids of other requests. */
const ID_BYTES = 15;
const pool = Buffer.alloc(ID_BYTES * 256);
let next = pool.length;

/** Returns a random request id of 20 characters, so that nobody learns how many requests others send. */
export function newRequestId(): string {
  if (next === pool.length) {
    randomFillSync(pool);
    next = 0;
  }
  next += ID_BYTES;
  return pool.toString('base64url', next - ID_BYTES, next);
}
