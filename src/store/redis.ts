import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, loginKey, type Service, type User, type VerifiedOwner } from '../domain/user.js';
import type { AttemptLimit, Settlement } from './attempts.js';
import { batches } from './redis/batches.js';
import { beginStore, RESTORING } from './redis/begin.js';
import { applyChanges } from './redis/change.js';
import { RedisClient } from './redis/client.js';
import {
  customerFrom,
  ownerText,
  serviceFrom,
  sessionFrom,
  sessionsWithUses,
  signingKeysFrom,
  sudoFrom,
  text,
  tokenFrom,
  useRows,
  userFrom,
} from './redis/records.js';
import { Reads } from './redis/reads.js';
import type { RedisSettings } from './redis/settings.js';
import type {
  ChangeRefused,
  Changes,
  SessionWithOwner,
  Store,
  TokenLimits,
  TokenWithOwner,
  TokenWithUse,
  Uses,
} from './store.js';

/** Expired records that one script removes: with the largest ones it holds Redis for 5 ms. */
const EXPIRED_BATCH = 100;

/** Opens the store on Redis or Valkey. It does not need the server to be there yet. */
export async function openRedisStore(settings: RedisSettings): Promise<RedisStore> {
  const client = new RedisClient(settings);
  await client.whenReady();
  return new RedisStore(client);
}

/**
 * The store that several sidecars share.
 *
 * A write is one script, which Redis runs as one step. Whether it survives a crash of Redis is a matter of its own
 * persistence (`appendonly`); see `docs/storage.md`.
 */
export class RedisStore implements Store {
  readonly client: RedisClient;
  readonly #reads: Reads;

  constructor(client: RedisClient) {
    this.client = client;
    this.#reads = new Reads(client);
  }

  async findToken(digest: string): Promise<TokenWithOwner | undefined> {
    const found = (await this.client.script('find', 'token:', digest)) as [string, string] | null;
    return found === null ? undefined : { token: tokenFrom(found[0]), owner: userFrom(found[1]) };
  }

  async findSession(digest: string): Promise<SessionWithOwner | undefined> {
    const found = (await this.client.script('find', 'session:', digest)) as
      [string, string, string | null] | null;
    return found === null
      ? undefined
      : { session: sessionFrom(found[0], found[2]), owner: userFrom(found[1]) };
  }

  async hasLegacyKeys(): Promise<boolean> {
    return Number((await this.#reads.text('legacy_keys')) ?? 0) > 0;
  }

  async getCustomer(id: string): Promise<Customer | undefined> {
    return this.#reads.record(`customer:${id}`, customerFrom);
  }

  async getService(id: string): Promise<Service | undefined> {
    return this.#reads.record(`service:${id}`, serviceFrom);
  }

  async getUser(id: string): Promise<User | undefined> {
    return this.#reads.record(`user:${id}`, userFrom);
  }

  async getUserByLogin(login: string): Promise<User | undefined> {
    const id = await this.#reads.text(`login:${loginKey(login)}`);
    return id === null ? undefined : this.getUser(id);
  }

  async listCustomers(): Promise<Customer[]> {
    return this.#reads.records(await this.#reads.members('customers'), 'customer:', customerFrom);
  }

  async listServices(customerId: string): Promise<Service[]> {
    return this.#reads.records(await this.#reads.members(`services:${customerId}`), 'service:', serviceFrom);
  }

  async listUsers(customerId: string): Promise<User[]> {
    return this.#reads.records(await this.#reads.members(`users:${customerId}`), 'user:', userFrom);
  }

  async listPendingDeletions(): Promise<string[]> {
    return this.#reads.members('pending_deletions');
  }

  async change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined> {
    return applyChanges(this.client, changes, now);
  }

  async getPasswordCost(): Promise<number> {
    return Number((await this.#reads.text('password_cost')) ?? 0);
  }

  async createToken(token: Token, owner: VerifiedOwner, { active, stored }: TokenLimits, now: EpochMs) {
    const args = [text(token), ownerText(owner), active ?? '', stored ?? '', now] as const;
    const result = await this.client.script('createToken', ...args);
    return result as Awaited<ReturnType<Store['createToken']>>;
  }

  async filterNewDigests(digests: readonly string[]): Promise<string[]> {
    const fresh: string[] = [];
    for (const some of batches(digests))
      fresh.push(...((await this.client.script('filterNew', ...some)) as string[]));
    return fresh;
  }

  async getToken(id: string): Promise<TokenWithUse | undefined> {
    return (await this.#reads.tokens([id]))[0];
  }

  async listTokensOfUser(userId: string): Promise<TokenWithUse[]> {
    return this.#reads.tokens(await this.#reads.members(`tokens:${userId}`));
  }

  async listTokensOfCustomer(customerId: string): Promise<TokenWithUse[]> {
    const tokens: TokenWithUse[] = [];
    for (const userId of await this.#reads.members(`users:${customerId}`))
      tokens.push(...(await this.listTokensOfUser(userId)));
    return tokens;
  }

  async hasTokensOfCustomer(customerId: string, count: number): Promise<boolean> {
    if (Number((await this.#reads.text('count:tokens')) ?? 0) < count) return false;
    let missing = count;
    for (const some of batches(await this.#reads.members(`users:${customerId}`)))
      missing -= (await this.client.script('countTokens', ...some)) as number;
    return missing <= 0;
  }

  async revokeTokens(ids: readonly string[]): Promise<string[]> {
    if (ids.length === 0) return [];
    return (await this.client.script('revoke', ...new Set(ids))) as string[];
  }

  async createSession(session: Session, owner: VerifiedOwner, maxPerUser: number | null) {
    const args = [text(session), ownerText(owner), maxPerUser ?? ''] as const;
    const ended = (await this.client.script('createSession', ...args)) as string[] | 'owner_changed';
    return ended === 'owner_changed' ? ended : sessionsWithUses(ended);
  }

  async listSessions(userId: string): Promise<Session[]> {
    return this.#reads.sessions(await this.#reads.members(`sessions:${userId}`));
  }

  async endSession(digest: string): Promise<boolean> {
    return (await this.client.script('endSession', digest)) === 1;
  }

  async endSessionsOfUser(userId: string, except?: string): Promise<number> {
    return (await this.client.script('endSessions', userId, except ?? '')) as number;
  }

  async recordUses(uses: Uses): Promise<void> {
    const rows = [...useRows('token', uses.tokens), ...useRows('session', uses.sessions)];
    for (const some of batches(rows)) await this.client.script('recordUses', ...some.flat());
  }

  async takeOtpStep(userId: string, step: number): Promise<boolean> {
    return (await this.client.script('takeOtpStep', userId, step)) === 1;
  }

  async countWrite(userId: string, hour: EpochMs): Promise<number> {
    return (await this.client.script('countWrite', userId, hour)) as number;
  }

  async getOtpStep(userId: string): Promise<number> {
    return Number((await this.#reads.text(`otp:${userId}`)) ?? -1);
  }

  async listRevokedDigests(): Promise<string[]> {
    return this.#reads.members('revoked');
  }

  async addRevokedDigests(digests: readonly string[]): Promise<void> {
    for (const some of batches(digests)) await this.client.script('addRevoked', ...some);
  }

  async attemptHeldUntil(limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs> {
    return Number(await this.client.script('attemptHeldUntil', limitsText(limits), now));
  }

  async reserveAttempt(limits: readonly AttemptLimit[], now: EpochMs): Promise<EpochMs> {
    return Number(await this.client.script('reserveAttempt', limitsText(limits), now));
  }

  async settleAttempt({ clear, release, remember }: Settlement, now: EpochMs): Promise<void> {
    const known =
      remember === undefined ? {} : { remember: { ...remember, account: digestOf(remember.account) } };
    const settlement = { clear: clear.map(digestOf), release: release.map(digestOf), ...known };
    await this.client.script('settleAttempt', JSON.stringify(settlement), now);
  }

  async listKnownAddresses(account: string, now: EpochMs): Promise<string[]> {
    return (await this.client.script('knownAddresses', digestOf(account), now)) as string[];
  }

  async grantSudo(owner: VerifiedOwner, credentialId: string, until: EpochMs, now: EpochMs) {
    const result = await this.client.script(
      'grantSudo',
      ownerText(owner),
      credentialId,
      text({ until }),
      now,
    );
    return result as 'granted' | 'owner_changed';
  }

  async hasSudo(userId: string, credentialId: string, now: EpochMs): Promise<boolean> {
    const found = (await this.client.script('readSudo', userId, credentialId)) as string | null;
    return found !== null && sudoFrom(found).until > now;
  }

  async getSigningKeys(): Promise<SigningKeys | undefined> {
    return this.#reads.record('signing_keys', signingKeysFrom);
  }

  async replaceSigningKeys(next: SigningKeys): Promise<boolean> {
    return (await this.client.script('replaceSigningKeys', text(next))) === 1;
  }

  async removeSigningKeys(): Promise<boolean> {
    return (await this.client.script('removeSigningKeys')) === 1;
  }

  async countActiveTokens(now: EpochMs): Promise<number> {
    return (await this.client.script('countActive', now)) as number;
  }

  async removeExpired(now: EpochMs, tokensBefore: EpochMs, limit: number): Promise<number> {
    for (let left = limit; left > 0;) {
      const most = Math.min(EXPIRED_BATCH, left);
      const removed = (await this.client.script('removeExpired', now, tokensBefore, most)) as number;
      left -= removed;
      if (removed < most) return limit - left;
    }
    return limit;
  }

  async begin(purpose?: 'restore'): Promise<void> {
    await beginStore(this.client, purpose);
  }

  async isRestoring(): Promise<boolean> {
    return (await this.#reads.text(RESTORING)) !== null;
  }

  async setRestoring(restoring: boolean): Promise<void> {
    await this.client.script('setRestoring', RESTORING, restoring ? Date.now() : '');
  }

  async probe(): Promise<void> {
    await this.client.script('probe', 'meta');
  }

  async probeWrite(): Promise<void> {
    await this.client.script('probeWrite', Date.now());
  }

  async close(): Promise<void> {
    await this.client.close();
  }
}

/** Limits as a script takes them. */
function limitsText(limits: readonly AttemptLimit[]): string {
  return JSON.stringify(limits.map((limit) => ({ ...limit, key: digestOf(limit.key) })));
}
