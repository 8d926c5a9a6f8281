import type { Token } from '../domain/token.js';

/** The names of keys that tell what ended for good begin with it. */
export const REVOCATION = 'revocation:';
/** What ended is remembered for so long, in milliseconds. */
export const REMEMBERED_MS = 3_600_000;
/** So many are remembered; the oldest are dropped. A master that is reached anew receives all of them. */
const MAX_REMEMBERED = 20_000;

/** Where what ended is kept beside memory: a restart of this process does not forget it. */
export interface RevocationLog {
  /** What was kept, the oldest first, with `Date.now()` of each. */
  load(): readonly (readonly [name: string, at: number])[];
  append(names: readonly string[], at: number): void;
}

/**
 * What ended for good, by this process or by others who published it: a store may forget that, those who know of it do not.
 *
 * | name           | what ended                                                              |
 * | -------------- | ----------------------------------------------------------------------- |
 * | `token:ID`     | a token was revoked                                                     |
 * | `legacy:DIGEST`| a legacy key was revoked and never comes back                           |
 * | `session:DIGEST` | a session                                                             |
 * | `ends:AT:ID`   | a token was rotated: whatever its record says, it expires then          |
 * | `user:AT:ID`   | a user was locked or deleted: each record of an earlier `updatedAt` is void |
 */
export class Revocations {
  /** By name, in the order in which they came, `performance.now()` of each. */
  readonly #times = new Map<string, number>();
  readonly #locks = new Map<string, number>();
  /** By id of a rotated token, when it expires. */
  readonly #ends = new Map<string, number>();
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

  /** The token as it is: one that was rotated expires, though its record may be from before that. */
  corrected(token: Token): Token {
    const at = this.#ends.size === 0 ? undefined : this.#ends.get(token.id);
    return at === undefined || at >= (token.expiresAt ?? Infinity) ? token : { ...token, expiresAt: at };
  }

  /** All names, the oldest first. */
  names(): string[] {
    this.#prune(performance.now());
    return [...this.#times.keys()];
  }

  #add(name: string, time: number): boolean {
    if (this.#times.has(name)) return false;
    this.#times.set(name, time);
    const timed = timedOf(name);
    if (timed?.kind === 'user') this.#locks.set(timed.id, Math.max(timed.at, this.#locks.get(timed.id) ?? 0));
    if (timed?.kind === 'ends')
      this.#ends.set(timed.id, Math.min(timed.at, this.#ends.get(timed.id) ?? Infinity));
    return true;
  }

  #prune(now: number): void {
    for (const [name, time] of this.#times) {
      if (now - time < REMEMBERED_MS && this.#times.size <= MAX_REMEMBERED) return;
      this.#times.delete(name);
      const timed = timedOf(name);
      const times = timed?.kind === 'user' ? this.#locks : this.#ends;
      if (timed !== undefined && times.get(timed.id) === timed.at) times.delete(timed.id);
    }
  }
}

/** Reads `user:AT:ID` and `ends:AT:ID`. */
function timedOf(
  name: string,
): { readonly kind: string; readonly id: string; readonly at: number } | undefined {
  const [, kind = '', at = '', id = ''] = /^(user|ends):(\d+):(.*)$/.exec(name) ?? [];
  return kind === '' ? undefined : { kind, id, at: Number(at) };
}
