const ONE = (): number => 1;

/**
 * Options of an LRU cache for at most so many entries. Its memory grows with them; lru-cache's own
 * `max` allocates for all of them at once.
 */
export function upTo(entries: number): { readonly maxSize: number; readonly sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: ONE };
}
