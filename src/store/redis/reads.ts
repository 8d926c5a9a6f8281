import type { TokenWithUse } from '../store.js';
import { batches } from './batches.js';
import type { RedisClient } from './client.js';
import { tokensWithUses } from './records.js';

/** What is read by its name. */
export class Reads {
  readonly #client: RedisClient;

  constructor(client: RedisClient) {
    this.#client = client;
  }

  /** A text; null when it is not there. */
  async text(name: string): Promise<string | null> {
    return (await this.#client.script('get', name)) as string | null;
  }

  /** The members of a set. */
  async members(name: string): Promise<string[]> {
    return (await this.#client.script('members', name)) as string[];
  }

  /** A record; undefined when it is not there. */
  async record<T>(name: string, from: (text: string) => T): Promise<T | undefined> {
    const found = await this.text(name);
    return found === null ? undefined : from(found);
  }

  /** Those records of a kind that are there. @param kind the beginning of their names */
  async records<T>(ids: readonly string[], kind: string, from: (text: string) => T): Promise<T[]> {
    const all: T[] = [];
    for (const some of batches(ids)) {
      const names = some.map((id) => kind + id);
      const found = (await this.#client.script('getAll', ...names)) as (string | null)[];
      for (const each of found) if (each !== null) all.push(from(each));
    }
    return all;
  }

  /** Those tokens of some ids that are there. */
  async tokens(ids: readonly string[]): Promise<TokenWithUse[]> {
    const found: TokenWithUse[] = [];
    for (const some of batches(ids))
      found.push(...tokensWithUses((await this.#client.script('readTokens', ...some)) as string[]));
    return found;
  }
}
