/** Ids or uses in one script; more would hold Redis for long. */
const BATCH = 500;

/** Parts of a list that one script each may take. */
export function batches<T>(items: readonly T[]): T[][] {
  const all: T[][] = [];
  for (let i = 0; i < items.length; i += BATCH) all.push(items.slice(i, i + BATCH));
  return all;
}
