/** What ended is remembered for so long, in milliseconds. */
export const REMEMBERED_MS = 3_600_000;
/** So many are remembered; the oldest make room. All of them are sent to a master that is reached anew. */
export const MAX_REMEMBERED = 20_000;

/** Where what ended is kept beside memory: a restart of this process does not forget it. */
export interface RevocationLog {
  /** What was kept, the oldest first, with `Date.now()` of each. */
  load(): readonly (readonly [name: string, at: number])[];
  append(names: readonly string[], at: number): void;
}

/**
 * What ended for good, by this process or by notifications of others: a store may forget that, never those who know of it.
 *
 * | name           | what ended                                                              |
 * | -------------- | ----------------------------------------------------------------------- |
 * | `token:ID`     | a token was revoked                                                     |
 * | `legacy:DIGEST`| a legacy key was revoked and never comes back                           |
 * | `session:DIGEST` | a session                                                             |
 * | `user:AT:ID`   | a user was locked or deleted: each record of an earlier `updatedAt` is void |
 */
export class Revocations {
  /** By name, in the order in which they came, `performance.now()` of each. */
  readonly #times = new Map<string, number>();
  readonly #locks = new Map<string, number>();
  readonly #log: RevocationLog | null;

  constructor(log: RevocationLog | null) {
    this.#log = log;
    const [now, clock] = [performance.now(), Date.now()];
    for (const [name, at] of log?.load() ?? []) this.#add(name, now - Math.max(0, clock - at));
    this.#prune(now);
  }

  /** Remembers what ended. */
  note(names: readonly string[]): void {
    const now = performance.now();
    const fresh = names.filter((name) => this.#add(name, now));
    this.#prune(now);
    if (fresh.length > 0) this.#log?.append(fresh, Date.now());
  }

  /** Whether a token was revoked. */
  hasToken({ id, digest }: { readonly id: string; readonly digest: string }): boolean {
    return this.#times.has(`token:${id}`) || this.#times.has(`legacy:${digest}`);
  }

  hasSession(digest: string): boolean {
    return this.#times.has(`session:${digest}`);
  }

  /** Whether a user's record is from before the user was locked or deleted. */
  isLocked({ id, updatedAt }: { readonly id: string; readonly updatedAt: number }): boolean {
    const at = this.#locks.get(id);
    return at !== undefined && updatedAt < at;
  }

  /** All names, the oldest first. */
  names(): string[] {
    this.#prune(performance.now());
    return [...this.#times.keys()];
  }

  #add(name: string, time: number): boolean {
    if (this.#times.has(name)) return false;
    this.#times.set(name, time);
    const lock = lockOf(name);
    if (lock !== undefined) this.#locks.set(lock.id, Math.max(lock.at, this.#locks.get(lock.id) ?? 0));
    return true;
  }

  #prune(now: number): void {
    for (const [name, time] of this.#times) {
      if (now - time < REMEMBERED_MS && this.#times.size <= MAX_REMEMBERED) return;
      this.#times.delete(name);
      const lock = lockOf(name);
      if (lock !== undefined && this.#locks.get(lock.id) === lock.at) this.#locks.delete(lock.id);
    }
  }
}

/** Reads `user:AT:ID`. */
function lockOf(name: string): { readonly id: string; readonly at: number } | undefined {
  if (!name.startsWith('user:')) return undefined;
  const end = name.indexOf(':', 'user:'.length);
  return { at: Number(name.slice('user:'.length, end)), id: name.slice(end + 1) };
}
