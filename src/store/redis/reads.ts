import type { Session } from '../../domain/session.js';
import type { TokenWithUse } from '../token-store.js';
import { BATCH } from './batches.js';
import type { RedisClient } from './client.js';
import { sessionsWithUses, tokensWithUses } from './records.js';

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

  /**
   * The members of a set, in pages, so that a large one never holds Redis for long. Each that is there all the while is
   * returned; another server has cursors of its own, so that it is begun anew behind a failover.
   */
  async members(name: string): Promise<string[]> {
    let found = new Set<string>();
    let pagesOf = '';
    for (let cursor = '0'; ;) {
      const [next, server, page] = (await this.#client.script('members', name, cursor)) as [
        string,
        string,
        string[],
      ];
      if (cursor !== '0' && server !== pagesOf) {
        found = new Set();
        cursor = '0';
        continue;
      }
      for (const member of page) found.add(member);
      if (next === '0') return [...found];
      [cursor, pagesOf] = [next, server];
    }
  }

  /** A record; undefined when it is not there. */
  async record<T>(name: string, from: (text: string) => T): Promise<T | undefined> {
    const found = await this.text(name);
    return found === null ? undefined : from(found);
  }

  /** Those records of a kind that are there. @param kind the beginning of their names */
  async records<T>(ids: readonly string[], kind: string, from: (text: string) => T): Promise<T[]> {
    const all: T[] = [];
    const names = ids.map((id) => kind + id);
    for await (const found of this.#answers('getAll', names)) all.push(...found.map(from));
    return all;
  }

  /** Those tokens of some ids that are there. */
  async tokens(ids: readonly string[]): Promise<TokenWithUse[]> {
    const found: TokenWithUse[] = [];
    for await (const texts of this.#answers('readTokens', ids)) found.push(...tokensWithUses(texts));
    return found;
  }

  /** Those sessions of some digests that are there. */
  async sessions(digests: readonly string[]): Promise<Session[]> {
    const found: Session[] = [];
    for await (const texts of this.#answers('readSessions', digests)) found.push(...sessionsWithUses(texts));
    return found;
  }

  /** The answers of a script that reads records until they are many bytes, and says how many it was through with. */
  async *#answers(
    script: 'getAll' | 'readTokens' | 'readSessions',
    names: readonly string[],
  ): AsyncGenerator<string[]> {
    for (let done = 0; done < names.length;) {
      const some = names.slice(done, done + BATCH);
      const [count, texts] = (await this.#client.script(script, ...some)) as [number, string[]];
      done += count;
      yield texts;
    }
  }
}
