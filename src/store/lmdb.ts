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
import { Transactions } from './lmdb/transactions.js';
import {
  type ChangeRefused,
  type Changes,
  type LoginFailures,
  type SessionWithOwner,
  type Store,
  type TokenWithOwner,
  type TokenWithUse,
  type Uses,
} from './store.js';

/**
 * Opens the embedded store in a folder. Several processes may hold the same folder open.
 *
 * @param minFree bytes that must be free on its disk for a write (`store.min_free`)
 */
export function openLmdbStore(path: string, minFree = 0): Store {
  return new LmdbStore(openDatabases(path), new DiskSpace(path, minFree));
}

/** The embedded store. */
class LmdbStore implements Store {
  readonly #transactions: Transactions;
  readonly #lookUps: LookUps;

  constructor(dbs: Databases, space: DiskSpace) {
    this.#transactions = new Transactions(dbs, space);
    this.#lookUps = new LookUps(dbs);
  }

  findToken(digest: string): TokenWithOwner | undefined {
    return this.#transactions.read(() => this.#lookUps.token(digest));
  }

  findSession(digest: string): SessionWithOwner | undefined {
    return this.#transactions.read(() => this.#lookUps.session(digest));
  }

  hasLegacyKeys(): boolean {
    return this.#transactions.read(countLegacyKeys) > 0;
  }

  getCustomer(id: string): Customer | undefined {
    return this.#transactions.read((dbs) => readCustomer(dbs, id));
  }

  getService(id: string): Service | undefined {
    return this.#transactions.read((dbs) => readService(dbs, id));
  }

  getUser(id: string): User | undefined {
    return this.#transactions.read((dbs) => readUser(dbs, id));
  }

  getUserByLogin(login: string): User | undefined {
    return this.#transactions.read((dbs) => {
      const id = dbs.logins.get(loginKey(login));
      return id === undefined ? undefined : readUser(dbs, id);
    });
  }

  listCustomers(): Customer[] {
    return this.#transactions.read((dbs) =>
      present([...dbs.customers.getKeys()].map((id) => readCustomer(dbs, id))),
    );
  }

  listServices(customerId: string): Service[] {
    return this.#transactions.read((dbs) =>
      present(listIndex(dbs.servicesOf, customerId).map((id) => readService(dbs, id))),
    );
  }

  listUsers(customerId: string): User[] {
    return this.#transactions.read((dbs) =>
      present(listIndex(dbs.usersOf, customerId).map((id) => readUser(dbs, id))),
    );
  }

  async change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined> {
    return this.#transactions.write((dbs) => applyChanges(dbs, changes, now));
  }

  async createToken(token: Token, maxPerUser: number | null, now: EpochMs) {
    return this.#transactions.write((dbs) => createToken(dbs, token, maxPerUser, now));
  }

  filterNewDigests(digests: readonly string[]): string[] {
    return this.#transactions.read((dbs) => digests.filter((digest) => isNewDigest(dbs, digest)));
  }

  getToken(id: string): TokenWithUse | undefined {
    return this.#transactions.read((dbs) => tokenWithUse(dbs, id));
  }

  listTokensOfUser(userId: string): TokenWithUse[] {
    return this.#transactions.read((dbs) =>
      present(listIndex(dbs.tokensOf, userId).map((id) => tokenWithUse(dbs, id))),
    );
  }

  listTokensOfCustomer(customerId: string): TokenWithUse[] {
    return this.#transactions.read((dbs) =>
      listIndex(dbs.usersOf, customerId).flatMap((userId) =>
        present(listIndex(dbs.tokensOf, userId).map((id) => tokenWithUse(dbs, id))),
      ),
    );
  }

  async revokeTokens(ids: readonly string[]): Promise<string[]> {
    return this.#transactions.remove((dbs) => revokeTokens(dbs, ids));
  }

  async createSession(session: Session): Promise<void> {
    this.#transactions.write((dbs) => addSession(dbs, session));
  }

  listSessions(userId: string): Session[] {
    return this.#transactions.read((dbs) =>
      present(listIndex(dbs.sessionsOf, userId).map((digest) => readSession(dbs, digest))),
    );
  }

  async endSession(digest: string): Promise<boolean> {
    return this.#transactions.remove((dbs) => removeSession(dbs, digest));
  }

  async endSessionsOfUser(userId: string, except?: string): Promise<number> {
    return this.#transactions.write((dbs) => {
      const ended = listIndex(dbs.sessionsOf, userId).filter((digest) => digest !== except);
      for (const digest of ended) removeSession(dbs, digest);
      return ended.length;
    });
  }

  async recordUses({ tokens, sessions }: Uses): Promise<void> {
    await this.#transactions.writeInParts([...tokens], (dbs, [id, use]) => recordTokenUse(dbs, id, use));
    await this.#transactions.writeInParts([...sessions], (dbs, [digest, use]) =>
      recordSessionUse(dbs, digest, use),
    );
  }

  async takeOtpStep(userId: string, step: number): Promise<boolean> {
    return this.#transactions.write(({ otpSteps }) => {
      if ((otpSteps.get(userId) ?? -1) >= step) return false;
      otpSteps.putSync(userId, step);
      return true;
    });
  }

  async countWrite(userId: string, hour: EpochMs): Promise<number> {
    return this.#transactions.write(({ writes }) => {
      const known = writes.get(userId);
      const lasts = known !== undefined && (known.hour === hour || known.hour === hour + HOUR_MS);
      const next = lasts ? { hour: known.hour, count: known.count + 1 } : { hour, count: 1 };
      writes.putSync(userId, next);
      return next.count;
    });
  }

  getOtpStep(userId: string): number {
    return this.#transactions.read(({ otpSteps }) => otpSteps.get(userId) ?? -1);
  }

  listRevokedDigests(): string[] {
    return this.#transactions.read(({ revoked }) => [...revoked.getKeys()]);
  }

  async addRevokedDigests(digests: readonly string[]): Promise<void> {
    this.#transactions.remove(({ revoked }) => {
      for (const digest of digests) revoked.putSync(digest, true);
    });
  }

  getLoginFailures(key: string, now: EpochMs): LoginFailures | undefined {
    return this.#transactions.read((dbs) => readFailures(dbs, key, now));
  }

  async addLoginFailure(key: string, now: EpochMs, forgetAt: EpochMs): Promise<LoginFailures> {
    return this.#transactions.write((dbs) => addFailure(dbs, key, now, forgetAt));
  }

  async clearLoginFailures(key: string): Promise<void> {
    this.#transactions.write((dbs) => removeFailures(dbs, key));
  }

  async grantSudo(userId: string, credentialId: string, until: EpochMs): Promise<void> {
    this.#transactions.write((dbs) => addSudo(dbs, userId, credentialId, until));
  }

  hasSudo(userId: string, credentialId: string, now: EpochMs): boolean {
    return this.#transactions.read((dbs) => hasSudo(dbs, userId, credentialId, now));
  }

  getSigningKeys(): SigningKeys | undefined {
    return this.#transactions.read(readSigningKeys);
  }

  async replaceSigningKeys(next: SigningKeys): Promise<boolean> {
    return this.#transactions.write((dbs) => replaceSigningKeys(dbs, next));
  }

  async removeSigningKeys(): Promise<boolean> {
    return this.#transactions.remove(removeSigningKeys);
  }

  countActiveTokens(now: EpochMs): number {
    return this.#transactions.read((dbs) => countTokens(dbs) - countExpired(dbs, now));
  }

  async removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number> {
    return this.#transactions.remove((dbs) => removeExpired(dbs, now, tokensBefore, limit));
  }

  /** Opening it did. */
  async begin(): Promise<void> {}

  async probe(): Promise<void> {
    this.#transactions.read((dbs) => dbs.meta.get('format'));
  }

  async close(): Promise<void> {
    await this.#transactions.close();
  }
}

function tokenWithUse(dbs: Databases, id: string): TokenWithUse | undefined {
  const token = readToken(dbs, id);
  return token === undefined ? undefined : { token, use: readUse(dbs, id) };
}

function present<T>(items: readonly (T | undefined)[]): T[] {
  return items.filter((item) => item !== undefined);
}
