import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import { type EpochMs, HOUR_MS } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import {
  type Customer,
  isAsVerified,
  loginKey,
  type Service,
  type User,
  type VerifiedOwner,
} from '../domain/user.js';
import type { AttemptLimit, Settlement } from './attempts.js';
import { attemptHeldUntil, readKnownAddresses, reserveAttempt, settleAttempt } from './lmdb/attempts.js';
import { addsNothing, applyChanges } from './lmdb/changes.js';
import { type CopyFault, CopyWatch } from './lmdb/copies.js';
import { type Databases, listIndex, openDatabases, PASSWORD_COST, RESTORING } from './lmdb/databases.js';
import { countExpired, expiredRange, type ExpiryKey, isDue, removeExpired } from './lmdb/expiry.js';
import { DiskSpace } from './lmdb/disk-space.js';
import { Lists } from './lmdb/lists.js';
import { LookUps } from './lmdb/look-ups.js';
import { readCustomer, readService, readTokenWithUse, readUser, readUserByLogin } from './lmdb/read.js';
import { readSigningKeys, removeSigningKeys, replaceSigningKeys } from './lmdb/signing-keys.js';
import { createSession, recordSessionUse, removeSession } from './lmdb/sessions.js';
import { addSudo, hasSudo } from './lmdb/sudo-grants.js';
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
  type SessionWithOwner,
  type Store,
  StoreUnusable,
  type TokenLimits,
  type TokenWithOwner,
  type TokenWithUse,
  UNFINISHED_RESTORE,
  type Uses,
} from './store.js';

/**
 * Opens the embedded store in a folder. Several processes may hold the same folder open.
 *
 * @param minFree bytes that must be free on its disk for a write (`store.min_free`)
 * @param onCopyFault given by a server, which notices copies that are put in the place of the folder
 */
export function openLmdbStore(path: string, minFree = 0, onCopyFault?: (fault: CopyFault) => void): Store {
  return new LmdbStore(path, openDatabases(path), new DiskSpace(path, minFree), onCopyFault);
}

/** The embedded store. */
class LmdbStore implements Store {
  readonly #transactions: Transactions;
  readonly #lookUps: LookUps;
  readonly #copyWatch: CopyWatch | null;
  readonly #lists: Lists;

  constructor(
    path: string,
    dbs: Databases,
    space: DiskSpace,
    onCopyFault: ((fault: CopyFault) => void) | undefined,
  ) {
    this.#transactions = new Transactions(dbs, space);
    this.#lookUps = new LookUps(dbs);
    this.#copyWatch =
      onCopyFault === undefined
        ? null
        : new CopyWatch(path, dbs, (fault) => {
            if (fault.kind === 'replaced')
              this.#transactions.refuse(`the files of ${path} were replaced while in use`);
            onCopyFault(fault);
          });
    this.#lists = new Lists(this.#transactions);
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
    return this.#transactions.read((dbs) => readUserByLogin(dbs, loginKey(login)));
  }

  async listCustomers(): Promise<Customer[]> {
    return this.#lists.customers();
  }

  async listServices(customerId: string): Promise<Service[]> {
    return this.#lists.services(customerId);
  }

  async listUsers(customerId: string): Promise<User[]> {
    return this.#lists.users(customerId);
  }

  async listPendingDeletions(): Promise<string[]> {
    return this.#lists.keys('pendingDeletions');
  }

  async change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined> {
    const isReserved = this.#transactions.read((dbs) => addsNothing(dbs, changes));
    const apply = (dbs: Databases) => applyChanges(dbs, changes, now);
    return isReserved ? this.#transactions.remove(apply) : this.#transactions.write(apply);
  }

  getPasswordCost(): number {
    return this.#transactions.read(({ meta }) => meta.get(PASSWORD_COST) ?? 0);
  }

  async createToken(token: Token, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs) {
    return this.#transactions.write((dbs) => createToken(dbs, token, owner, limits, now));
  }

  filterNewDigests(digests: readonly string[]): string[] {
    return this.#transactions.read((dbs) => digests.filter((digest) => isNewDigest(dbs, digest)));
  }

  getToken(id: string): TokenWithUse | undefined {
    return this.#transactions.read((dbs) => readTokenWithUse(dbs, id));
  }

  async listTokensOfUser(userId: string): Promise<TokenWithUse[]> {
    return this.#lists.tokens([userId]);
  }

  async listTokensOfCustomer(customerId: string): Promise<TokenWithUse[]> {
    return this.#lists.tokensOfCustomer(customerId);
  }

  async hasTokensOfCustomer(customerId: string, count: number): Promise<boolean> {
    if (this.#transactions.read(countTokens) < count) return false;
    return (await this.#lists.countTokens(customerId)) >= count;
  }

  async revokeTokens(ids: readonly string[]): Promise<string[]> {
    return this.#transactions.remove((dbs) => revokeTokens(dbs, ids));
  }

  async createSession(session: Session, owner: VerifiedOwner, maxPerUser: number | null) {
    return this.#transactions.write((dbs) => createSession(dbs, session, owner, maxPerUser));
  }

  async listSessions(userId: string): Promise<Session[]> {
    return this.#lists.sessions(userId);
  }

  async endSession(digest: string): Promise<boolean> {
    return this.#transactions.remove((dbs) => removeSession(dbs, digest));
  }

  async endSessionsOfUser(userId: string, except?: string): Promise<number> {
    return this.#transactions.remove((dbs) => {
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

  async listRevokedDigests(): Promise<string[]> {
    return this.#lists.keys('revoked');
  }

  async addRevokedDigests(digests: readonly string[]): Promise<void> {
    this.#transactions.remove(({ revoked }) => {
      for (const digest of digests) revoked.putSync(digest, true);
    });
  }

  attemptHeldUntil(limits: readonly AttemptLimit[], now: EpochMs): EpochMs {
    return this.#transactions.read((dbs) => attemptHeldUntil(dbs, limits, now));
  }

  async reserveAttempt(limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs> {
    return this.#transactions.write((dbs) => reserveAttempt(dbs, limits, now));
  }

  async settleAttempt(settlement: Settlement, now: EpochMs): Promise<void> {
    this.#transactions.write((dbs) => settleAttempt(dbs, settlement, now));
  }

  listKnownAddresses(account: string, now: EpochMs): string[] {
    return this.#transactions.read((dbs) =>
      readKnownAddresses(dbs, account, now).map(({ address }) => address),
    );
  }

  async grantSudo(owner: VerifiedOwner, credentialId: string, until: EpochMs) {
    return this.#transactions.write((dbs) => {
      if (!isAsVerified(readUser(dbs, owner.id), owner)) return 'owner_changed';
      addSudo(dbs, owner.id, credentialId, until);
      return 'granted';
    });
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
    const due: ExpiryKey[] = [];
    await this.#transactions.scan(
      ({ expiry }) => expiry,
      [expiredRange(now)],
      (_dbs, key) => {
        if (isDue(key, tokensBefore)) due.push(key);
        return due.length < limit ? undefined : 'stop';
      },
    );
    let removed = 0;
    const remove = (dbs: Databases, key: ExpiryKey): void =>
      void (removed += Number(removeExpired(dbs, key)));
    await this.#transactions.writeInParts(due, remove, 'removal');
    return removed;
  }

  /** Opening it did. */
  async begin(purpose?: 'restore'): Promise<void> {
    if (purpose !== 'restore' && this.isRestoring()) throw new StoreUnusable(UNFINISHED_RESTORE);
  }

  isRestoring(): boolean {
    return this.#transactions.read(({ meta }) => meta.doesExist(RESTORING));
  }

  async setRestoring(restoring: boolean): Promise<void> {
    this.#transactions.write(({ meta }) => {
      if (restoring) meta.putSync(RESTORING, Date.now());
      else meta.removeSync(RESTORING);
    });
  }

  async probe(): Promise<void> {
    this.#transactions.read((dbs) => dbs.meta.get('format'));
  }

  async probeWrite(): Promise<void> {
    this.#transactions.write(({ meta }) => meta.putSync('probe', Date.now()));
  }

  async close(): Promise<void> {
    this.#copyWatch?.close();
    await this.#transactions.close();
  }
}
