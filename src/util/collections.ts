export class Node<T> {
  readonly member: T;
  renewedAt: number;
  before: Node<T> | undefined;
  after: Node<T> | undefined;
  isRemoved = false;

  constructor(member: T, renewedAt: number) {
    this.member = member;
    this.renewedAt = renewedAt;
  }
}

/** A queue by last renewal. A Map that is constantly filled and emptied keeps the collector busy. */
export class LinkedQueue<T> {
  /** The ends and the size, for reading only. */
  first: Node<T> | undefined;
  last: Node<T> | undefined;
  size = 0;

  /** Returns a snapshot of the members last renewed at or before a time, oldest first. */
  renewedBefore(time: number): Node<T>[] {
    const found: Node<T>[] = [];
    for (let node = this.first; node !== undefined && node.renewedAt <= time; node = node.after)
      found.push(node);
    return found;
  }

  /** @param now at or after the time of every member */
  add(member: T, now: number): Node<T> {
    const node = new Node(member, now);
    this.#append(node);
    return node;
  }

  addNode(node: Node<T>, now: number): void {
    node.isRemoved = false;
    node.renewedAt = now;
    this.#append(node);
  }

  /** Moves a member to the end of the queue; no-op if it was removed. */
  renew(node: Node<T>, now: number): void {
    if (node.isRemoved) return;
    this.#unlink(node);
    node.renewedAt = now;
    this.#append(node);
  }

  /** Removes a member; no-op if it was already removed. */
  remove(node: Node<T>): void {
    if (node.isRemoved) return;
    node.isRemoved = true;
    this.#unlink(node);
  }

  #append(node: Node<T>): void {
    const last = this.last;
    node.before = last;
    if (last === undefined) this.first = node;
    else last.after = node;
    this.last = node;
    this.size += 1;
  }

  /** A removed node links to no other node, because references to it may outlive it. */
  #unlink(node: Node<T>): void {
    const { before, after } = node;
    if (before === undefined) this.first = after;
    else before.after = after;
    if (after === undefined) this.last = before;
    else after.before = before;
    node.before = undefined;
    node.after = undefined;
    this.size -= 1;
  }
}

export interface Counted<T> {
  readonly key: string;
  readonly value: T;
  count: number;
}

/**
 * The most frequent keys in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005). In a full list,
 * a new key replaces the one with the smallest count and continues from it, so no count is too low.
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
    this.#entries.set(key, { key, value, count: (least?.count ?? 0) + 1 });
  }

  list(): Counted<T>[] {
    return Array.from(this.#entries.values(), (each) => ({ ...each }));
  }

  #least(): Counted<T> | undefined {
    let least: Counted<T> | undefined;
    for (const each of this.#entries.values())
      if (least === undefined || each.count < least.count) least = each;
    return least;
  }
}

/**
 * Merges lists into one, sorted by descending count.
 * @param latest selects which of two values of the same key is kept
 */
export function mergeFrequent<T>(
  items: readonly Counted<T>[],
  capacity: number,
  latest: (a: T, b: T) => T,
): Counted<T>[] {
  const merged = new Map<string, Counted<T>>();
  for (const { key, value, count } of items) {
    const before = merged.get(key) ?? { value, count: 0 };
    merged.set(key, { key, value: latest(before.value, value), count: before.count + count });
  }
  return [...merged.values()].toSorted((a, b) => b.count - a.count).slice(0, capacity);
}

const ONE = (): number => 1;

/**
 * Options of an LRU cache for at most so many entries. Its memory grows with them; lru-cache's own
 * `max` allocates for all of them at once.
 */
export function upTo(entries: number): { readonly maxSize: number; readonly sizeCalculation: () => number } {
  return { maxSize: entries, sizeCalculation: ONE };
}

export function partsOf<T>(items: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let start = 0; start < items.length; start += size) parts.push(items.slice(start, start + size));
  return parts;
}
