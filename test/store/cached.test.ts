import t from 'tap';
import { type CacheSettings, cachedStore, TokenCache } from '../../src/store/cache/token-cache.js';
import type { Token } from '../../src/domain/token.js';
import type { User } from '../../src/domain/user.js';
import type { Store } from '../../src/store/core/store.js';
import type { Changing, Commit } from '../../src/store/core/kv.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { Revocations } from '../../src/store/revocations.js';
import type { TokenWithOwner } from '../../src/store/core/token-records.js';
import { movable } from '../helpers/clock.js';
import { NOW, session, token, user } from './contract/records.js';

const NO_LIMITS = { active: null, stored: null };

/** @param revision null for new tokens */
function changeOf(digests: readonly string[], revision: string | null): Commit {
  const keys = digests.map((digest) => `token:${digest}`);
  return {
    expect: new Map(keys.map((key) => [key, revision])),
    put: new Map(keys.map((key) => [key, { value: {}, ref: undefined }])),
    link: new Map(),
    tell: [],
    none: [],
    isReserved: false,
  };
}

/** Simulates a store on a network. It answers on demand, from its current or earlier contents. */
function slowStore(revocations: Revocations) {
  let held: (() => void)[] | undefined;
  const state = {
    tokens: new Map<string, TokenWithOwner>(),
    users: new Map<string, User>(),
    sessions: new Map([['S', session('S')]]),
    asked: 0,
    fails: false,
    changing: (async (_, make) => make()) as Changing,
    updated: 'updated' as 'updated' | 'changed_meanwhile',
    /** Called while a token is created, after the change and before the answer. */
    beforeAnswer: async (_token: Token): Promise<void> => undefined,
    /** From now on, computes answers at once but returns them only after `release`. */
    hold(): () => void {
      const waiting: (() => void)[] = (held = []);
      return () => {
        held = undefined;
        for (const release of waiting) release();
      };
    },
  };
  const requireUp = () => {
    if (state.fails) throw new StoreUnavailable('away');
  };
  const store = {
    tokens: {
      find: async (digest: string) => {
        state.asked += 1;
        requireUp();
        const found = state.tokens.get(digest);
        const waiting = held;
        if (waiting !== undefined) await new Promise<void>((release) => waiting.push(release));
        return found;
      },
      revoke: async (ids: readonly string[]) => {
        const ended = [...state.tokens.values()]
          .map((found) => found.token)
          .filter(({ id, predecessorId = id }) => ids.includes(id) || ids.includes(predecessorId));
        await state.changing(
          changeOf(
            ended.map(({ digest }) => digest),
            '1',
          ),
          async () => {
            for (const { digest } of ended) state.tokens.delete(digest);
            return '2';
          },
        );
        const revoked = ended.map(({ id }) => id);
        revocations.note(revoked.map((id) => `token:${id}`));
        return { missing: [], revoked };
      },
      hasLegacyKeys: async () => {
        state.asked += 1;
        requireUp();
        return false;
      },
      create: async (token: Token) => {
        await state.changing(changeOf([token.digest], null), async () => {
          await state.beforeAnswer(token);
          return '2';
        });
        return 'created';
      },
      update: async (changed: Token) => {
        await state.changing(changeOf([changed.digest], '1'), async () => {
          state.tokens.set(changed.digest, { token: changed, owner: user('U1') });
          return state.updated === 'updated' ? '2' : null;
        });
        return state.updated;
      },
    },
    sessions: {
      find: async (digest: string) => {
        requireUp();
        const [owner, found] = [state.users.get('U1'), state.sessions.get(digest)];
        return owner === undefined || found === undefined ? undefined : { session: found, owner };
      },
    },
    directory: { getUser: async (id: string) => state.users.get(id) },
  };
  return Object.assign(state, { store: store as unknown as Store });
}

function setUp(more: Partial<CacheSettings> = {}) {
  const revocations = new Revocations(null);
  const inner = slowStore(revocations);
  for (const id of ['A', 'B', 'C']) inner.tokens.set(`digest-${id}`, { token: token(id), owner: user('U1') });
  const events = { hits: 0, misses: 0, stale: 0, bridged: 0, told: [] as number[] };
  const cache = new TokenCache(
    inner.store,
    revocations,
    { size: 100, ttl: 30_000, negative_ttl: 2_000, serveCachedFor: null, ...more },
    {
      hit: () => (events.hits += 1),
      miss: () => (events.misses += 1),
      servedStale: (bridges) => (events[bridges ? 'bridged' : 'stale'] += 1),
      received: (ms) => events.told.push(ms),
    },
  );
  inner.changing = async (change, make) => cache.changing(change, make);
  const ended = (names: readonly string[]) => {
    revocations.note(names);
    cache.ended(names);
  };
  return { inner, revocations, ended, cache, cached: cachedStore(inner.store, cache), events };
}

t.test('caches nothing until it receives change notifications', async (t) => {
  const { inner, cache, cached } = setUp();
  await cached.tokens.find('digest-A');
  await cached.tokens.find('digest-A');
  t.equal(inner.asked, 2);
  cache.enable();
  await cached.tokens.find('digest-A');
  const again = cached.tokens.find('digest-A');
  t.notOk(again instanceof Promise, 'a cache hit returns no promise');
  t.equal(inner.asked, 3);
  cache.disable();
  await cached.tokens.find('digest-A');
  t.equal(inner.asked, 4);
  cache.enable();
  await cached.tokens.find('digest-A');
  t.equal(inner.asked, 5, 'entries from before the link was lost are dropped');
});

t.test('a look-up that began before a change is neither kept nor shared', async (t) => {
  const { inner, cache, cached } = setUp();
  cache.enable();
  const release = inner.hold();
  const early = cached.tokens.find('digest-A');
  const shared = cached.tokens.find('digest-A');
  t.equal(inner.asked, 1, 'concurrent look-ups share one request');
  inner.tokens.delete('digest-A');
  cache.changed(['token:digest-A']);
  const late = cached.tokens.find('digest-A');
  t.equal(inner.asked, 2, 'a look-up after the change starts a new request');
  release();
  t.ok(await early);
  t.ok(await shared);
  t.equal(await late, undefined);
  t.equal(await cached.tokens.find('digest-A'), undefined);
});

t.test('also for a change by this process', async (t) => {
  const { inner, cache, cached } = setUp();
  cache.enable();
  inner.tokens.set('digest-B2', { token: token('B2', { predecessorId: 'B' }), owner: user('U1') });
  for (const id of ['B', 'B2']) await cached.tokens.find(`digest-${id}`);
  const release = inner.hold();
  const early = cached.tokens.find('digest-A');
  await cached.tokens.revoke(['A', 'B']);
  release();
  await early;
  t.equal(await cached.tokens.find('digest-A'), undefined);
  for (const id of ['B', 'B2'])
    t.equal(await cached.tokens.find(`digest-${id}`), undefined, 'without waiting for the notification');
});

t.test('reads a token again after this process or another one changed it', async (t) => {
  const { inner, cache, cached } = setUp();
  cache.enable();
  const limited = token('A', { updatedAt: NOW + 1, restrictions: { suspended: true } });
  await cached.tokens.find('digest-A');
  const release = inner.hold();
  const early = cached.tokens.find('digest-B');
  for (const each of [limited, { ...limited, id: 'B', digest: 'digest-B' }])
    t.equal(await cached.tokens.update(each, NOW), 'updated');
  release();
  t.equal((await early)?.token.restrictions, undefined, 'it began before the change');
  for (const id of ['A', 'B'])
    t.match((await cached.tokens.find(`digest-${id}`))?.token.restrictions, { suspended: true }, id);
  await cached.tokens.find('digest-C');
  const { asked } = inner;
  for (const name of [`suspended:${NOW}:C`, `changed:${NOW}:C`]) {
    cache.ended([name]);
    await cached.tokens.find('digest-C');
  }
  t.equal(inner.asked, asked + 2, 'a notification by name causes a new read');
});

t.test("a user's change applies to all of its tokens, which share one record", async (t) => {
  const { inner, cache, cached } = setUp();
  cache.enable();
  for (const id of ['A', 'B', 'A', 'B', 'A', 'B']) await cached.tokens.find(`digest-${id}`);
  t.equal(inner.asked, 2, 'they do not evict each other');
  for (const [digest, { token }] of inner.tokens)
    inner.tokens.set(digest, { token, owner: user('U1', { locked: true }) });
  cache.changed(['user:U1']);
  for (const id of ['A', 'B'])
    t.equal((await cached.tokens.find(`digest-${id}`))?.owner.locked, true, `owner of ${id}`);
  cache.changed(['user:U2', 'token:digest-C']);
  t.notOk(cached.tokens.find('digest-A') instanceof Promise, 'other entries stay');
});

t.test('caches unknown tokens separately and briefly, and finds them once they exist', async (t) => {
  const pass = movable(t, performance);
  const { inner, cache, cached } = setUp({ negative_ttl: 1_000 });
  cache.enable();
  for (let i = 0; i < 5; i++) t.equal(await cached.tokens.find('digest-X'), undefined);
  t.equal(inner.asked, 1);
  inner.tokens.set('digest-X', { token: token('X'), owner: user('U1') });
  cache.changed(['token:digest-X']);
  t.ok(await cached.tokens.find('digest-X'));
  await cached.tokens.find('digest-Y');
  await cached.tokens.create(token('Y'), user('U1'), NO_LIMITS, NOW);
  inner.tokens.set('digest-Y', { token: token('Y'), owner: user('U1') });
  t.ok(await cached.tokens.find('digest-Y'), 'created here');
  await cached.tokens.find('digest-Z');
  inner.tokens.set('digest-Z', { token: token('Z'), owner: user('U1') });
  pass(1_001);
  // The LRU cache reads the clock once a millisecond.
  await new Promise((wait) => setTimeout(wait, 5));
  t.ok(await cached.tokens.find('digest-Z'), 'after the time limit');
});

t.test('unknown tokens, 200 times the capacity, evict no known ones, and memory is bounded', async (t) => {
  // On a slow machine this takes longer than the usual ttl, which would then end the entry.
  const { inner, cache, cached } = setUp({ size: 1_000, ttl: 600_000 });
  cache.enable();
  await cached.tokens.find('digest-A');
  for (let i = 0; i < 200_000; i++) {
    const found = cached.tokens.find(`made-up-${i}`);
    if (i % 1_000 === 0) await found;
  }
  const asked = inner.asked;
  t.ok(await cached.tokens.find('digest-A'));
  t.equal(inner.asked, asked);
});

t.test('FLUSHALL drops everything; a notification drops the cached answer about legacy keys', async (t) => {
  const { inner, cache, cached } = setUp();
  cache.enable();
  await cached.tokens.find('digest-A');
  await cached.tokens.hasLegacyKeys();
  const { asked } = inner;
  t.equal(await cached.tokens.hasLegacyKeys(), false);
  t.equal(inner.asked, asked);
  cache.changed(['index:legacy_keys']);
  await cached.tokens.hasLegacyKeys();
  t.equal(inner.asked, asked + 1);
  cache.changed(null);
  await cached.tokens.find('digest-A');
  t.equal(inner.asked, asked + 2);
});

t.test('entries expire; while the store is down they serve only if configured', async (t) => {
  const pass = movable(t, performance);
  const { inner, cache, cached, events } = setUp({ ttl: 40_000 });
  cache.enable();
  await cached.tokens.find('digest-A');
  pass(40_001);
  inner.fails = true;
  await t.rejects(async () => cached.tokens.find('digest-A'), StoreUnavailable);
  t.equal(events.stale, 0);

  const serving = setUp({ ttl: 40_000, serveCachedFor: 150_000 });
  serving.cache.enable();
  await serving.cached.tokens.find('digest-A');
  serving.inner.fails = true;
  serving.cache.disable();
  t.ok(await serving.cached.tokens.find('digest-A'));
  await t.rejects(
    async () => serving.cached.tokens.find('digest-B'),
    StoreUnavailable,
    'one that was not cached',
  );
  serving.cache.changed(['token:digest-A']);
  await t.rejects(
    async () => serving.cached.tokens.find('digest-A'),
    StoreUnavailable,
    'one that has changed',
  );
  serving.inner.fails = false;
  await serving.cached.tokens.find('digest-B');
  pass(150_001);
  serving.inner.fails = true;
  await t.rejects(async () => serving.cached.tokens.find('digest-B'), StoreUnavailable, 'nor for longer');
  t.equal(serving.events.stale, 1);
});

t.test('measures the time until this process is notified of its own changes', async (t) => {
  const pass = movable(t, performance);
  const { inner, cache, cached, events } = setUp();
  const change = (id: string) => cached.tokens.update(token(id), 0);
  await change('A');
  cache.changed(['token:digest-A']);
  t.equal(events.told.length, 0, 'not before notifications are enabled');
  cache.enable();
  await change('A');
  pass(30);
  cache.changed(['token:digest-A', 'token:digest-B']);
  t.equal(events.told.length, 1, 'not for changes by others');
  t.ok((events.told[0] ?? 0) >= 25);
  await cached.tokens.find('digest-A');
  await cached.tokens.revoke(['A']);
  cache.changed(['token:digest-A']);
  cache.changed(['token:digest-A']);
  t.equal(events.told.length, 2, 'a revocation, once');
  await cached.tokens.create(token('E'), user('U1'), NO_LIMITS, 0);
  cache.changed(['token:digest-E']);
  t.equal(events.told.length, 2, 'not for new tokens, of which PostgreSQL notifies nobody');
  inner.updated = 'changed_meanwhile';
  await change('B');
  cache.changed(['token:digest-B']);
  t.equal(events.told.length, 2, 'nothing was written, so no notification counts');
});

t.test('serve_cached_for: a lock that was seen holds, in whatever order answers arrive', async (t) => {
  const locked = user('U1', { locked: true, updatedAt: NOW + 1 });
  /** How this process may learn of the lock while it receives no notifications. */
  const ways: Record<string, (cached: Store) => unknown> = {
    'another token of the owner': async (cached) => cached.tokens.find('digest-B'),
    'the same token again': async (cached) => cached.tokens.find('digest-A'),
    'a session': async (cached) => cached.sessions.find('S'),
    'the record itself': async (cached) => cached.directory.getUser('U1'),
  };
  for (const [way, see] of Object.entries(ways))
    for (const told of [false, true])
      for (const late of [false, true]) {
        const { inner, cache, cached } = setUp({ serveCachedFor: 60_000 });
        if (told) cache.enable();
        await cached.tokens.find('digest-A');
        // This answer is from before the lock, and arrives after it.
        const release = late ? inner.hold() : () => undefined;
        const early = late ? cached.tokens.find('digest-C') : undefined;
        if (told) cache.disable();
        for (const id of ['A', 'B']) inner.tokens.set(`digest-${id}`, { token: token(id), owner: locked });
        inner.users.set('U1', locked);
        const seen = see(cached);
        release();
        await Promise.all([seen, early]);
        inner.fails = true;
        for (const id of ['A', 'B', 'C']) {
          const served = await Promise.resolve(cached.tokens.find(`digest-${id}`)).catch(() => undefined);
          t.not(served?.owner.locked, false, `${way}, ${told ? 'disarmed' : 'never armed'}, ${late ? 'late' : 'in time'}: ${id}`);
        }
      }
}); // prettier-ignore

t.test('an older owner record never replaces a newer one while notifications are enabled', async (t) => {
  for (const [first, second] of [['A', 'B'], ['B', 'A']] as const) {
    const { inner, cache, cached } = setUp();
    cache.enable();
    inner.tokens.set('digest-B', { token: token('B'), owner: user('U1', { locked: true, updatedAt: NOW + 1 }) });
    await cached.tokens.find(`digest-${first}`);
    await cached.tokens.find(`digest-${second}`);
    const { asked } = inner;
    t.equal((await cached.tokens.find('digest-B'))?.owner.locked, true, `${first}, ${second}`);
    t.equal(inner.asked, asked, 'from the cache');
  }
}); // prettier-ignore

t.test('during a failover, known sessions and revocations are served until the cover expires', async (t) => {
  const { inner, ended, cache, cached, events } = setUp({ bridgesFailover: true });
  const away = (asked: unknown) => t.rejects(async () => asked, { message: 'away' });
  const on = { endsAt: Date.now() + 60_000, idleEndsAt: Date.now() + 60_000 };
  inner.users.set('U1', user('U1'));
  for (const digest of ['S', 'ended']) inner.sessions.set(digest, session(digest, on));
  inner.sessions.set('over', session('over', { ...on, idleEndsAt: Date.now() }));
  cache.enable(performance.now() + 60_000);
  for (const digest of ['S', 'ended', 'over']) t.ok(await cached.sessions.find(digest));
  for (const id of ['A', 'B', 'C']) t.ok(await cached.tokens.find(`digest-${id}`));
  t.equal(await cached.tokens.find('unknown'), undefined);
  ended(['token:A', 'session:ended']);
  cache.changed(['token:digest-A']);
  t.match(await cached.tokens.revoke(['B']), { missing: [] });
  t.equal(await cached.tokens.hasLegacyKeys(), false);
  inner.fails = true;
  cache.disable();
  t.match(await cached.tokens.find('digest-C'), { token: { id: 'C' } });
  t.same([events.bridged, events.stale], [1, 0], 'counted on its own');
  t.equal(await cached.tokens.find('digest-A'), undefined, 'revoked elsewhere');
  t.equal(await cached.tokens.find('digest-B'), undefined, 'revoked here');
  t.equal(await cached.tokens.find('unknown'), undefined);
  t.equal(await cached.tokens.hasLegacyKeys(), false);
  t.match(await cached.sessions.find('S'), { session: { digest: 'S' }, owner: { id: 'U1' } });
  t.equal(await cached.sessions.find('ended'), undefined);
  await away(cached.sessions.find('over'));
  await away(cached.sessions.find('never read'));
  await away(cached.tokens.find('never read'));
  cache.changed(['user:U1']);
  await away(cached.sessions.find('S'));
  cache.cover(performance.now());
  await away(cached.tokens.find('digest-C'));
  await away(cached.sessions.find('S'));
  t.equal(await cached.tokens.find('digest-A'), undefined, 'an ended credential never comes back');
  t.equal(await cached.sessions.find('ended'), undefined);
  await away(cached.tokens.hasLegacyKeys());
}); // prettier-ignore

t.test('with failover: looks up sessions in the background when they begin, end or were known before', async (t) => {
  const { inner, cache, cached } = setUp({ bridgesFailover: true });
  const turn = () => new Promise((done) => setTimeout(done, 5));
  const on = { endsAt: Date.now() + 60_000, idleEndsAt: Date.now() + 60_000 };
  const isKnown = async (digest: string) => {
    inner.fails = true;
    try {
      return (await cached.sessions.find(digest))?.session.digest;
    } catch {
      return 'away';
    } finally {
      inner.fails = false;
    }
  };
  inner.users.set('U1', user('U1'));
  cache.enable(performance.now() + 60_000);
  inner.sessions.set('new', session('new', on));
  t.equal(await isKnown('new'), 'away');
  cache.changed(['session:new']);
  await turn();
  t.equal(await isKnown('new'), 'new', 'one that began elsewhere');
  cache.enable(performance.now() + 60_000);
  await turn();
  t.equal(await isKnown('new'), 'new', 'read again from the next master');
  inner.sessions.delete('new');
  cache.changed(['session:new']);
  t.equal(await isKnown('new'), 'away', 'a changed session is not relied on');
  await turn();
  t.equal(await isKnown('new'), undefined, 'one that ended elsewhere');
  inner.sessions.set('new', session('new', on));
  cache.changed(['session:new']);
  await turn();
  t.equal(await isKnown('new'), 'new', 'one that a recovery restored');
}); // prettier-ignore

t.test('with failover: looks up changed and used entries in the background', async (t) => {
  const { inner, cache, cached, events } = setUp({ bridgesFailover: true });
  const turn = () => new Promise((done) => setTimeout(done, 5));
  await cached.tokens.find('digest-A');
  cache.enable(performance.now() + 60_000);
  await turn();
  t.equal(inner.asked, 2);
  cache.changed(['token:digest-B', 'user:U9', 'token:digest-C']);
  await turn();
  t.equal(inner.asked, 4);
  cache.enable(performance.now() + 60_000);
  await turn();
  t.equal(inner.asked, 7, 'again from the next master');
  for (const id of ['A', 'B', 'C']) t.ok(await cached.tokens.find(`digest-${id}`));
  t.equal(inner.asked, 7);
  t.same([events.hits, events.misses], [3, 1]);
  inner.tokens.delete('digest-C');
  cache.changed(['token:digest-C']);
  await turn();
  inner.fails = true;
  t.equal(await cached.tokens.find('digest-C'), undefined, 'a removal is known, too');
  inner.fails = false;
  inner.asked = 0;
  cache.changed(Array.from({ length: 2_000 }, (_, i) => `token:${i}`));
  await new Promise((done) => setTimeout(done, 200));
  t.equal(inner.asked, 1_000, 'limited to a thousand');
}); // prettier-ignore

t.test('with failover: the process that created a token knows it', async (t) => {
  const { inner, cache, cached } = setUp({ bridgesFailover: true });
  const turn = () => new Promise((done) => setTimeout(done, 5));
  cache.enable(performance.now() + 60_000);
  // The notification precedes the answer, and the answer drops what was read on notification.
  inner.beforeAnswer = async ({ digest }) => {
    inner.tokens.set(digest, { token: token('D'), owner: user('U1') });
    cache.changed([`token:${digest}`]);
    await turn();
  };
  t.equal(await cached.tokens.create(token('D'), user('U1'), NO_LIMITS, NOW), 'created');
  await turn();
  inner.fails = true;
  t.match(await cached.tokens.find('digest-D'), { token: { id: 'D' } });
});

t.test('with failover: repeats a look-up if something changed meanwhile', async (t) => {
  const { inner, cache, cached } = setUp({ bridgesFailover: true });
  const turn = () => new Promise((done) => setTimeout(done, 5));
  cache.enable(performance.now() + 60_000);
  const release = inner.hold();
  cache.changed(['token:digest-A']);
  await turn();
  cache.changed(['user:U9']);
  release();
  await turn();
  inner.fails = true;
  t.match(await cached.tokens.find('digest-A'), { token: { id: 'A' } });
});

t.test(
  'refuses credentials known to have ended while the store is down, however that was learned',
  async (t) => {
    const { inner, revocations, cache, cached } = setUp({ bridgesFailover: true });
    cache.enable(performance.now() + 60_000);
    for (const id of ['A', 'B', 'C']) t.ok(await cached.tokens.find(`digest-${id}`));
    cache.disable();
    inner.fails = true;
    // Another process revoked it while this one received no notifications.
    revocations.note(['token:A', 'legacy:digest-B', 'session:S']);
    cache.enable(performance.now() + 60_000);
    for (const digest of ['digest-A', 'digest-B'])
      t.equal(await cached.tokens.find(digest), undefined, digest);
    t.equal(await cached.sessions.find('S'), undefined);
    await t.rejects(async () => cached.tokens.find('digest-C'), { message: 'away' });
  },
);

t.test('corrects a forgotten rotation and a forgotten suspension of one token, in either order', async (t) => {
  const [ends, longer, suspended, earlier] = [`ends:${NOW + 5}:A`, `ends:${NOW + 9}:A`, `suspended:${NOW + 2}:A`, `suspended:${NOW + 1}:A`];
  for (const names of [[ends, longer, suspended, earlier], [earlier, suspended, longer, ends]]) {
    const revocations = new Revocations(null);
    revocations.note(names);
    const rate = { rate: '5/1m' };
    const both = { expiresAt: NOW + 5, restrictions: { ...rate, suspended: true as const } };
    t.strictSame(revocations.corrected(token('A', { restrictions: rate })), token('A', both), 'the earliest end');
    const later = token('A', { updatedAt: NOW + 2, expiresAt: NOW + 3 });
    t.equal(revocations.corrected(later), later, 'a later record that ends earlier');
    t.strictSame(revocations.corrected({ ...later, expiresAt: null }), { ...later, expiresAt: NOW + 5 });
    t.equal(revocations.isSuperseded(later), false);
    t.equal(revocations.isSuperseded(token('A', { updatedAt: NOW + 1 })), true, 'the latest change');
    t.strictSame(revocations.corrected(token('B')), token('B'));
  }
}); // prettier-ignore
