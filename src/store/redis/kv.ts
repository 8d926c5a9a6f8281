// src/store/redis: the key-value interface of `core` in Redis: connections, and Lua scripts.
// May import what store may.
// The store in Redis or Valkey: records as strings, indexes as sorted sets.

import type { EpochMs } from '../../util/time.js';
import {
  type Commit,
  type Followed,
  type Key,
  KnownRecords,
  type Kv,
  type Member,
  type Range,
  type Revision,
  type Stored,
  type Touch,
} from '../core/kv.js';
import { partsOf } from '../../util/collections.js';
import type { RedisClient } from './client.js';
import { BATCH, type ScriptName } from './scripts.js';
import type { MasterSession } from './session.js';

export class RedisKv implements Kv {
  readonly urgent: Kv;
  readonly #client: RedisClient;
  readonly #session: MasterSession | undefined;
  readonly #known: KnownRecords;
  readonly #isUrgent: boolean;

  /** @param session a master that is being adopted: what it lost is written again */
  constructor(
    client: RedisClient,
    session?: MasterSession,
    known = new KnownRecords(() => session ?? client.held),
    isUrgent = false,
  ) {
    this.#client = client;
    this.#session = session;
    this.#known = known;
    this.#isUrgent = isUrgent;
    this.urgent = isUrgent || session !== undefined ? this : new RedisKv(client, undefined, known, true);
  }

  async read(keys: readonly Key[]): Promise<(Stored | undefined)[]> {
    const found: (Stored | undefined)[] = [];
    while (found.length < keys.length) {
      const some = keys.slice(found.length, found.length + BATCH);
      const texts = (await this.#run('read', ...some)) as (string | null)[];
      for (const [i, text] of texts.entries()) found.push(this.#known.get(some[i] as Key, text));
    }
    return found;
  }

  async follow(key: Key, beside: Key = ''): Promise<Followed> {
    const [used, ...texts] = (await this.#run('follow', beside, key)) as [string | null, ...string[]];
    return { chain: this.#known.chain(key, texts), beside: this.#known.get(beside, used) };
  }

  recent(key: Key): { readonly stored: Stored | undefined } | undefined {
    return this.#known.recent(key);
  }

  async count(index: string, from?: number): Promise<number> {
    return (await this.#run('count', index, from ?? '-inf')) as number;
  }

  async range(index: string, { limit = Infinity, ...range }: Range): Promise<Member[]> {
    const found: Member[] = [];
    while (found.length < limit) {
      const most = Math.min(BATCH, limit - found.length);
      const after = found.at(-1) ?? range.after;
      const page = await this.#page(index, { ...range, ...(after && { after }) }, most);
      found.push(...page);
      if (page.length < most) break;
    }
    return found;
  }

  async #page(index: string, { from, to, after, before }: Range, most: number): Promise<Member[]> {
    if (before !== undefined) {
      const names = await this.#run('rangeBetween', index, after?.name ?? '', before.name, most);
      return (names as string[]).map((name) => ({ name, score: before.score }));
    }
    const rows =
      after === undefined
        ? await this.#run('range', index, from ?? '-inf', to ?? 'inf', most)
        : await this.#run('rangeAfter', index, after.score, after.name, to ?? 'inf', most);
    return partsOf(rows as string[], 2).map(([name = '', score]) => ({ name, score: Number(score) }));
  }

  async scores(index: string, names: readonly string[]): Promise<(number | undefined)[]> {
    const found: (number | undefined)[] = [];
    for (const some of partsOf(names, BATCH)) {
      const scores = (await this.#run('scores', index, ...some)) as (string | null)[];
      found.push(...scores.map((score) => (score === null ? undefined : Number(score))));
    }
    return found;
  }

  async commit(change: Commit): Promise<Revision | null> {
    const make = async () => this.#commit(change);
    return this.#session === undefined ? this.#client.events.changing(change, make) : make();
  }

  async #commit(change: Commit): Promise<Revision | null> {
    const { expect, put, link, tell, none, isReserved } = change;
    const made = await this.#run(
      'commit',
      isReserved ? '1' : '0',
      JSON.stringify([...expect].flatMap(([key, revision]) => [key, revision ?? ''])),
      JSON.stringify(
        [...put].flatMap(([key, each]) => [
          key,
          each?.ref ?? '',
          each === null ? '' : JSON.stringify(each.value),
        ]),
      ),
      JSON.stringify(
        [...link].flatMap(([index, links]) =>
          [...links].flatMap(([name, score]) => [index, name, String(score ?? '')]),
        ),
      ),
      JSON.stringify(tell),
      ...none.flatMap(({ index, after, before }) => [index, after, before]),
    );
    const revision = made === '' ? null : (made as Revision);
    this.#known.committed(change, revision);
    return revision;
  }

  async touch(uses: readonly Touch[]): Promise<void> {
    for (const some of partsOf(uses, BATCH))
      await this.#run(
        'touch',
        ...some.flatMap(({ key, at, value, of }) => [key, at, JSON.stringify(value), of]),
      );
    this.#known.forget(uses.map(({ key }) => key));
  }

  async confirmMissing(): Promise<void> {
    if (this.#session === undefined) await this.#run('confirmMissing');
  }

  async clock(): Promise<EpochMs> {
    return Number(await this.#run('clock'));
  }

  tidy(): void {
    // Marks expire by themselves.
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #run(name: ScriptName, ...args: (string | number)[]): Promise<unknown> {
    if (this.#session !== undefined) return this.#client.scriptOn(this.#session, name, ...args);
    return this.#client.script(name, args, this.#isUrgent ? 'urgent' : undefined);
  }
}
