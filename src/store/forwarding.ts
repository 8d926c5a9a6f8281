import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import type { Changes, Store, Uses } from './store.js';

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
  change(changes: Changes, now: EpochMs) {
    return this.inner.change(changes, now);
  }
  createToken(token: Token, maxPerUser: number | null, now: EpochMs) {
    return this.inner.createToken(token, maxPerUser, now);
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
  revokeTokens(ids: readonly string[]) {
    return this.inner.revokeTokens(ids);
  }
  createSession(session: Session) {
    return this.inner.createSession(session);
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
  getLoginFailures(key: string, now: EpochMs) {
    return this.inner.getLoginFailures(key, now);
  }
  addLoginFailure(key: string, now: EpochMs, forgetAt: EpochMs) {
    return this.inner.addLoginFailure(key, now, forgetAt);
  }
  clearLoginFailures(key: string) {
    return this.inner.clearLoginFailures(key);
  }
  grantSudo(userId: string, credentialId: string, until: EpochMs, now: EpochMs) {
    return this.inner.grantSudo(userId, credentialId, until, now);
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
  begin() {
    return this.inner.begin();
  }
  probe() {
    return this.inner.probe();
  }
  close() {
    return this.inner.close();
  }
}
