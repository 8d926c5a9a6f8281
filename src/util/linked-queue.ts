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
