import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, loginKey, type Service, type User } from '../domain/user.js';
import { batches } from './redis/batches.js';
import { beginStore } from './redis/begin.js';
import { applyChanges } from './redis/change.js';
import { RedisClient } from './redis/client.js';
import {
  customerFrom,
  serviceFrom,
  sessionFrom,
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
  LoginFailures,
  SessionWithOwner,
  Store,
  TokenWithOwner,
  TokenWithUse,
  Uses,
} from './store.js';

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

  async change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined> {
    return applyChanges(this.client, changes, now);
  }

  async createToken(token: Token, maxPerUser: number | null, now: EpochMs) {
    const result = await this.client.script('createToken', text(token), maxPerUser ?? '', now);
    return result as 'created' | 'limit_reached' | 'owner_gone';
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

  async revokeTokens(ids: readonly string[]): Promise<string[]> {
    if (ids.length === 0) return [];
    return (await this.client.script('revoke', ...new Set(ids))) as string[];
  }

  async createSession(session: Session): Promise<void> {
    await this.client.script('createSession', text(session));
  }

  async listSessions(userId: string): Promise<Session[]> {
    const sessions: Session[] = [];
    for (const digest of await this.#reads.members(`sessions:${userId}`)) {
      const found = await this.findSession(digest);
      if (found !== undefined) sessions.push(found.session);
    }
    return sessions;
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

  async getLoginFailures(key: string, now: EpochMs): Promise<LoginFailures | undefined> {
    const [count, lastAt, forgetAt] = (await this.client.script('readFailure', digestOf(key))) as (
      string | null
    )[];
    if (count == null || Number(forgetAt) <= now) return undefined;
    return { count: Number(count), lastAt: Number(lastAt) };
  }

  async addLoginFailure(key: string, now: EpochMs, forgetAt: EpochMs): Promise<LoginFailures> {
    const count = (await this.client.script('addFailure', digestOf(key), now, forgetAt)) as number;
    return { count, lastAt: now };
  }

  async clearLoginFailures(key: string): Promise<void> {
    await this.client.script('clearFailures', digestOf(key));
  }

  async grantSudo(userId: string, credentialId: string, until: EpochMs, now: EpochMs): Promise<void> {
    await this.client.script('grantSudo', userId, credentialId, text({ until }), now);
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
    return (await this.client.script('removeExpired', now, tokensBefore, limit)) as number;
  }

  async begin(): Promise<void> {
    await beginStore(this.client);
  }

  async probe(): Promise<void> {
    await this.#reads.text('meta');
  }

  async close(): Promise<void> {
    await this.client.close();
  }
}
