import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isExpired, type Token } from '../domain/token.js';
import type { User, VerifiedOwner } from '../domain/user.js';
import type { Session } from '../domain/session.js';
import type { EpochMs } from '../util/time.js';
import { SESSION, TOKEN, USER, valueOf } from './core/kinds.js';
import { unlessDamaged } from './faults.js';
import type { Commit, Kv } from './core/kv.js';
import { makeFolder, appendTo } from '../files/files.js';
import { newId } from '../domain/secret.js';

const RETENTION_MS = 3_600_000;
/** The oldest are evicted. All of them are sent to a new master. */
const MAX_RETAINED = 20_000;

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
  /** The time that counts, by `KIND:ID` of those with a time. */
  readonly #latest = new Map<string, number>();
  readonly #log: RevocationFiles | null;

  constructor(log: RevocationFiles | null) {
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
    if (user.updatedAt < this.#timeOf('operator', user.id))
      return { ...user, locked: true, lockedBy: 'operator' };
    return user.updatedAt < this.#timeOf('user', user.id) ? { ...user, locked: true } : user;
  }

  corrected(token: Token): Token {
    return this.#suspended(this.#ended(token));
  }

  isSuperseded({ id, updatedAt }: { readonly id: string; readonly updatedAt: number }): boolean {
    return updatedAt < Math.max(this.#timeOf('changed', id), this.#timeOf('suspended', id));
  }

  names(): string[] {
    this.#prune(performance.now());
    return [...this.#times.keys()];
  }

  #add(name: string, time: number): boolean {
    if (this.#times.has(name)) return false;
    this.#times.set(name, time);
    const { kind, at, id } = partsIn(name);
    if (at === 0) return true;
    // The earlier end of a rotation counts, otherwise the later change.
    const wins = kind === 'ends' ? Math.min : Math.max;
    this.#latest.set(`${kind}:${id}`, wins(at, this.#latest.get(`${kind}:${id}`) ?? at));
    return true;
  }

  #prune(now: number): void {
    for (const [name, time] of this.#times) {
      if (now - time < RETENTION_MS && this.#times.size <= MAX_RETAINED) return;
      this.#times.delete(name);
      const { kind, at, id } = partsIn(name);
      if (this.#latest.get(`${kind}:${id}`) === at) this.#latest.delete(`${kind}:${id}`);
    }
  }

  #ended(token: Token): Token {
    const at = this.#timeOf('ends', token.id) || Infinity;
    return at >= (token.expiresAt ?? Infinity) ? token : { ...token, expiresAt: at };
  }

  #suspended(token: Token): Token {
    const { id, predecessorId = id } = token;
    const at = Math.max(this.#timeOf('suspended', id), this.#timeOf('suspended', predecessorId));
    if (token.updatedAt >= at) return token;
    return { ...token, restrictions: { ...token.restrictions, suspended: true } };
  }

  /** 0 if there is none. */
  #timeOf(kind: string, id: string): number {
    return this.#latest.size === 0 ? 0 : (this.#latest.get(`${kind}:${id}`) ?? 0);
  }
}

const TIMED: readonly string[] = ['user', 'operator', 'ends', 'suspended', 'changed'];

/** The parts of a name; 0 if its kind has no time. */
export function partsIn(name: string): { readonly kind: string; readonly at: EpochMs; readonly id: string } {
  const kind = name.slice(0, name.indexOf(':'));
  const rest = name.slice(kind.length + 1);
  const time = TIMED.includes(kind) ? rest.slice(0, rest.indexOf(':') + 1) : '';
  return { kind, at: Number.parseInt(time, 10) || 0, id: rest.slice(time.length) };
}

export function nameOfChange({ id, updatedAt, restrictions }: Token): string {
  return `${restrictions?.suspended === true ? 'suspended' : 'changed'}:${updatedAt}:${id}`;
}

const MAX_CREATED = 20_000;

export type Creation =
  | { readonly kind: 'token'; readonly record: Token; readonly owner: VerifiedOwner }
  | { readonly kind: 'session'; readonly record: Session; readonly owner: VerifiedOwner };

/**
 * What this process created in the last hour, to be written again to a store that lost it.
 * A token that another process changed is left out: as created, it would lose its restrictions.
 */
export class Creations {
  readonly #revocations: Revocations;
  /** By digest, oldest first, each with its `performance.now()`. */
  readonly #all = new Map<string, readonly [at: number, Creation]>();

  constructor(revocations: Revocations) {
    this.#revocations = revocations;
  }

  note(creation: Creation): void {
    this.#all.set(creation.record.digest, [performance.now(), creation]);
    const [oldest] = this.#all.keys();
    if (this.#all.size > MAX_CREATED && oldest !== undefined) this.#all.delete(oldest);
  }

  /** Returns a function that notes what a change created, replaced or removed; to be called once it was made. */
  noting({ expect, put }: Commit, recent: Kv['recent']): () => void {
    const notes: (() => void)[] = [];
    for (const [key, each] of put) {
      const kind = [TOKEN, SESSION].find(({ name }) => key.startsWith(`${name}:`));
      if (kind === undefined) continue;
      const digest = key.slice(kind.name.length + 1);
      if (each === null) {
        notes.push(() => this.#all.delete(digest));
        continue;
      }
      const owner =
        typeof expect.get(key) === 'string'
          ? this.#all.get(digest)?.[1].owner
          : unlessDamaged(() => valueOf(USER, '', recent(each.ref ?? '')?.stored));
      if (owner === undefined) continue;
      if (kind === TOKEN)
        notes.push(() => this.note({ kind: 'token', record: TOKEN.decode(each.value), owner }));
      else notes.push(() => this.note({ kind: 'session', record: SESSION.decode(each.value), owner }));
    }
    return () => notes.forEach((note) => note());
  }

  current(now: EpochMs): Creation[] {
    const oldest = performance.now() - RETENTION_MS;
    for (const [digest, [at, creation]] of this.#all)
      if (at < oldest || this.#hasEnded(creation, now)) this.#all.delete(digest);
    return [...this.#all.values()].map(([, creation]) =>
      creation.kind === 'token'
        ? { ...creation, record: this.#revocations.corrected(creation.record) }
        : creation,
    );
  }

  forget(lost: readonly Creation[]): void {
    for (const { record } of lost) this.#all.delete(record.digest);
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
export class RevocationFiles {
  readonly #folder: string;
  readonly #onFailure: (error: unknown) => void;
  #file = '';
  #since = -Infinity;

  constructor(folder: string, onFailure: (error: unknown) => void) {
    this.#folder = folder;
    this.#onFailure = onFailure;
    makeFolder(folder, 0o700);
    this.#begin();
  }

  /** Returns the revocations, oldest first, each with its `Date.now()`. */
  load(): (readonly [name: string, at: number])[] {
    const oldest = Date.now() - RETENTION_MS;
    const found = new Map<string, number>();
    for (const file of this.#recentFiles())
      for (const [name, at] of entriesOf(readFileSync(file, 'utf8'))) if (at >= oldest) found.set(name, at);
    return [...found].toSorted((a, b) => a[1] - b[1]);
  }

  append(names: readonly string[], at: number): void {
    try {
      if (performance.now() - this.#since > FILE_MS) this.#begin();
      const lines = names.map((name) => `${at} ${name}\n`).join('');
      // An earlier line may have been cut. No name ends in a space, so it is not taken for a shorter name.
      appendTo(this.#file, ` \n${lines}`);
    } catch (error) {
      this.#onFailure(error);
    }
  }

  #begin(): void {
    this.#recentFiles();
    this.#file = join(this.#folder, `revocations-${newId()}.txt`);
    appendTo(this.#file, '');
    this.#since = performance.now();
  }

  /** Removes files without a recent entry, which nobody writes to any more. Returns the others. */
  #recentFiles(): string[] {
    const oldest = Date.now() - RETENTION_MS;
    const names = readdirSync(this.#folder).filter((name) => NAME.test(name));
    return names
      .map((name) => join(this.#folder, name))
      .filter((file) => {
        const isRecent = (statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0) >= oldest;
        if (!isRecent) rmSync(file, { force: true });
        return isRecent;
      });
  }
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
