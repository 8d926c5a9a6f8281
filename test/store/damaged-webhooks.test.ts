import { join } from 'node:path';
import { open } from 'lmdb';
import t, { type Test } from 'tap';
import { readableOf } from '../../src/store/faults.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/store.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { BASE, createToken, NOW, token } from './contract/records.js';

interface Opened {
  readonly store: Store;
  /** Replaces the first event of token A for endpoint `e`, or the oldest dead letter. */
  /** Replaces the first event of token A by {@link NEWER}. */
  readonly makeNewer: () => Promise<void>;
  readonly damages: Record<string, (what: 'queue' | 'dead') => Promise<void>>;
}

/** Damage of a dead letter that spares its event. */
const EVENT_IS_WHOLE = 'without the time of the failure';

/** An event that only a newer Latchkey can send. */
const NEWER = { v: 9, id: 'n', type: 'token.created', subject: 'token:A', at: { of: 'another form' } };

async function lmdb(t: Test): Promise<Opened> {
  const path = join(temporaryFolder(t), 'store');
  const damage = (change: (value: object) => unknown) => async (what: 'queue' | 'dead') => {
    const root = open({ path, maxDbs: 32, overlappingSync: false });
    const db = root.openDB<unknown, string[]>('webhooks', {});
    const first = what === 'queue' ? [what, 'e', 'token:A'] : [what, 'e'];
    const [entry] = db.getRange({ start: first, limit: 1 });
    const { key, value } = entry ?? { key: first, value: {} };
    const changed = change(value as object);
    await (changed === undefined ? db.remove(key) : db.put(key, changed));
    await root.close();
  };
  return {
    store: openLmdbStore(path),
    makeNewer: async () => damage(() => NEWER)('queue'),
    damages: {
      foreign: damage(() => 'garbage'),
      null: damage(() => null),
      incomplete: damage(() => ({ v: 1 })),
      'without a time': damage((value) => ({ ...value, at: 'x', event: {} })),
      [EVENT_IS_WHOLE]: damage((value) => ({ ...value, at: 'x', failedAt: 'x' })),
      'of another token': damage((value) => ({ ...value, subject: 'token:B', event: { id: 'x' } })),
      missing: damage(() => undefined),
    },
  };
}

async function redis(t: Test): Promise<Opened> {
  const { url, cli } = await startRedis(t);
  const keyOf = (what: string) => `{latchkey:}webhooks:e:${what === 'queue' ? 'queue:token:A' : what}`;
  const write = (text: string) => async (what: string) => void cli('LSET', keyOf(what), '0', text);
  return {
    store: await openRedisStore(redisSettings({ url })),
    makeNewer: async () => write(JSON.stringify(NEWER))('queue'),
    damages: {
      foreign: write('garbage'),
      empty: write(''),
      'not text': async (what) => {
        cli('EVAL', "redis.call('LSET', KEYS[1], 0, string.char(255, 0))", '1', keyOf(what));
      },
      null: write('null'),
      incomplete: write('{"v":1}'),
      'without a time': write('{"id":"x","type":"token.created","subject":"token:A","at":"x","event":"{}"}'),
      missing: async (what) => void cli('LPOP', keyOf(what)),
    },
  };
}

const isLost = (kind: string) => kind === 'missing';

for (const [name, make] of Object.entries({ lmdb, redis }))
  t.test(
    `a webhook that cannot be sent is named, and stops no other; damaged ones are removed: ${name}`,
    async (t) => {
      const { store, damages, makeNewer } = await make(t);
      t.teardown(() => store.maintenance.close());
      const { webhooks } = store;
      await store.maintenance.initialize();
      await store.directory.change(BASE, NOW);
      webhooks.subscribe([{ endpoint: 'e', events: ['token.created', 'token.revoked'] }]);
      const lease = (await webhooks.acquire('sender', 60_000)) ?? '';
      const reports: string[] = [];
      const due = async () =>
        readableOf(
          async () => (await webhooks.listDue(lease, 'e', Date.now(), 9)) ?? [],
          ({ message }) => reports.push(message),
        );
      const settleAll = async (kind: 'delivered' | 'dead') => {
        const sent: string[] = [];
        for (let found = await due(); found.length > 0; found = await due())
          for (const { event } of found) {
            const outcome = kind === 'dead' ? { kind, error: 'x' } : { kind };
            t.ok(await webhooks.settle(lease, 'e', event, outcome, Date.now()));
            sent.push(`${event.subject} ${event.type}`);
          }
        return sent;
      };
      const counts = async () => {
        const [{ queued, oldestAt, dead } = { queued: 0, oldestAt: null, dead: 0 }] = await webhooks.status();
        return { queued, oldestAt, dead };
      };

      for (const [kind, damage] of Object.entries(damages)) {
        for (const id of ['A', 'B']) await createToken(store, token(id), null, NOW);
        const [event] = (await due()).map((each) => each.event);
        await damage('queue');
        if (event !== undefined)
          t.notOk(await webhooks.settle(lease, 'e', event, { kind: 'delivered' }, NOW), 'no longer there');
        for (const id of ['A', 'B']) t.ok(await store.tokens.revoke([id]), 'a token can be revoked');
        const others = ['token:B token.created', 'token:A token.revoked', 'token:B token.revoked'];
        t.same((await settleAll('dead')).toSorted(), others.toSorted(), `${kind}: the others are due`);
        t.same(await counts(), { queued: 0, oldestAt: null, dead: 3 });
        if (!isLost(kind)) t.same(reports.splice(0), ['the next event of token:A for e was damaged']);

        await damage('dead');
        const letters = () =>
          readableOf(
            () => webhooks.listDead('e'),
            ({ message }) => reports.push(message),
          );
        t.equal((await letters()).length, 2, 'the other dead letters are listed');
        if (!isLost(kind))
          t.match(reports.splice(0), [/^a dead letter of e is damaged; "latchkey webhook resend/]);
        const [letter] = await letters();
        t.equal(await webhooks.resend('e', [letter?.event.id ?? '']), 1);
        const rest = kind === EVENT_IS_WHOLE ? 2 : 1;
        t.equal(await webhooks.resend('e', null), rest);
        t.same(await counts().then(({ dead }) => dead), 0);
        t.equal((await settleAll('delivered')).length, 1 + rest);
        reports.length = 0;
      }

      for (const id of ['A', 'B']) await createToken(store, token(id), null, NOW);
      await makeNewer();
      t.same(await settleAll('delivered'), ['token:B token.created']);
      t.match(new Set(reports), new Set(['the next event of token:A for e needs a newer Latchkey']));
      t.same((await counts()).queued, 1, 'the event of a newer version stays');
    },
  );
