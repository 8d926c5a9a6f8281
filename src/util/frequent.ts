export interface Counted<T> {
  readonly key: string;
  readonly value: T;
  /** Upper bound of the key's occurrences; exceeds the true number by at most `over`. */
  count: number;
  readonly over: number;
}

export interface FrequentList<T> {
  readonly items: readonly Counted<T>[];
  /** Maximum number of occurrences of any key that is not in the list. */
  readonly floor: number;
}

/**
 * The most frequent keys in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005). In a full list,
 * a new key replaces the one with the smallest count and continues from it.
 */
export class Frequent<T> {
  readonly #capacity: number;
  readonly #entries = new Map<string, Counted<T>>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get(key: string): Counted<T> | undefined {
    return this.#entries.get(key);
  }

  /** Adds a key that is not in the list. */
  add(key: string, value: T): void {
    const least = this.#entries.size < this.#capacity ? undefined : this.#least();
    if (least !== undefined) this.#entries.delete(least.key);
    const over = least?.count ?? 0;
    this.#entries.set(key, { key, value, count: over + 1, over });
  }

  list(): FrequentList<T> {
    const items = Array.from(this.#entries.values(), (each) => ({ ...each }));
    return { items, floor: items.length < this.#capacity ? 0 : (this.#least()?.count ?? 0) };
  }

  #least(): Counted<T> | undefined {
    let least: Counted<T> | undefined;
    for (const each of this.#entries.values())
      if (least === undefined || each.count < least.count) least = each;
    return least;
  }
}

/**
 * Merges lists into one, sorted by descending count (Agarwal and others: Mergeable summaries, 2012). A key
 * may have occurred `floor` times in a full list that lacks it, so no count is too low.
 * @param latest selects which of two values of the same key is kept
 */
export function mergeFrequent<T>(
  lists: readonly FrequentList<T>[],
  capacity: number,
  latest: (a: T, b: T) => T,
): FrequentList<T> {
  const floor = lists.reduce((sum, each) => sum + each.floor, 0);
  const merged = new Map<string, Counted<T>>();
  for (const list of lists) {
    for (const { key, value, count, over } of list.items) {
      const before = merged.get(key) ?? { value, count: floor, over: floor };
      merged.set(key, {
        key,
        value: latest(before.value, value),
        count: before.count + count - list.floor,
        over: before.over + over - list.floor,
      });
    }
  }
  const sorted = [...merged.values()].toSorted((a, b) => b.count - a.count);
  return { items: sorted.slice(0, capacity), floor: Math.max(floor, sorted[capacity]?.count ?? 0) };
}
