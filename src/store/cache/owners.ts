import { LRUCache } from 'lru-cache';
import { isSameUser, type User } from '../../domain/user.js';

/** Records of users that were read, each the newest one: answers come in any order. */
export class Owners {
  readonly #users: LRUCache<string, User>;

  /** @param max how many are kept */
  constructor(max: number) {
    this.#users = new LRUCache({ max });
  }

  get(id: string): User | undefined {
    return this.#users.get(id);
  }

  /** Keeps a record that was read, unless a newer one is kept, and returns the newer one. */
  keep(read: User): User {
    const known = this.#users.get(read.id);
    const newest = known === undefined || isNewer(read, known) ? read : known;
    this.#users.set(newest.id, newest);
    return newest;
  }

  /** Keeps a record that was read on another occasion, where it is newer than the one that is kept. */
  note(read: User): void {
    const known = this.#users.peek(read.id);
    if (known !== undefined && isNewer(read, known)) this.#users.set(read.id, read);
  }

  delete(id: string): void {
    this.#users.delete(id);
  }

  clear(): void {
    this.#users.clear();
  }
}

/**
 * Whether a record of a user is newer than another one: each change gives it a later `updatedAt`. Of two that differ and
 * are of one time, the one that was read last is taken; a user that was deleted and made anew has a later `createdAt`.
 */
function isNewer(a: User, b: User): boolean {
  if (a.createdAt !== b.createdAt) return a.createdAt > b.createdAt;
  return a.updatedAt === b.updatedAt ? !isSameUser(a, b) : a.updatedAt > b.updatedAt;
}
