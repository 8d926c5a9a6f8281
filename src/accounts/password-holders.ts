import type { DirectoryStore } from '../store/core/directory.js';

/** Between two searches through all users. */
const COOLDOWN_MS = 2_000;
/** Maximum share of the time that searches may take. */
const SHARE = 1 / 50;

type Directory = Pick<DirectoryStore, 'getPasswordCost' | 'getUser' | 'listCustomers' | 'listUsers'>;

/** Remembers a user who has a password, and otherwise searches all users. */
export class PasswordHolders {
  readonly #directory: Directory;
  #found: string | undefined;
  #searchFrom = -Infinity;
  #searching: Promise<void> | undefined;

  constructor(directory: Directory) {
    this.#directory = directory;
  }

  /** The very first password may be noticed seconds late. */
  async any(): Promise<boolean> {
    if ((await this.#directory.getPasswordCost()) === 0) return false;
    if (await this.#stillHas()) return true;
    if (this.#searching === undefined && performance.now() < this.#searchFrom) return false;
    this.#searching ??= this.#search().finally(() => (this.#searching = undefined));
    await this.#searching;
    return this.#found !== undefined;
  }

  async #stillHas(): Promise<boolean> {
    if (this.#found === undefined) return false;
    const user = await this.#directory.getUser(this.#found);
    return user !== undefined && user.passwordHash !== null;
  }

  async #search(): Promise<void> {
    const began = performance.now();
    this.#found = undefined;
    for (const { id } of await this.#directory.listCustomers()) {
      const users = await this.#directory.listUsers(id);
      this.#found = users.find(({ passwordHash }) => passwordHash !== null)?.id;
      if (this.#found !== undefined) break;
    }
    const took = performance.now() - began;
    this.#searchFrom = performance.now() + Math.max(COOLDOWN_MS, took / SHARE);
  }
}
