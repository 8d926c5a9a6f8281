// src/store/redis: the key-value interface of `core` in Redis: connections, and Lua scripts.
// May import what store may.
// The store in Redis or Valkey: records as strings, indexes as sorted sets.

import type { EpochMs } from '../../util/time.js';
import {
  type Changing,
  type Commit,
  type Count,
  type Followed,
  type Key,
  KnownRecords,
  type Kv,
  type Member,
  type Range,
  type ReadAndCounted,
  type Revision,
  type Stored,
  type Touch,
} from '../core/kv.js';
import { partsOf } from '../../util/collections.js';
import type { RedisClient } from './client.js';
import { BATCH, type ScriptName } from './scripts.js';
import type { MasterSession } from './session.js';

/** Runs scripts: on the master, or on a session with one that is not in use yet. */
type Run = (name: ScriptName, ...args: (string | number)[]) => Promise<unknown>;

export class RedisKv implements Kv {
  readonly urgent: Kv;
  readonly #run: Run;
  /** Whether records that a failover lost are reported as missing. */
  readonly #reportsLost: boolean;
  readonly #changing: Changing;
  readonly #close: () => Promise<void>;
  readonly #known: KnownRecords;

  private constructor(
    run: Run,
    known: KnownRecords,
    changing: Changing,
    { urgent, reportsLost = false }: { readonly urgent?: Run; readonly reportsLost?: boolean },
    close: () => Promise<void> = async () => undefined,
  ) {
    this.urgent = urgent === undefined ? this : new RedisKv(urgent, known, changing, {});
    this.#known = known;
    this.#run = run;
    this.#reportsLost = reportsLost;
    this.#changing = changing;
    this.#close = close;
  }

  static of(client: RedisClient): RedisKv {
    return new RedisKv(
      async (name, ...args) => client.script(name, args),
      new KnownRecords(() => client.held),
      async (change, make) => client.events.changing(change, make),
      { urgent: async (name, ...args) => client.script(name, args, 'urgent') },
      async () => client.close(),
    );
  }

  /** For a master that is being adopted: what it lost is written again. */
  static on(client: RedisClient, session: MasterSession): RedisKv {
    const run: Run = async (name, ...args) => client.scriptOn(session, name, ...args);
    return new RedisKv(run, new KnownRecords(), async (_, make) => make(), { reportsLost: true });
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

  async readAndCount(keys: readonly Key[], counts: readonly Count[]): Promise<ReadAndCounted> {
    const asked = counts.flatMap(({ index, from }) => [index, from ?? '-inf']);
    const [texts, found] = (await this.#run('readAndCount', keys.length, ...keys, ...asked)) as [
      (string | null)[],
      number[],
    ];
    return { found: texts.map((text, i) => this.#known.get(keys[i] as Key, text)), counts: found };
  }

  async range(index: string, { from, to, after, before, limit = Infinity }: Range): Promise<Member[]> {
    const found: Member[] = [];
    let last = after;
    while (found.length < limit) {
      const most = Math.min(BATCH, limit - found.length);
      const page = await this.#page(index, { ...ends(from, to), after: last, before }, most);
      found.push(...page);
      last = page.at(-1);
      if (page.length < most) break;
    }
    return found;
  }

  async #page(
    index: string,
    {
      from,
      to,
      after,
      before,
    }: { from: string; to: string; after: Member | undefined; before: Member | undefined },
    most: number,
  ): Promise<Member[]> {
    if (before !== undefined) {
      const names = await this.#run('rangeBetween', index, after?.name ?? '', before.name, most);
      return (names as string[]).map((name) => ({ name, score: before.score }));
    }
    const rows =
      after === undefined
        ? await this.#run('range', index, from, to, 0, most)
        : await this.#run('rangeAfter', index, after.score, after.name, to === '+inf' ? 'inf' : to, most);
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
    return this.#changing(change, async () => this.#commit(change));
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
    if (!this.#reportsLost) await this.#run('confirmMissing');
  }

  async clock(): Promise<EpochMs> {
    const now = (await this.#run('clock')) as string;
    // A user of Redis without a permission for TIME gets no answer.
    return now === '' ? Date.now() : Number(now);
  }

  tidy(): void {
    // Marks expire by themselves.
  }

  async close(): Promise<void> {
    await this.#close();
  }
}

function ends(from: number | undefined, to: number | undefined): { from: string; to: string } {
  return { from: String(from ?? '-inf'), to: String(to ?? '+inf') };
}
