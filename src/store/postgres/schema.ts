/**
 * The tables and functions in PostgreSQL. None of them knows what is in a record. Every statement
 * names its schema, and depends on no session: a connection pooler may send each over another one.
 */
import { createHash } from 'node:crypto';

/** Version of the tables. Another one is refused. */
export const FORMAT = 1;
/** The record that marks a store; its revision is the format. */
export const META = 'meta';
/** The record whose revision numbers the notifications. */
export const FEED = 'feed';
/** Prefix of the records that mark a change as made, or with the revision 0 as given up. */
const MARK = 'done:';
/** How long a mark is kept; far longer than anyone asks for it. */
const MARK_KEPT = '10 minutes';
/** Longest wait for a lock of another change. The client gives up earlier by default. */
const LOCK_TIMEOUT = '5s';
/** Most bytes of names in one notification, which holds less than 8000, and of one name. */
const MOST_NOTIFIED = 7_000;
export const MAX_NAME = 900;
/** Members of the class of advisory locks: `KEY_LOCKS` for keys, and one to create the tables. */
const KEY_LOCKS = 256;

/** The names and statements of a store in a schema, whose name is safe to write. */
export class Schema {
  readonly name: string;
  readonly records: string;
  readonly members: string;
  readonly channel: string;
  /** The function that makes a change. Its name changes with its text, so that versions differ. */
  readonly commit: string;

  constructor(name: string) {
    this.name = name;
    this.records = `"${name}".records`;
    this.members = `"${name}".members`;
    this.channel = `${name}_changes`;
    this.commit = `"${name}".commit_${createHash('sha1').update(this.#commitBody).digest('hex').slice(0, 8)}`;
  }

  /** Creates what is missing, in one transaction. */
  get creation(): string {
    return `
SELECT pg_advisory_xact_lock(${this.#lockClass}, ${KEY_LOCKS});
DO $do$ BEGIN
  IF to_regnamespace('"${this.name}"') IS NULL THEN CREATE SCHEMA "${this.name}"; END IF;
  IF to_regclass('${this.records}') IS NULL THEN
    CREATE TABLE ${this.records} (
      key text COLLATE "C" PRIMARY KEY, rev bigint NOT NULL, ref text COLLATE "C", value text NOT NULL, expires_at timestamptz
    ) WITH (fillfactor = 80);
    CREATE INDEX ON ${this.records} (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE ${this.members} (
      index text COLLATE "C", member text COLLATE "C", score double precision NOT NULL, PRIMARY KEY (index, member)
    );
    CREATE INDEX ON ${this.members} (index, score, member);
    CREATE SEQUENCE "${this.name}".revisions;
    INSERT INTO ${this.records} (key, rev, value) VALUES ('${META}', ${FORMAT}, ''), ('${FEED}', 0, '');
  END IF;
  IF to_regproc('${this.commit}') IS NULL THEN
    CREATE FUNCTION ${this.commit}(
      mark text, expected text[], revisions bigint[], put text[], refs text[], vals text[],
      indexes text[], names text[], scores double precision[], told text[], watched text[],
      betweens text[], afters text[], befores text[]
    ) RETURNS bigint LANGUAGE plpgsql SET lock_timeout = '${LOCK_TIMEOUT}' AS $commit$${this.#commitBody}$commit$;
  END IF;
END $do$`;
  }

  /** Gives a change up unless it was made. Returns its revision, or 0. It also waits for replicas. */
  get giveUp(): string {
    return `
INSERT INTO ${this.records} AS r (key, rev, value, expires_at) VALUES ('${MARK}' || $1, 0, '', now() + interval '${MARK_KEPT}')
ON CONFLICT (key) DO UPDATE SET expires_at = excluded.expires_at RETURNING r.rev`;
  }

  /** Writes uses, unless a later one is stored, of records that exist: none of these ends meanwhile. */
  get touch(): string {
    return `
WITH used AS MATERIALIZED (SELECT key FROM ${this.records} WHERE key = ANY($4::text[]) ORDER BY key FOR KEY SHARE)
INSERT INTO ${this.records} AS r (key, rev, value)
SELECT t.key, t.at, t.value FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) AS t(key, at, value, of)
WHERE t.of IN (SELECT key FROM used) ORDER BY t.key
ON CONFLICT (key) DO UPDATE SET rev = excluded.rev, value = excluded.value WHERE r.rev < excluded.rev`;
  }

  get removeExpired(): string {
    return `DELETE FROM ${this.records} WHERE expires_at < now()`;
  }

  get #lockClass(): string {
    return `hashtext('latchkey ${this.name}')`;
  }

  /**
   * Makes a change. Returns its revision; null if a record has another one than expected.
   *
   * Records are locked in the order of their keys. What is not there cannot be locked, so keys that
   * are expected so or may be added share some locks, which come first.
   */
  get #commitBody(): string {
    return `
DECLARE
  revision bigint;
  notification bigint;
  part text;
BEGIN
  IF NOT EXISTS (SELECT FROM ${this.records} WHERE key = '${META}') THEN
    RAISE undefined_table USING MESSAGE = 'the store is empty';
  END IF;
  PERFORM pg_advisory_xact_lock(${this.#lockClass}, l.number) FROM (
    SELECT DISTINCT hashtext(key) & ${KEY_LOCKS - 1} AS number FROM (
      SELECT e.key FROM unnest(expected, revisions) AS e(key, rev) WHERE e.rev IS NULL
      UNION SELECT p.key FROM unnest(put, vals) AS p(key, value) WHERE p.value IS NOT NULL
        AND p.key NOT IN (SELECT e.key FROM unnest(expected, revisions) AS e(key, rev) WHERE e.rev IS NOT NULL)
    ) AS k ORDER BY number
  ) AS l;
  PERFORM FROM ${this.records} WHERE key = ANY(expected || put) ORDER BY key FOR UPDATE;
  IF EXISTS (
    SELECT FROM unnest(expected, revisions) AS e(key, rev) LEFT JOIN ${this.records} AS r ON r.key = e.key
    WHERE r.rev IS DISTINCT FROM e.rev
  ) THEN RETURN NULL; END IF;
  IF EXISTS (
    SELECT FROM unnest(betweens, afters, befores) AS n(index, after, before)
    JOIN ${this.members} AS m ON m.index = n.index AND m.member > n.after AND m.member < n.before
  ) THEN RETURN NULL; END IF;
  revision := nextval('"${this.name}".revisions');
  told := told || ARRAY(SELECT to_json(key)::text FROM ${this.records} WHERE key = ANY(watched));
  DELETE FROM ${this.records} WHERE key IN (SELECT p.key FROM unnest(put, vals) AS p(key, value) WHERE p.value IS NULL);
  INSERT INTO ${this.records} (key, rev, ref, value)
    SELECT p.key, revision, p.ref, p.value FROM unnest(put, refs, vals) AS p(key, ref, value)
    WHERE p.value IS NOT NULL ORDER BY p.key
    ON CONFLICT (key) DO UPDATE SET rev = excluded.rev, ref = excluded.ref, value = excluded.value;
  DELETE FROM ${this.members} AS m USING unnest(indexes, names, scores) AS l(index, name, score)
    WHERE m.index = l.index AND m.member = l.name AND l.score IS NULL;
  INSERT INTO ${this.members} AS m (index, member, score)
    SELECT l.index, l.name, CASE l.score WHEN 'NaN' THEN revision ELSE l.score END
    FROM unnest(indexes, names, scores) AS l(index, name, score) WHERE l.score IS NOT NULL ORDER BY l.index, l.name
    ON CONFLICT (index, member) DO UPDATE SET score = excluded.score WHERE m.score <> excluded.score;
  INSERT INTO ${this.records} (key, rev, value, expires_at)
    VALUES ('${MARK}' || mark, revision, '', now() + interval '${MARK_KEPT}');
  -- Last, because from here on changes that tell something follow one another.
  FOR part IN
    SELECT string_agg(name, ',' ORDER BY n) FROM (
      SELECT name, n, sum(octet_length(name) + 1) OVER (ORDER BY n) / ${MOST_NOTIFIED} AS place
      FROM unnest(told) WITH ORDINALITY AS t(name, n)
    ) AS p GROUP BY place ORDER BY place
  LOOP
    UPDATE ${this.records} SET rev = rev + 1 WHERE key = '${FEED}' RETURNING rev INTO notification;
    PERFORM pg_notify('${this.channel}', notification || ' [' || part || ']');
  END LOOP;
  RETURN revision;
END`;
  }
}
