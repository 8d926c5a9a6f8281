/** Maximum number of names, and maximum length of one: peers may send any number, of any length. */
const MAX_NAMES = 2_000;
const MAX_LENGTH = 64;

/** Caches what was derived from field names, by name as received. When full, it starts anew. */
export class NameCache<T> {
  readonly #derived = new Map<string, T>();

  get(name: string): T | undefined {
    return this.#derived.get(name);
  }

  /** Adds an entry, unless the name is too long. */
  add(name: string, derived: T): void {
    if (name.length > MAX_LENGTH) return;
    if (this.#derived.size === MAX_NAMES) this.#derived.clear();
    this.#derived.set(name, derived);
  }
}
