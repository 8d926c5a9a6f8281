import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import type { VerifiedOwner } from '../domain/user.js';
import type { AttemptLimit, Settlement } from './attempts.js';
import type { Changes, Store, TokenLimits, Uses } from './store.js';

/** A store in front of another one; what a subclass does not take over is passed on. */
export abstract class ForwardingStore implements Store {
  protected readonly inner: Store;

  constructor(inner: Store) {
    this.inner = inner;
  }

  findToken(digest: string) {
    return this.inner.findToken(digest);
  }
  findSession(digest: string) {
    return this.inner.findSession(digest);
  }
  hasLegacyKeys() {
    return this.inner.hasLegacyKeys();
  }
  getCustomer(id: string) {
    return this.inner.getCustomer(id);
  }
  getService(id: string) {
    return this.inner.getService(id);
  }
  getUser(id: string) {
    return this.inner.getUser(id);
  }
  getUserByLogin(login: string) {
    return this.inner.getUserByLogin(login);
  }
  listCustomers() {
    return this.inner.listCustomers();
  }
  listServices(customerId: string) {
    return this.inner.listServices(customerId);
  }
  listUsers(customerId: string) {
    return this.inner.listUsers(customerId);
  }
  listPendingDeletions() {
    return this.inner.listPendingDeletions();
  }
  change(changes: Changes, now: EpochMs) {
    return this.inner.change(changes, now);
  }
  getPasswordCost() {
    return this.inner.getPasswordCost();
  }
  createToken(token: Token, owner: VerifiedOwner, limits: TokenLimits, now: EpochMs) {
    return this.inner.createToken(token, owner, limits, now);
  }
  filterNewDigests(digests: readonly string[]) {
    return this.inner.filterNewDigests(digests);
  }
  getToken(id: string) {
    return this.inner.getToken(id);
  }
  listTokensOfUser(userId: string) {
    return this.inner.listTokensOfUser(userId);
  }
  listTokensOfCustomer(customerId: string) {
    return this.inner.listTokensOfCustomer(customerId);
  }
  hasTokensOfCustomer(customerId: string, count: number) {
    return this.inner.hasTokensOfCustomer(customerId, count);
  }
  revokeTokens(ids: readonly string[]) {
    return this.inner.revokeTokens(ids);
  }
  createSession(session: Session, owner: VerifiedOwner, maxPerUser: number | null) {
    return this.inner.createSession(session, owner, maxPerUser);
  }
  listSessions(userId: string) {
    return this.inner.listSessions(userId);
  }
  endSession(digest: string) {
    return this.inner.endSession(digest);
  }
  endSessionsOfUser(userId: string, except?: string) {
    return this.inner.endSessionsOfUser(userId, except);
  }
  recordUses(uses: Uses) {
    return this.inner.recordUses(uses);
  }
  takeOtpStep(userId: string, step: number) {
    return this.inner.takeOtpStep(userId, step);
  }
  countWrite(userId: string, hour: EpochMs) {
    return this.inner.countWrite(userId, hour);
  }
  getOtpStep(userId: string) {
    return this.inner.getOtpStep(userId);
  }
  listRevokedDigests() {
    return this.inner.listRevokedDigests();
  }
  addRevokedDigests(digests: readonly string[]) {
    return this.inner.addRevokedDigests(digests);
  }
  attemptHeldUntil(limits: readonly AttemptLimit[], now: EpochMs) {
    return this.inner.attemptHeldUntil(limits, now);
  }
  reserveAttempt(limits: readonly AttemptLimit[], now: EpochMs) {
    return this.inner.reserveAttempt(limits, now);
  }
  settleAttempt(settlement: Settlement, now: EpochMs) {
    return this.inner.settleAttempt(settlement, now);
  }
  listKnownAddresses(account: string, now: EpochMs) {
    return this.inner.listKnownAddresses(account, now);
  }
  grantSudo(owner: VerifiedOwner, credentialId: string, until: EpochMs, now: EpochMs) {
    return this.inner.grantSudo(owner, credentialId, until, now);
  }
  hasSudo(userId: string, credentialId: string, now: EpochMs) {
    return this.inner.hasSudo(userId, credentialId, now);
  }
  getSigningKeys() {
    return this.inner.getSigningKeys();
  }
  replaceSigningKeys(next: SigningKeys) {
    return this.inner.replaceSigningKeys(next);
  }
  removeSigningKeys() {
    return this.inner.removeSigningKeys();
  }
  countActiveTokens(now: EpochMs) {
    return this.inner.countActiveTokens(now);
  }
  removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number) {
    return this.inner.removeExpired(now, tokensBefore, limit);
  }
  begin(purpose?: 'restore') {
    return this.inner.begin(purpose);
  }
  isRestoring() {
    return this.inner.isRestoring();
  }
  setRestoring(restoring: boolean) {
    return this.inner.setRestoring(restoring);
  }
  probe() {
    return this.inner.probe();
  }
  probeWrite() {
    return this.inner.probeWrite();
  }
  close() {
    return this.inner.close();
  }
}
