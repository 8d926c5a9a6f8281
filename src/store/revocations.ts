import type { Token } from '../domain/token.js';
import type { User } from '../domain/user.js';

export const RETENTION_MS = 3_600_000;
/** The oldest are evicted. All of them are sent to a new master. */
const MAX_RETAINED = 20_000;

export interface RevocationLog {
  /** Returns the persisted revocations, oldest first, each with its `Date.now()`. */
  load(): readonly (readonly [name: string, at: number])[];
  append(names: readonly string[], at: number): void;
}

/**
 * Revocations by this process and those that other processes published. A store may lose them; a
 * process that knows of them does not. `AT` is a time in milliseconds. "Updated earlier" means that
 * the `updatedAt` of the record is before `AT`.
 *
 * | name              | what it means                                                          |
 * | ----------------- | ---------------------------------------------------------------------- |
 * | `token:ID`        | a token was revoked                                                    |
 * | `legacy:DIGEST`   | a legacy key was revoked and cannot be added again                     |
 * | `session:DIGEST`  | a session ended                                                        |
 * | `ends:AT:ID`      | a token was rotated: it expires then, whatever its record says         |
 * | `user:AT:ID`      | a user was locked or deleted: records updated earlier count as locked  |
 * | `operator:AT:ID`  | the same, by an operator: neither directory nor provider undoes it     |
 * | `suspended:AT:ID` | a token was suspended: records updated earlier count as suspended      |
 * | `changed:AT:ID`   | a token was changed: records updated earlier are not written again     |
 */
export class Revocations {
  /** `performance.now()` of each revocation by name, in order of arrival. */
  readonly #times = new Map<string, number>();
  readonly #locks = new Map<string, number>();
  readonly #operatorLocks = new Map<string, number>();
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

  note(names: readonly string[]): void {
    const now = performance.now();
    const fresh = names.filter((name) => this.#add(name, now));
    this.#prune(now);
    if (fresh.length > 0) this.#log?.append(fresh, Date.now());
  }

  /** Whether a token was revoked, or the one that it replaced: a store may have lost it in between. */
  hasToken({ id, digest, predecessorId }: Pick<Token, 'id' | 'digest' | 'predecessorId'>): boolean {
    const isRevoked = this.#times.has(`token:${id}`) || this.#times.has(`legacy:${digest}`);
    return isRevoked || (predecessorId !== undefined && this.#times.has(`token:${predecessorId}`));
  }

  hasSession(digest: string): boolean {
    return this.#times.has(`session:${digest}`);
  }

  correctedUser(user: User): User {
    if (user.updatedAt < (this.#operatorLocks.get(user.id) ?? 0))
      return { ...user, locked: true, lockedBy: 'operator' };
    return user.updatedAt < (this.#locks.get(user.id) ?? 0) ? { ...user, locked: true } : user;
  }

  corrected(token: Token): Token {
    return this.#suspended(this.#ended(token));
  }

  isSuperseded({ id, updatedAt }: { readonly id: string; readonly updatedAt: number }): boolean {
    return updatedAt < Math.max(this.#changes.get(id) ?? 0, this.#suspensions.get(id) ?? 0);
  }

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
      if (now - time < RETENTION_MS && this.#times.size <= MAX_RETAINED) return;
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
    if (this.#suspensions.size === 0) return token;
    const { id, predecessorId = id } = token;
    const at = Math.max(this.#suspensions.get(id) ?? 0, this.#suspensions.get(predecessorId) ?? 0);
    if (token.updatedAt >= at) return token;
    return { ...token, restrictions: { ...token.restrictions, suspended: true } };
  }

  #timed(name: string): Timed | undefined {
    const [kind = '', at, id] = name.split(':', 3);
    const all = {
      user: this.#locks,
      operator: this.#operatorLocks,
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
  /** Picks the time that counts: the earlier end of a rotation, otherwise the later change. */
  readonly wins: (a: number, b: number) => number;
}

export function nameOfChange({ id, updatedAt, restrictions }: Token): string {
  return `${restrictions?.suspended === true ? 'suspended' : 'changed'}:${updatedAt}:${id}`;
}
