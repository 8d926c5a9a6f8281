import { partsOf } from '../parts.js';

/** Maximum number of ids or uses in one script; more would block Redis for long. */
export const BATCH = 500;

/** Splits a list into parts, each small enough for one script. */
export function batches<T>(items: readonly T[]): T[][] {
  return partsOf(items, BATCH);
}
