// src/store/postgres: the key-value interface of `core` in PostgreSQL: two tables, and a function that makes a change.
// May import what store may.
// The store in PostgreSQL: records and members of indexes in two tables.

import { CHANGED_KEYS } from '../endings.js';
import type { EpochMs } from '../../util/time.js';
import { DECLARED, keyOf, LEGACY_KEYS, QUESTION, TOKEN, USER } from '../core/kinds.js';
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
import { emptied, type PostgresClient } from './client.js';
import { MAX_NAME, META } from './schema.js';

/** Prefix of what a change announces, beside keys of changed records. */
export const ANNOUNCED = 'ended:';
/** Last uses that are written at once: they wait for one another. */
const TOUCHED_AT_ONCE = 500;
/** Keys of which a change is announced even if there was no record before. */
const ALWAYS = [keyOf(USER, ''), keyOf(QUESTION, '')];
const TOKENS = keyOf(TOKEN, '');

export class PostgresKv implements Kv {
  readonly urgent = this;
  readonly #client: PostgresClient;
  readonly #known = new KnownRecords();

  constructor(client: PostgresClient) {
    this.#client = client;
  }

  async read(keys: readonly Key[]): Promise<(Stored | undefined)[]> {
    if (keys.length === 0) return [];
    const { records } = this.#client.schema;
    const rows = await this.#client.query(
      `SELECT ${textIn('r')} FROM ${records} AS m CROSS JOIN unnest($1::text[]) WITH ORDINALITY AS k(key, place)
       LEFT JOIN ${records} AS r ON r.key = k.key WHERE m.key = '${META}' ORDER BY k.place`,
      [keys.map(escaped)],
    );
    if (rows.length === 0) throw emptied();
    return keys.map((key, i) => this.#known.get(key, rows[i]?.[0] as string | null));
  }

  async follow(key: Key, beside: Key = ''): Promise<Followed> {
    const { records } = this.#client.schema;
    const [row] = await this.#client.query(
      `SELECT ${['u', 'a', 'b', 'c'].map(textIn).join()} FROM ${records} AS m LEFT JOIN ${records} AS u ON u.key = $2
       LEFT JOIN ${records} AS a ON a.key = $1 LEFT JOIN ${records} AS b ON b.key = a.ref
       LEFT JOIN ${records} AS c ON c.key = b.ref WHERE m.key = '${META}'`,
      [escaped(key), escaped(beside)],
    );
    if (row === undefined) throw emptied();
    const [used, ...texts] = row as (string | null)[];
    const chain = this.#known.chain(
      key,
      texts.filter((text) => text !== null),
    );
    return { chain, beside: this.#known.get(beside, used ?? null) };
  }

  recent(key: Key): { readonly stored: Stored | undefined } | undefined {
    return this.#known.recent(key);
  }

  async count(index: string, from = -Infinity): Promise<number> {
    const [row] = await this.#client.query(
      `SELECT count(*) FROM ${this.#client.schema.members} WHERE index = $1 AND score >= $2`,
      [escaped(index), from],
    );
    return Number(row?.[0]);
  }

  async range(index: string, { from, to, after, before, limit }: Range): Promise<Member[]> {
    const values: unknown[] = [escaped(index)];
    const value = (given: unknown) => `$${values.push(given)}`;
    const bounds = [
      from === undefined ? '' : ` AND score >= ${value(from)}`,
      to === undefined ? '' : ` AND score <= ${value(to)}`,
      after === undefined ? '' : ` AND (score, member) > (${value(after.score)}, ${value(escaped(after.name))})`,
      before === undefined ? '' : ` AND (score, member) < (${value(before.score)}, ${value(escaped(before.name))})`,
    ]; // prettier-ignore
    const rows = await this.#client.query(
      `SELECT member, score FROM ${this.#client.schema.members} WHERE index = $1${bounds.join('')}
       ORDER BY score, member${limit === undefined ? '' : ` LIMIT ${value(limit)}`}`,
      values,
    );
    return rows.map(([name, score]) => ({ name: unescaped(name as string), score: score as number }));
  }

  async scores(index: string, names: readonly string[]): Promise<(number | undefined)[]> {
    const rows = await this.#client.query(
      `SELECT m.score FROM unnest($2::text[]) WITH ORDINALITY AS n(name, place)
       LEFT JOIN ${this.#client.schema.members} AS m ON m.index = $1 AND m.member = n.name ORDER BY n.place`,
      [escaped(index), names.map(escaped)],
    );
    return rows.map(([score]) => (score as number | null) ?? undefined);
  }

  async commit(change: Commit): Promise<Revision | null> {
    return this.#client.changing(change, async () => this.#commit(change));
  }

  async #commit(change: Commit): Promise<Revision | null> {
    const put = [...change.put];
    const links = [...change.link].flatMap(([index, names]) =>
      [...names].map(([name, score]) => [index, name, score] as const),
    );
    const revision = await this.#client.commit([
      [...change.expect.keys()].map(escaped),
      [...change.expect.values()],
      put.map(([key]) => escaped(key)),
      put.map(([, each]) => (each?.ref === undefined ? null : escaped(each.ref))),
      put.map(([, each]) => each && JSON.stringify(each.value)),
      links.map(([index]) => escaped(index)),
      links.map(([, name]) => escaped(name)),
      links.map(([, , score]) => (score === 'revision' ? 'NaN' : score)),
      announcedBy(change).map(announcement),
      put.map(([key]) => key).filter((key) => CHANGED_KEYS.some((start) => key.startsWith(start))),
      change.none.map(({ index }) => escaped(index)),
      change.none.map(({ after }) => escaped(after)),
      change.none.map(({ before }) => escaped(before)),
    ]);
    this.#known.committed(change, revision);
    return revision;
  }

  async touch(uses: readonly Touch[]): Promise<void> {
    // Sessions and tokens apart, so that none is locked in another order than by a change.
    for (const kind of new Set(uses.map(kindOf)))
      for (const some of partsOf(uses.filter((use) => kindOf(use) === kind), TOUCHED_AT_ONCE))
        await this.#client.query(this.#client.schema.touch, [
          some.map(({ key }) => escaped(key)),
          some.map(({ at }) => at),
          some.map(({ value }) => JSON.stringify(value)),
          some.map(({ of }) => escaped(of)),
        ]);
    this.#known.forget(uses.map(({ key }) => key));
  } // prettier-ignore

  confirmMissing(): void {
    // What is acknowledged is as durable as the database makes it.
  }

  async clock(): Promise<EpochMs> {
    const [row] = await this.#client.query('SELECT extract(epoch FROM clock_timestamp()) * 1000');
    return Math.trunc(Number(row?.[0]));
  }

  async tidy(): Promise<void> {
    await this.#client.query(this.#client.schema.removeExpired);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

/** Returns the text of a record as `storedOf` decodes it. */
function textIn(record: string): string {
  return `${record}.rev || '|' || coalesce(${record}.ref, '') || '|' || ${record}.value`;
}

function kindOf({ of }: Touch): string {
  return of.slice(0, of.indexOf(':'));
}

/**
 * Returns what a change announces: what it tells, and keys whose records may be cached as missing.
 * Other changed keys are announced if there was a record. A new token or session was never looked
 * up, so creating one announces nothing: announcements make changes wait for one another.
 */
function announcedBy({ put, link, tell }: Commit): string[] {
  const adds = (index: string) => [...(link.get(index)?.values() ?? [])].some((score) => score !== null);
  const mayBeKnown = adds(LEGACY_KEYS) || adds(DECLARED);
  const keys = [...put.keys()].filter(
    (key) => ALWAYS.some((start) => key.startsWith(start)) || (mayBeKnown && key.startsWith(TOKENS)),
  );
  return [
    ...tell.map((name) => ANNOUNCED + name),
    ...(link.has(LEGACY_KEYS) ? [`index:${LEGACY_KEYS}`] : []),
    ...keys,
  ];
}

/** Encodes a name for a notification. One that is too long stands for all. */
function announcement(name: string): string {
  const text = JSON.stringify(name);
  return Buffer.byteLength(text) > MAX_NAME ? 'null' : text;
}

// oxlint-disable-next-line no-control-regex
const UNSTORABLE = /[\0\u0001]/g;

/** Encodes a key, as PostgreSQL stores no NUL. The order of keys stays. */
function escaped(text: string): string {
  return text.replace(UNSTORABLE, (found) => (found === '\0' ? '\u0001\u0001' : '\u0001\u0002'));
}

function unescaped(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\u0001[\u0001\u0002]/g, (found) => (found === '\u0001\u0001' ? '\0' : '\u0001'));
}
