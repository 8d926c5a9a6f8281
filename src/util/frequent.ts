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

interface Entry<T> extends Counted<T> {
  at: number;
}

/**
 * The most frequent keys in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005). In a full list,
 * a new key replaces the one with the smallest count and continues from it.
 */
export class Frequent<T> {
  readonly #capacity: number;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #heap: Entry<T>[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get(key: string): Counted<T> | undefined {
    return this.#entries.get(key);
  }

  increment(counted: Counted<T>): void {
    const entry = counted as Entry<T>;
    entry.count += 1;
    this.#sink(entry);
  }

  /** Adds a key that is not in the list. */
  add(key: string, value: T): void {
    const least = this.#heap[0];
    if (this.#heap.length < this.#capacity || least === undefined) {
      const entry = { key, value, count: 1, over: 0, at: this.#heap.length };
      this.#entries.set(key, entry);
      this.#heap.push(entry);
      this.#rise(entry);
      return;
    }
    const entry = { key, value, count: least.count + 1, over: least.count, at: 0 };
    this.#entries.delete(least.key);
    this.#entries.set(key, entry);
    this.#heap[0] = entry;
    this.#sink(entry);
  }

  list(): FrequentList<T> {
    const items = this.#heap.map(({ key, value, count, over }) => ({ key, value, count, over }));
    return { items, floor: items.length < this.#capacity ? 0 : (items[0]?.count ?? 0) };
  }

  #rise(entry: Entry<T>): void {
    while (entry.at > 0) {
      const parent = this.#heap[(entry.at - 1) >> 1] as Entry<T>;
      if (parent.count <= entry.count) return;
      this.#swap(parent, entry);
    }
  }

  #sink(entry: Entry<T>): void {
    for (;;) {
      const left = this.#heap[2 * entry.at + 1];
      const right = this.#heap[2 * entry.at + 2];
      const child = right !== undefined && left !== undefined && right.count < left.count ? right : left;
      if (child === undefined || child.count >= entry.count) return;
      this.#swap(entry, child);
    }
  }

  /** @param upper the parent of `lower` */
  #swap(upper: Entry<T>, lower: Entry<T>): void {
    [upper.at, lower.at] = [lower.at, upper.at];
    this.#heap[upper.at] = upper;
    this.#heap[lower.at] = lower;
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
