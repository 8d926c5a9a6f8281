import { partsOf } from '../parts.js';

/** Ids or uses in one script; more would hold Redis for long. */
export const BATCH = 500;

/** Parts of a list that one script each may take. */
export function batches<T>(items: readonly T[]): T[][] {
  return partsOf(items, BATCH);
}
