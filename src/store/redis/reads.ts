import type { Session } from '../../domain/session.js';
import type { TokenWithUse } from '../token-store.js';
import { BATCH } from './batches.js';
import type { RedisClient } from './client.js';
import { sessionWithUse, tokensIn } from './records.js';
import { partsOf } from '../parts.js';

/** Reads values and records by key name. */
export class Reads {
  readonly #client: RedisClient;

  constructor(client: RedisClient) {
    this.#client = client;
  }

  /** Returns a string; null if it does not exist. */
  async text(name: string): Promise<string | null> {
    return (await this.#client.script('get', name)) as string | null;
  }

  /**
   * Returns the members of a set, read in pages; a large set never blocks Redis for long. Members
   * that exist throughout are returned. Cursors are only valid on one server, so the read starts
   * again after a failover.
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

  /** Returns a record; undefined if it does not exist. */
  async record<T>(name: string, from: (text: string, id: string) => T): Promise<T | undefined> {
    const found = await this.text(name);
    return found === null ? undefined : from(found, name.slice(name.indexOf(':') + 1));
  }

  /** Returns those records of a kind that exist. @param kind the prefix of their names */
  async records<T>(
    ids: readonly string[],
    kind: string,
    from: (text: string, id: string) => T,
  ): Promise<T[]> {
    const found: T[] = [];
    const names = ids.map((id) => kind + id);
    for await (const texts of this.#answers('getAll', names))
      for (const [name = '', text = ''] of partsOf(texts, 2)) found.push(from(text, name.slice(kind.length)));
    return found;
  }

  /** Returns those tokens that exist. */
  async tokens(ids: readonly string[]): Promise<TokenWithUse[]> {
    const found: TokenWithUse[] = [];
    for await (const texts of this.#answers('readTokens', ids)) found.push(...tokensIn(texts));
    return found;
  }

  /** Returns those sessions that exist. */
  async sessions(digests: readonly string[]): Promise<Session[]> {
    const found: Session[] = [];
    for await (const texts of this.#answers('readSessions', digests))
      for (const [digest = '', session = '', use = ''] of partsOf(texts, 3))
        found.push(sessionWithUse([digest, session, use]));
    return found;
  }

  /**
   * Yields the answers of a script that stops when its answer is large
   * and says how many names it read.
   */
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
