import t from 'tap';
import { type CacheSettings, CachedStore } from '../../src/store/cached.js';
import { ForwardingStore } from '../../src/store/forwarding.js';
import type { User } from '../../src/domain/user.js';
import {
  type SessionWithOwner,
  type Store,
  StoreUnavailable,
  type TokenWithOwner,
} from '../../src/store/store.js';
import { NOW, session, token, user } from './contract.js';

const NO_LIMITS = { active: null, stored: null };

/** A store on a network: it answers when it is told to, from what it holds at that time or held before. */
class SlowStore extends ForwardingStore {
  readonly tokens = new Map<string, TokenWithOwner>();
  asked = 0;
  fails = false;
  #held: (() => void)[] | undefined;

  constructor() {
    super({} as Store);
  }

  /** From now on answers are worked out at once and told only after `release`. */
  hold(): () => void {
    const held: (() => void)[] = (this.#held = []);
    return () => {
      this.#held = undefined;
      for (const tell of held) tell();
    };
  }

  override async findToken(digest: string): Promise<TokenWithOwner | undefined> {
    this.asked += 1;
    if (this.fails) throw new StoreUnavailable('away');
    const found = this.tokens.get(digest);
    const held = this.#held;
    if (held !== undefined) await new Promise<void>((tell) => held.push(tell));
    return found;
  }

  users = new Map<string, User>();

  override async getUser(id: string): Promise<User | undefined> {
    return this.users.get(id);
  }

  sessions = new Map([['S', session('S')]]);

  override async findSession(digest: string): Promise<SessionWithOwner | undefined> {
    if (this.fails) throw new StoreUnavailable('away');
    const [owner, found] = [this.users.get('U1'), this.sessions.get(digest)];
    return owner === undefined || found === undefined ? undefined : { session: found, owner };
  }

  override async revokeTokens(ids: readonly string[]): Promise<string[]> {
    for (const [digest, { token }] of this.tokens) if (ids.includes(token.id)) this.tokens.delete(digest);
    return [];
  }

  override async hasLegacyKeys(): Promise<boolean> {
    this.asked += 1;
    if (this.fails) throw new StoreUnavailable('away');
    return false;
  }

  created: 'created' | 'limit_reached' = 'created';

  override async createToken() {
    return this.created;
  }
}

function setUp(more: Partial<CacheSettings> = {}) {
  const inner = new SlowStore();
  for (const id of ['A', 'B', 'C']) inner.tokens.set(`digest-${id}`, { token: token(id), owner: user('U1') });
  const events = { hits: 0, misses: 0, stale: 0, told: [] as number[] };
  const cached = new CachedStore(
    inner,
    { size: 100, ttl: 30_000, negative_ttl: 2_000, serveCachedFor: null, ...more },
    {
      hit: () => (events.hits += 1),
      miss: () => (events.misses += 1),
      servedStale: () => (events.stale += 1),
      received: (ms) => events.told.push(ms),
    },
  );
  return { inner, cached, events };
}

t.test('nothing is cached until changes are told', async (t) => {
  const { inner, cached } = setUp();
  await cached.findToken('digest-A');
  await cached.findToken('digest-A');
  t.equal(inner.asked, 2);
  cached.arm();
  await cached.findToken('digest-A');
  const again = cached.findToken('digest-A');
  t.notOk(again instanceof Promise, 'a hit costs no promise');
  t.equal(inner.asked, 3);
  cached.disable();
  await cached.findToken('digest-A');
  t.equal(inner.asked, 4);
  cached.arm();
  await cached.findToken('digest-A');
  t.equal(inner.asked, 5, 'what was read before the link was lost is forgotten');
});

t.test('a look-up that began before a change is neither kept nor shared', async (t) => {
  const { inner, cached } = setUp();
  cached.arm();
  const release = inner.hold();
  const early = cached.findToken('digest-A');
  const shared = cached.findToken('digest-A');
  t.equal(inner.asked, 1, 'two at once ask once');
  inner.tokens.delete('digest-A');
  cached.changed(['token:digest-A']);
  const late = cached.findToken('digest-A');
  t.equal(inner.asked, 2, 'who asks after the change asks anew');
  release();
  t.ok(await early);
  t.ok(await shared);
  t.equal(await late, undefined);
  t.equal(await cached.findToken('digest-A'), undefined);
});

t.test('the same for a change that this process makes', async (t) => {
  const { inner, cached } = setUp();
  cached.arm();
  await cached.findToken('digest-B');
  const release = inner.hold();
  const early = cached.findToken('digest-A');
  await cached.revokeTokens(['A', 'B']);
  release();
  await early;
  t.equal(await cached.findToken('digest-A'), undefined);
  t.equal(await cached.findToken('digest-B'), undefined, 'without waiting for the push');
});

t.test('a change of a user concerns all of its tokens; one record serves them all', async (t) => {
  const { inner, cached } = setUp();
  cached.arm();
  for (const id of ['A', 'B', 'A', 'B', 'A', 'B']) await cached.findToken(`digest-${id}`);
  t.equal(inner.asked, 2, 'they do not drop each other');
  for (const [digest, { token }] of inner.tokens)
    inner.tokens.set(digest, { token, owner: user('U1', { locked: true }) });
  cached.changed(['user:U1']);
  for (const id of ['A', 'B'])
    t.equal((await cached.findToken(`digest-${id}`))?.owner.locked, true, `owner of ${id}`);
  cached.changed(['user:U2', 'token:digest-C']);
  t.notOk(cached.findToken('digest-A') instanceof Promise, 'others are left alone');
});

t.test(
  'unknown tokens are remembered apart and for a short time, and are usable once they exist',
  async (t) => {
    const { inner, cached } = setUp({ negative_ttl: 50 });
    cached.arm();
    for (let i = 0; i < 5; i++) t.equal(await cached.findToken('digest-X'), undefined);
    t.equal(inner.asked, 1);
    inner.tokens.set('digest-X', { token: token('X'), owner: user('U1') });
    cached.changed(['token:digest-X']);
    t.ok(await cached.findToken('digest-X'));
    await cached.findToken('digest-Y');
    await cached.createToken(token('Y'), user('U1'), NO_LIMITS, NOW);
    inner.tokens.set('digest-Y', { token: token('Y'), owner: user('U1') });
    t.ok(await cached.findToken('digest-Y'), 'created here');
    await cached.findToken('digest-Z');
    inner.tokens.set('digest-Z', { token: token('Z'), owner: user('U1') });
    await new Promise((wait) => setTimeout(wait, 70));
    t.ok(await cached.findToken('digest-Z'), 'after the time');
  },
);

t.test(
  'unknown tokens, 200 times as many as fit, do not push known ones out, and memory is bounded',
  async (t) => {
    // It takes longer than the usual ttl where the machine is slow, and then it would be the ttl that ended it.
    const { inner, cached } = setUp({ size: 1_000, ttl: 600_000 });
    cached.arm();
    await cached.findToken('digest-A');
    for (let i = 0; i < 200_000; i++) {
      const found = cached.findToken(`made-up-${i}`);
      if (i % 1_000 === 0) await found;
    }
    const asked = inner.asked;
    t.ok(await cached.findToken('digest-A'));
    t.equal(inner.asked, asked);
  },
);

t.test('FLUSHALL forgets all; the answer about legacy keys is dropped with its key', async (t) => {
  const { inner, cached } = setUp();
  cached.arm();
  await cached.findToken('digest-A');
  await cached.hasLegacyKeys();
  const { asked } = inner;
  t.equal(await cached.hasLegacyKeys(), false);
  t.equal(inner.asked, asked);
  cached.changed(['legacy_keys']);
  await cached.hasLegacyKeys();
  t.equal(inner.asked, asked + 1);
  cached.changed(null);
  await cached.findToken('digest-A');
  t.equal(inner.asked, asked + 2);
});

t.test('entries end with their time; while the store is away they serve only when asked for', async (t) => {
  const { inner, cached, events } = setUp({ ttl: 40 });
  cached.arm();
  await cached.findToken('digest-A');
  await new Promise((wait) => setTimeout(wait, 60));
  inner.fails = true;
  await t.rejects(async () => cached.findToken('digest-A'), StoreUnavailable);
  t.equal(events.stale, 0);

  const serving = setUp({ ttl: 40, serveCachedFor: 150 });
  serving.cached.arm();
  await serving.cached.findToken('digest-A');
  serving.inner.fails = true;
  serving.cached.disable();
  t.ok(await serving.cached.findToken('digest-A'));
  await t.rejects(
    async () => serving.cached.findToken('digest-B'),
    StoreUnavailable,
    'one that was not seen',
  );
  serving.cached.changed(['token:digest-A']);
  await t.rejects(async () => serving.cached.findToken('digest-A'), StoreUnavailable, 'one that has changed');
  serving.inner.fails = false;
  await serving.cached.findToken('digest-B');
  await new Promise((wait) => setTimeout(wait, 170));
  serving.inner.fails = true;
  await t.rejects(async () => serving.cached.findToken('digest-B'), StoreUnavailable, 'nor for longer');
  t.equal(serving.events.stale, 1);
});

t.test('the time is taken until this process is told of its own changes', async (t) => {
  const { inner, cached, events } = setUp();
  const create = (id: string) => cached.createToken(token(id), user('U1'), NO_LIMITS, 0);
  await create('D');
  cached.changed(['token:digest-D']);
  t.equal(events.told.length, 0, 'not before changes are told');
  cached.arm();
  await create('E');
  await new Promise((wait) => setTimeout(wait, 30));
  cached.changed(['token:digest-E', 'token:digest-A']);
  t.equal(events.told.length, 1, 'and not for those of others');
  t.ok((events.told[0] ?? 0) >= 25);
  await cached.findToken('digest-A');
  await cached.revokeTokens(['A']);
  cached.changed(['token:digest-A']);
  cached.changed(['token:digest-A']);
  t.equal(events.told.length, 2, 'a revocation, once');
  inner.created = 'limit_reached';
  await create('F');
  cached.changed(['token:digest-F']);
  t.equal(events.told.length, 2, 'nothing was written, so nothing was told of it');
});

t.test('serve_cached_for: a lock that was seen once holds, in whatever order answers come', async (t) => {
  const locked = user('U1', { locked: true, updatedAt: NOW + 1 });
  /** Ways in which this process learns of the lock behind its back, while changes are not told. */
  const ways: Record<string, (cached: CachedStore) => unknown> = {
    'another token of the owner': async (cached) => cached.findToken('digest-B'),
    'the same token again': async (cached) => cached.findToken('digest-A'),
    'a session': async (cached) => cached.findSession('S'),
    'the record itself': async (cached) => cached.getUser('U1'),
  };
  for (const [way, see] of Object.entries(ways))
    for (const told of [false, true])
      for (const late of [false, true]) {
        const { inner, cached } = setUp({ serveCachedFor: 60_000 });
        if (told) cached.arm();
        await cached.findToken('digest-A');
        // This one is answered from before the lock, and told after it.
        const release = late ? inner.hold() : () => undefined;
        const early = late ? cached.findToken('digest-C') : undefined;
        if (told) cached.disable();
        for (const id of ['A', 'B']) inner.tokens.set(`digest-${id}`, { token: token(id), owner: locked });
        inner.users.set('U1', locked);
        const seen = see(cached);
        release();
        await Promise.all([seen, early]);
        inner.fails = true;
        for (const id of ['A', 'B', 'C']) {
          const served = await Promise.resolve(cached.findToken(`digest-${id}`)).catch(() => undefined);
          t.not(served?.owner.locked, false, `${way}, ${told ? 'disarmed' : 'never armed'}, ${late ? 'late' : 'in time'}: ${id}`);
        }
      }
}); // prettier-ignore

t.test('an older record of an owner never takes the place of a newer one while changes are told', async (t) => {
  for (const [first, second] of [['A', 'B'], ['B', 'A']] as const) {
    const { inner, cached } = setUp();
    cached.arm();
    inner.tokens.set('digest-B', { token: token('B'), owner: user('U1', { locked: true, updatedAt: NOW + 1 }) });
    await cached.findToken(`digest-${first}`);
    await cached.findToken(`digest-${second}`);
    const { asked } = inner;
    t.equal((await cached.findToken('digest-B'))?.owner.locked, true, `${first}, ${second}`);
    t.equal(inner.asked, asked, 'from the cache');
  }
}); // prettier-ignore

t.test('while another master is chosen, what is known of sessions and of what ended holds as long as it is covered', async (t) => {
  const { inner, cached } = setUp({ bridgesFailover: true });
  const away = (asked: unknown) => t.rejects(async () => asked, { message: 'away' });
  const on = { endsAt: Date.now() + 60_000, idleEndsAt: Date.now() + 60_000 };
  inner.users.set('U1', user('U1'));
  for (const digest of ['S', 'ended']) inner.sessions.set(digest, session(digest, on));
  inner.sessions.set('over', session('over', { ...on, idleEndsAt: Date.now() }));
  cached.arm(performance.now() + 60_000);
  for (const digest of ['S', 'ended', 'over']) t.ok(await cached.findSession(digest));
  for (const id of ['A', 'B', 'C']) t.ok(await cached.findToken(`digest-${id}`));
  t.equal(await cached.findToken('unknown'), undefined);
  cached.ended(['token:A', 'session:ended']);
  cached.changed(['token:digest-A']);
  t.same(await cached.revokeTokens(['B']), []);
  t.equal(await cached.hasLegacyKeys(), false);
  inner.fails = true;
  cached.disable();
  t.match(await cached.findToken('digest-C'), { token: { id: 'C' } });
  t.equal(await cached.findToken('digest-A'), undefined, 'revoked elsewhere');
  t.equal(await cached.findToken('digest-B'), undefined, 'revoked here');
  t.equal(await cached.findToken('unknown'), undefined);
  t.equal(await cached.hasLegacyKeys(), false);
  t.match(await cached.findSession('S'), { session: { digest: 'S' }, owner: { id: 'U1' } });
  t.equal(await cached.findSession('ended'), undefined);
  await away(cached.findSession('over'));
  await away(cached.findSession('never read'));
  await away(cached.findToken('never read'));
  cached.changed(['user:U1']);
  await away(cached.findSession('S'));
  cached.cover(performance.now());
  await away(cached.findToken('digest-C'));
  await away(cached.findSession('S'));
  t.equal(await cached.findToken('digest-A'), undefined, 'what ended never comes back');
  t.equal(await cached.findSession('ended'), undefined);
  await away(cached.hasLegacyKeys());
}); // prettier-ignore

t.test('where another master can be chosen, what is told and what was used is looked up in the background', async (t) => {
  const { inner, cached, events } = setUp({ bridgesFailover: true });
  const turn = () => new Promise((done) => setTimeout(done, 5));
  await cached.findToken('digest-A');
  cached.arm(performance.now() + 60_000);
  await turn();
  t.equal(inner.asked, 2);
  cached.changed(['token:digest-B', 'user:U9', 'token:digest-C']);
  await turn();
  t.equal(inner.asked, 4);
  cached.arm(performance.now() + 60_000);
  await turn();
  t.equal(inner.asked, 7, 'anew at the next master');
  for (const id of ['A', 'B', 'C']) t.ok(await cached.findToken(`digest-${id}`));
  t.equal(inner.asked, 7);
  t.same([events.hits, events.misses], [3, 1]);
  inner.tokens.delete('digest-C');
  cached.changed(['token:digest-C']);
  await turn();
  inner.fails = true;
  t.equal(await cached.findToken('digest-C'), undefined, 'what was removed is known, too');
  inner.fails = false;
  inner.asked = 0;
  cached.changed(Array.from({ length: 2_000 }, (_, i) => `token:${i}`));
  await new Promise((done) => setTimeout(done, 200));
  t.equal(inner.asked, 1_000, 'no more than so many');
}); // prettier-ignore
