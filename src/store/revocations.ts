import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isExpired, type Token } from '../domain/token.js';
import type { User, VerifiedOwner } from '../domain/user.js';
import type { Session } from '../domain/session.js';
import type { EpochMs } from '../util/time.js';
import { makeFolder } from '../files/make-folder.js';
import { appendTo } from '../files/write-file.js';
import { newId } from '../domain/secret.js';

const RETENTION_MS = 3_600_000;
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

const MAX_CREATED = 10_000;

export type Creation =
  | { readonly kind: 'token'; readonly record: Token; readonly owner: VerifiedOwner }
  | { readonly kind: 'session'; readonly record: Session; readonly owner: VerifiedOwner };

/**
 * What this process created in the last hour, to be written again to a store that lost it.
 * A token that another process changed is left out: as created, it would lose its restrictions.
 */
export class Creations {
  readonly #revocations: Revocations;
  /** Creations by digest, oldest first, each with its `performance.now()`. */
  readonly #tokens = new Map<string, readonly [at: number, Creation]>();
  readonly #sessions = new Map<string, readonly [at: number, Creation]>();

  constructor(revocations: Revocations) {
    this.#revocations = revocations;
  }

  note(creation: Creation): void {
    const all = this.#of(creation);
    all.set(creation.record.digest, [performance.now(), creation]);
    const [oldest] = all.keys();
    if (all.size > MAX_CREATED && oldest !== undefined) all.delete(oldest);
  }

  replace(record: Token): void {
    const known = this.#tokens.get(record.digest)?.[1];
    if (known?.kind === 'token') this.note({ ...known, record });
  }

  current(now: EpochMs): Creation[] {
    const oldest = performance.now() - RETENTION_MS;
    for (const all of [this.#tokens, this.#sessions])
      for (const [digest, [at, creation]] of all)
        if (at < oldest || this.#hasEnded(creation, now)) all.delete(digest);
    return [...this.#tokens.values(), ...this.#sessions.values()].map(([, creation]) =>
      this.#corrected(creation),
    );
  }

  forget(lost: readonly Creation[]): void {
    for (const creation of lost) this.#of(creation).delete(creation.record.digest);
  }

  #corrected(creation: Creation): Creation {
    return creation.kind === 'token'
      ? { ...creation, record: this.#revocations.corrected(creation.record) }
      : creation;
  }

  #of({ kind }: Creation) {
    return kind === 'token' ? this.#tokens : this.#sessions;
  }

  #hasEnded({ kind, record }: Creation, now: EpochMs): boolean {
    return kind === 'token'
      ? isExpired(record, now) || this.#revocations.hasToken(record) || this.#revocations.isSuperseded(record)
      : record.endsAt <= now || this.#revocations.hasSession(record.digest);
  }
}

/** How long one file is written to, in milliseconds, so that old files can be deleted whole. */
const FILE_MS = RETENTION_MS / 4;
const NAME = /^revocations-[\w-]+\.txt$/;

/** Revocations in files of a folder, a line each. Each process writes its own and reads all at start. */
export class RevocationFiles implements RevocationLog {
  readonly #folder: string;
  readonly #onFailure: (error: unknown) => void;
  #file = '';
  #since = -Infinity;
  #isCut = false;

  constructor(folder: string, onFailure: (error: unknown) => void) {
    this.#folder = folder;
    this.#onFailure = onFailure;
    makeFolder(folder, 0o700);
    this.#begin();
  }

  load(): (readonly [name: string, at: number])[] {
    const oldest = Date.now() - RETENTION_MS;
    const found = new Map<string, number>();
    for (const name of readdirSync(this.#folder).filter((each) => NAME.test(each))) {
      const file = join(this.#folder, name);
      if (statSync(file).mtimeMs < oldest) rmSync(file, { force: true });
      else for (const [each, at] of entriesOf(readFileSync(file, 'utf8'))) if (at >= oldest) found.set(each, at);
    }
    return [...found].toSorted((a, b) => a[1] - b[1]);
  } // prettier-ignore

  append(names: readonly string[], at: number): void {
    try {
      if (performance.now() - this.#since > FILE_MS) this.#begin();
      const lines = names.map((name) => `${at} ${name}\n`).join('');
      // No name ends in a space, so a part of a line is not taken for a shorter name.
      appendTo(this.#file, this.#isCut ? ` \n${lines}` : lines);
      this.#isCut = false;
    } catch (error) {
      this.#isCut = true;
      this.#onFailure(error);
    }
  }

  #begin(): void {
    this.#since = performance.now();
    this.#file = join(this.#folder, `revocations-${newId()}.txt`);
    appendTo(this.#file, '');
    const oldest = Date.now() - RETENTION_MS - FILE_MS;
    for (const name of readdirSync(this.#folder).filter((each) => NAME.test(each))) {
      const file = join(this.#folder, name);
      if ((statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Infinity) < oldest) rmSync(file, { force: true });
    }
  } // prettier-ignore
}

/** A truncated last line is ignored. */
function entriesOf(text: string): [name: string, at: number][] {
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .flatMap((line): [string, number][] => {
      const [, at, name] =
        /^(\d{1,15}) ((?:token|legacy|session|user|operator|ends|suspended|changed):\S+)$/.exec(line) ?? [];
      return at === undefined || name === undefined ? [] : [[name, Number(at)]];
    });
}
