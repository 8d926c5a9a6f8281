import type { Session } from '../domain/session.js';
import type { SigningKeys } from '../domain/signing-key.js';
import { digestOf } from '../domain/secret.js';
import type { EpochMs } from '../domain/time.js';
import type { Token } from '../domain/token.js';
import { type Customer, loginKey, type Service, type User } from '../domain/user.js';
import { batches } from './redis/batches.js';
import { beginStore } from './redis/begin.js';
import { changeOf, IMPORT_BATCH } from './redis/change.js';
import { RedisClient } from './redis/client.js';
import {
  customerFrom,
  serviceFrom,
  sessionFrom,
  signingKeysFrom,
  sudoFrom,
  text,
  tokenFrom,
  tokensWithUses,
  useRows,
  userFrom,
} from './redis/records.js';
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

  constructor(client: RedisClient) {
    this.client = client;
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
    return Number((await this.#get('legacy_keys')) ?? 0) > 0;
  }

  async getCustomer(id: string): Promise<Customer | undefined> {
    return this.#read(`customer:${id}`, customerFrom);
  }

  async getService(id: string): Promise<Service | undefined> {
    return this.#read(`service:${id}`, serviceFrom);
  }

  async getUser(id: string): Promise<User | undefined> {
    return this.#read(`user:${id}`, userFrom);
  }

  async getUserByLogin(login: string): Promise<User | undefined> {
    const id = await this.#get(`login:${loginKey(login)}`);
    return id === null ? undefined : this.getUser(id);
  }

  async listCustomers(): Promise<Customer[]> {
    return this.#readAll(await this.#members('customers'), 'customer:', customerFrom);
  }

  async listServices(customerId: string): Promise<Service[]> {
    return this.#readAll(await this.#members(`services:${customerId}`), 'service:', serviceFrom);
  }

  async listUsers(customerId: string): Promise<User[]> {
    return this.#readAll(await this.#members(`users:${customerId}`), 'user:', userFrom);
  }

  /**
   * All or none. Many tokens are imported in batches, so that Redis is not held for seconds: everything else is checked
   * before, and they are taken back when the rest is refused in the end.
   */
  async change(changes: Changes, now: EpochMs): Promise<ChangeRefused | undefined> {
    const { tokens = [] } = changes;
    if (tokens.length <= IMPORT_BATCH) return this.#change(changes, now, false);
    const refused = await this.#change(changes, now, true);
    if (refused !== undefined) return refused;
    const added = await this.#import(tokens);
    const late = await this.#change({ ...changes, tokens: [] }, now, false);
    if (late !== undefined) await this.#removeTokens(added);
    return late;
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
    return (await this.#tokens([id]))[0];
  }

  async listTokensOfUser(userId: string): Promise<TokenWithUse[]> {
    return this.#tokens(await this.#members(`tokens:${userId}`));
  }

  async listTokensOfCustomer(customerId: string): Promise<TokenWithUse[]> {
    const tokens: TokenWithUse[] = [];
    for (const userId of await this.#members(`users:${customerId}`))
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
    for (const digest of await this.#members(`sessions:${userId}`)) {
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
    return Number((await this.#get(`otp:${userId}`)) ?? -1);
  }

  async listRevokedDigests(): Promise<string[]> {
    return this.#members('revoked');
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
    return this.#read('signing_keys', signingKeysFrom);
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
    await this.#get('meta');
  }

  async close(): Promise<void> {
    await this.client.close();
  }

  async #change(changes: Changes, now: EpochMs, checkOnly: boolean): Promise<ChangeRefused | undefined> {
    const answer = (await this.client.script('change', changeOf(changes, checkOnly), now)) as string;
    return answer === '' ? undefined : (JSON.parse(answer) as ChangeRefused);
  }

  async #import(tokens: readonly Token[]): Promise<string[]> {
    const added: string[] = [];
    for (const some of batches(tokens))
      added.push(...((await this.client.script('importTokens', ...some.map(text))) as string[]));
    return added;
  }

  async #removeTokens(ids: readonly string[]): Promise<void> {
    for (const some of batches(ids)) await this.client.script('removeTokens', ...some);
  }

  async #tokens(ids: readonly string[]): Promise<TokenWithUse[]> {
    const found: TokenWithUse[] = [];
    for (const some of batches(ids))
      found.push(...tokensWithUses((await this.client.script('readTokens', ...some)) as string[]));
    return found;
  }

  async #get(name: string): Promise<string | null> {
    return (await this.client.script('get', name)) as string | null;
  }

  async #members(name: string): Promise<string[]> {
    return (await this.client.script('members', name)) as string[];
  }

  async #read<T>(name: string, from: (text: string) => T): Promise<T | undefined> {
    const found = await this.#get(name);
    return found === null ? undefined : from(found);
  }

  async #readAll<T>(ids: readonly string[], kind: string, from: (text: string) => T): Promise<T[]> {
    const all: T[] = [];
    for (const some of batches(ids)) {
      const found = (await this.client.script('getAll', ...some.map((id) => kind + id))) as (string | null)[];
      for (const each of found) if (each !== null) all.push(from(each));
    }
    return all;
  } // prettier-ignore
}
