/** One key of a {@link Frequent} list. */
export interface Counted<T> {
  readonly key: string;
  readonly value: T;
  /** Never less than how often the key came, and at most `over` more. */
  count: number;
  readonly over: number;
}

/** A list as it is told to another process. */
export interface FrequentList<T> {
  readonly items: readonly Counted<T>[];
  /** How often a key that is not in the list can have come at most. */
  readonly floor: number;
}

interface Entry<T> extends Counted<T> {
  /** Its index in the heap. */
  at: number;
}

/**
 * The keys that come most often, in bounded memory: the algorithm Space-Saving (Metwally, Agrawal, El Abbadi: Efficient
 * computation of frequent and top-k elements in data streams, 2005).
 *
 * In a list that is full, a new key takes the place of the one with the smallest count and goes on from there. So every key
 * that came more often than that is in the list, and a count is too high by `over` at most. While the list was never full,
 * all counts are exact.
 */
export class Frequent<T> {
  readonly #capacity: number;
  readonly #entries = new Map<string, Entry<T>>();
  /** A binary heap with the smallest count first. */
  readonly #heap: Entry<T>[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get(key: string): Counted<T> | undefined {
    return this.#entries.get(key);
  }

  /** Counts a key that the list has once more. */
  again(counted: Counted<T>): void {
    const entry = counted as Entry<T>;
    entry.count += 1;
    this.#sink(entry);
  }

  /** Takes a key into the list that it does not have. */
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

  /** @param upper the parent of the other one */
  #swap(upper: Entry<T>, lower: Entry<T>): void {
    [upper.at, lower.at] = [lower.at, upper.at];
    this.#heap[upper.at] = upper;
    this.#heap[lower.at] = lower;
  }
}

/**
 * One list of several, with the most frequent key first (Agarwal and others: Mergeable summaries, 2012). A key that a full list
 * does not have may have been there up to its `floor`, so that much is added to its count: it stays a count that is never too low.
 *
 * @param latest which of two values of one key is told
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
