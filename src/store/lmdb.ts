import { setTimeout as sleep } from 'node:timers/promises';
import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import { type EpochMs, HOUR_MS } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, loginKey, type Service, type User } from '../domain/user.js';
import { applyChanges } from './lmdb/changes.js';
import { type Databases, listIndex, openDatabases } from './lmdb/databases.js';
import { countExpired, removeExpired } from './lmdb/expiry.js';
import { DiskSpace } from './lmdb/disk-space.js';
import { addFailure, readFailures, removeFailures } from './lmdb/failures.js';
import { LookUps } from './lmdb/look-ups.js';
import { readCustomer, readService, readSession, readToken, readUse, readUser } from './lmdb/read.js';
import { readSigningKeys, removeSigningKeys, replaceSigningKeys } from './lmdb/signing-keys.js';
import { addSession, recordSessionUse, removeSession } from './lmdb/sessions.js';
import { addSudo, hasSudo } from './lmdb/sudos.js';
import {
  countLegacyKeys,
  countTokens,
  createToken,
  isNewDigest,
  recordTokenUse,
  revokeTokens,
} from './lmdb/tokens.js';
import { partsOf } from './parts.js';
import {
  type ChangeRefused,
  type Changes,
  type LoginFailures,
  type SessionWithOwner,
  type Store,
  StoreUnavailable,
  type TokenWithOwner,
  type TokenWithUse,
  type Uses,
} from './store.js';

/**
 * Last uses are written in so many parts at most, of so many records at least, with a pause between. At once, those of a thousand
 * tokens stopped everything for 25 ms in each second; each part takes 4, of which 1.5 are its way to the disk.
 */
const MAX_PARTS = 16;
const MIN_PART = 128;
const PART_PAUSE_MS = 20;

/**
 * Opens the embedded store in a folder. Several processes may hold the same folder open.
 *
 * @param minFree bytes that must be free on its disk for a write (`store.min_free`)
 */
export function openLmdbStore(path: string, minFree = 0): Store {
  return new LmdbStore(openDatabases(path), new DiskSpace(path, minFree));
}

/**
 * The embedded store.
 *
 * A write is one synchronous transaction that is on disk when it returns (about 0.5 ms); it holds the lock that all
 * processes share, so a check and its write are one step, and a throw leaves nothing behind.
 */
class LmdbStore implements Store {
  readonly #dbs: Databases;
  readonly #space: DiskSpace;
  readonly #lookUps: LookUps;

  constructor(dbs: Databases, space: DiskSpace) {
    this.#dbs = dbs;
    this.#space = space;
    this.#lookUps = new LookUps(dbs);
  }

  findToken(digest: string): TokenWithOwner | undefined {
    return this.#read(() => this.#lookUps.token(digest));
  }

  findSession(digest: string): SessionWithOwner | undefined {
    return this.#read(() => this.#lookUps.session(digest));
  }

  hasLegacyKeys(): boolean {
    return this.#read(countLegacyKeys) > 0;
  }

  getCustomer(id: string): Customer | undefined {
    return this.#read((dbs) => readCustomer(dbs, id));
  }

  getService(id: string): Service | undefined {
    return this.#read((dbs) => readService(dbs, id));
  }

  getUser(id: string): User | undefined {
    return this.#read((dbs) => readUser(dbs, id));
  }

  getUserByLogin(login: string): User | undefined {
    return this.#read((dbs) => {
      const id = dbs.logins.get(loginKey(login));
      return id === undefined ? undefined : readUser(dbs, id);
    });
  }

  listCustomers(): Customer[] {
    return this.#read((dbs) => present([...dbs.customers.getKeys()].map((id) => readCustomer(dbs, id))));
  }

  listServices(customerId: string): Service[] {
    return this.#read((dbs) =>
      present(listIndex(dbs.servicesOf, customerId).map((id) => readService(dbs, id))),
    );
  }

  listUsers(customerId: string): User[] {
    return this.#read((dbs) => present(listIndex(dbs.usersOf, customerId).map((id) => readUser(dbs, id))));
  }

  async change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined> {
    return this.#write((dbs) => applyChanges(dbs, changes, now));
  }

  async createToken(token: Token, maxPerUser: number | null, now: EpochMs) {
    return this.#write((dbs) => createToken(dbs, token, maxPerUser, now));
  }

  filterNewDigests(digests: readonly string[]): string[] {
    return this.#read((dbs) => digests.filter((digest) => isNewDigest(dbs, digest)));
  }

  getToken(id: string): TokenWithUse | undefined {
    return this.#read((dbs) => tokenWithUse(dbs, id));
  }

  listTokensOfUser(userId: string): TokenWithUse[] {
    return this.#read((dbs) => present(listIndex(dbs.tokensOf, userId).map((id) => tokenWithUse(dbs, id))));
  }

  listTokensOfCustomer(customerId: string): TokenWithUse[] {
    return this.#read((dbs) =>
      listIndex(dbs.usersOf, customerId).flatMap((userId) =>
        present(listIndex(dbs.tokensOf, userId).map((id) => tokenWithUse(dbs, id))),
      ),
    );
  }

  async revokeTokens(ids: readonly string[]): Promise<string[]> {
    return this.#remove((dbs) => revokeTokens(dbs, ids));
  }

  async createSession(session: Session): Promise<void> {
    this.#write((dbs) => addSession(dbs, session));
  }

  listSessions(userId: string): Session[] {
    return this.#read((dbs) =>
      present(listIndex(dbs.sessionsOf, userId).map((digest) => readSession(dbs, digest))),
    );
  }

  async endSession(digest: string): Promise<boolean> {
    return this.#remove((dbs) => removeSession(dbs, digest));
  }

  async endSessionsOfUser(userId: string, except?: string): Promise<number> {
    return this.#write((dbs) => {
      const ended = listIndex(dbs.sessionsOf, userId).filter((digest) => digest !== except);
      for (const digest of ended) removeSession(dbs, digest);
      return ended.length;
    });
  }

  async recordUses({ tokens, sessions }: Uses): Promise<void> {
    await this.#writeInParts([...tokens], (dbs, [id, use]) => recordTokenUse(dbs, id, use));
    await this.#writeInParts([...sessions], (dbs, [digest, use]) => recordSessionUse(dbs, digest, use));
  }

  async takeOtpStep(userId: string, step: number): Promise<boolean> {
    return this.#write(({ otpSteps }) => {
      if ((otpSteps.get(userId) ?? -1) >= step) return false;
      otpSteps.putSync(userId, step);
      return true;
    });
  }

  async countWrite(userId: string, hour: EpochMs): Promise<number> {
    return this.#write(({ writes }) => {
      const known = writes.get(userId);
      const lasts = known !== undefined && (known.hour === hour || known.hour === hour + HOUR_MS);
      const next = lasts ? { hour: known.hour, count: known.count + 1 } : { hour, count: 1 };
      writes.putSync(userId, next);
      return next.count;
    });
  }

  getOtpStep(userId: string): number {
    return this.#read(({ otpSteps }) => otpSteps.get(userId) ?? -1);
  }

  listRevokedDigests(): string[] {
    return this.#read(({ revoked }) => [...revoked.getKeys()]);
  }

  async addRevokedDigests(digests: readonly string[]): Promise<void> {
    this.#remove(({ revoked }) => {
      for (const digest of digests) revoked.putSync(digest, true);
    });
  }

  getLoginFailures(key: string, now: EpochMs): LoginFailures | undefined {
    return this.#read((dbs) => readFailures(dbs, key, now));
  }

  async addLoginFailure(key: string, now: EpochMs, forgetAt: EpochMs): Promise<LoginFailures> {
    return this.#write((dbs) => addFailure(dbs, key, now, forgetAt));
  }

  async clearLoginFailures(key: string): Promise<void> {
    this.#write((dbs) => removeFailures(dbs, key));
  }

  async grantSudo(userId: string, credentialId: string, until: EpochMs): Promise<void> {
    this.#write((dbs) => addSudo(dbs, userId, credentialId, until));
  }

  hasSudo(userId: string, credentialId: string, now: EpochMs): boolean {
    return this.#read((dbs) => hasSudo(dbs, userId, credentialId, now));
  }

  getSigningKeys(): SigningKeys | undefined {
    return this.#read(readSigningKeys);
  }

  async replaceSigningKeys(next: SigningKeys): Promise<boolean> {
    return this.#write((dbs) => replaceSigningKeys(dbs, next));
  }

  async removeSigningKeys(): Promise<boolean> {
    return this.#remove(removeSigningKeys);
  }

  countActiveTokens(now: EpochMs): number {
    return this.#read((dbs) => countTokens(dbs) - countExpired(dbs, now));
  }

  async removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number> {
    return this.#remove((dbs) => removeExpired(dbs, now, tokensBefore, limit));
  }

  /** Opening it did. */
  async begin(): Promise<void> {}

  async probe(): Promise<void> {
    this.#read((dbs) => dbs.meta.get('format'));
  }

  async close(): Promise<void> {
    await this.#dbs.root.close();
  }

  /** Reads from the newest snapshot: lmdb keeps one until a timer fires, and another process may have revoked since. */
  #read<T>(work: (dbs: Databases) => T): T {
    try {
      this.#dbs.root.resetReadTxn();
      return work(this.#dbs);
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  /** Writes each of many in a transaction of some, so that no request waits for all of them. */
  async #writeInParts<T>(all: readonly T[], write: (dbs: Databases, each: T) => void): Promise<void> {
    const size = Math.max(MIN_PART, Math.ceil(all.length / MAX_PARTS));
    for (const [index, part] of partsOf(all, size).entries()) {
      if (index > 0) await sleep(PART_PAUSE_MS);
      this.#write((dbs) => {
        for (const each of part) write(dbs, each);
      });
    }
  }

  /** Takes something away, for which less space is enough: nobody is kept from revoking. */
  #remove<T>(work: (dbs: Databases) => T): T {
    return this.#write(work, 'removal');
  }

  #write<T>(work: (dbs: Databases) => T, kind?: 'removal'): T {
    try {
      this.#space.require(kind);
      return this.#dbs.root.transactionSync(() => work(this.#dbs));
    } catch (error) {
      throw asUnavailable(error);
    }
  }
}

function tokenWithUse(dbs: Databases, id: string): TokenWithUse | undefined {
  const token = readToken(dbs, id);
  return token === undefined ? undefined : { token, use: readUse(dbs, id) };
}

function present<T>(items: readonly (T | undefined)[]): T[] {
  return items.filter((item) => item !== undefined);
}

function asUnavailable(error: unknown): StoreUnavailable {
  if (error instanceof StoreUnavailable) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return new StoreUnavailable(`the store can not answer (${reason})`, { cause: error });
}
