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
 * | `suspended:AT:ID` | a token was suspended: so is each record of an earlier `updatedAt`   |
 * | `changed:AT:ID` | a token was changed otherwise: a record of an earlier `updatedAt` is not written again |
 */
export class Revocations {
  /** By name, in the order in which they came, `performance.now()` of each. */
  readonly #times = new Map<string, number>();
  readonly #locks = new Map<string, number>();
  /** By id of a rotated token, when it expires. */
  readonly #ends = new Map<string, number>();
  readonly #suspensions = new Map<string, number>();
  readonly #changes = new Map<string, number>();
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

  /** The token as it is, though its record may be from before: one that was rotated expires, one that was suspended is. */
  corrected(token: Token): Token {
    return this.#suspended(this.#ended(token));
  }

  /** Whether a token's record is from before the token was changed. */
  isSuperseded({ id, updatedAt }: { readonly id: string; readonly updatedAt: number }): boolean {
    return updatedAt < Math.max(this.#changes.get(id) ?? 0, this.#suspensions.get(id) ?? 0);
  }

  /** All names, the oldest first. */
  names(): string[] {
    this.#prune(performance.now());
    return [...this.#times.keys()];
  }

  #add(name: string, time: number): boolean {
    if (this.#times.has(name)) return false;
    this.#times.set(name, time);
    const timed = this.#timed(name);
    if (timed !== undefined)
      timed.all.set(timed.id, timed.wins(timed.at, timed.all.get(timed.id) ?? timed.at));
    return true;
  }

  #prune(now: number): void {
    for (const [name, time] of this.#times) {
      if (now - time < REMEMBERED_MS && this.#times.size <= MAX_REMEMBERED) return;
      this.#times.delete(name);
      const timed = this.#timed(name);
      if (timed !== undefined && timed.all.get(timed.id) === timed.at) timed.all.delete(timed.id);
    }
  }

  #ended(token: Token): Token {
    const at = this.#ends.size === 0 ? undefined : this.#ends.get(token.id);
    return at === undefined || at >= (token.expiresAt ?? Infinity) ? token : { ...token, expiresAt: at };
  }

  #suspended(token: Token): Token {
    const at = this.#suspensions.size === 0 ? undefined : this.#suspensions.get(token.id);
    if (at === undefined || token.updatedAt >= at) return token;
    return { ...token, restrictions: { ...token.restrictions, suspended: true } };
  }

  /** Reads a name of three parts. */
  #timed(name: string): Timed | undefined {
    const [kind = '', at, id] = name.split(':', 3);
    const all = {
      user: this.#locks,
      ends: this.#ends,
      suspended: this.#suspensions,
      changed: this.#changes,
    }[kind];
    if (all === undefined || id === undefined) return undefined;
    return { all, id, at: Number(at), wins: kind === 'ends' ? Math.min : Math.max };
  }
}

interface Timed {
  readonly all: Map<string, number>;
  readonly id: string;
  readonly at: number;
  /** Which of two times counts. */
  readonly wins: (a: number, b: number) => number;
}

/** What tells that a token was changed. @param token its record from then on */
export function nameOfChange({ id, updatedAt, restrictions }: Token): string {
  return `${restrictions?.suspended === true ? 'suspended' : 'changed'}:${updatedAt}:${id}`;
}
