import { digestOf } from '../../../src/domain/secret.js';
import type { Session } from '../../../src/domain/session.js';
import type { User } from '../../../src/domain/user.js';
import type { Check } from './check.js';
import { USE, NOW, createSession, ownerOf, session, token, user } from './records.js';

/** Sessions and sudo grants. */
export async function sessionStoreContract(check: Check): Promise<void> {
  await check('limits the sessions of a user; the least recently used one ends', async (t, store) => {
    const start = (id: string, lastSeenAt: number, userId = 'U1') =>
      store.sessions.create(session(id, { lastSeenAt, endsAt: NOW + 10, userId }), ownerOf(userId), 3);
    const on = async () => (await store.sessions.listOfUser('U1')).map(({ digest }) => digest).toSorted();
    for (const [i, id] of ['A', 'B', 'C'].entries()) t.strictSame(await start(id, NOW + i), []);
    await store.usage.recordUses({ tokens: new Map(), sessions: new Map([['A', { ...USE, at: NOW + 9, idleEndsAt: NOW + 10 }]]) });
    t.match(await start('D', NOW + 4), [{ digest: 'B', userId: 'U1' }]);
    t.strictSame(await on(), ['A', 'C', 'D']);
    t.equal(await store.sessions.find('B'), undefined);
    t.strictSame(await start('X', NOW, 'U2'), [], 'the limit is per user');
    t.strictSame(await start('D', NOW + 5), [], 'rewriting a session takes no more room');
    await Promise.all(['E', 'F', 'G', 'H'].map((id) => start(id, NOW + 8)));
    t.equal((await on()).length, 3);
    t.strictSame((await store.sessions.create(session('I', { lastSeenAt: NOW + 20 }), user('U1'), 1) as Session[]).length, 3, 'a lowered limit');
    t.equal(await store.maintenance.removeExpired(NOW + 10, NOW, 9), 1, 'ended sessions leave nothing behind');
    t.strictSame(await on(), ['I']);
  }); // prettier-ignore

  await check('a rewritten session ends by the later record', async (t, store) => {
    await createSession(store, session('D1', { idleEndsAt: NOW + 10 }));
    await createSession(store, session('D1', { idleEndsAt: NOW + 20 }));
    t.equal(await store.maintenance.removeExpired(NOW + 10, NOW, 9), 0);
    t.ok(await store.sessions.find('D1'));
    t.equal(await store.maintenance.removeExpired(NOW + 20, NOW, 9), 1);
  });

  await check(
    "a changed password or lock ends the user's sessions, a changed role does not",
    async (t, store) => {
      const sessionsAfter = async (more: Partial<User>) => {
        await createSession(store, session('D1'));
        await store.directory.change({ users: [user('U1', more)] }, NOW);
        const left = (await store.sessions.listOfUser('U1')).length;
        await store.directory.change({ users: [user('U1')] }, NOW);
        return left;
      };
      t.equal(await sessionsAfter({ role: 'billing', name: 'new' }), 1);
      t.equal(await sessionsAfter({ passwordHash: 'other' }), 0);
      t.equal(await sessionsAfter({ otpSecret: 'sealed' }), 0);
      t.equal(await sessionsAfter({ locked: true }), 0);
      t.equal((await store.directory.getUser('U1'))?.role, 'user');
    },
  );

  await check('ends one session, or all but one', async (t, store) => {
    for (const digest of ['A', 'B', 'C']) await createSession(store, session(digest));
    t.equal(await store.sessions.end('A'), true);
    t.equal(await store.sessions.end('A'), false);
    t.strictSame(await store.sessions.endOfUser('U1', 'B'), [session('C')]);
    t.same(
      (await store.sessions.listOfUser('U1')).map(({ digest }) => digest),
      ['B'],
    );
    t.strictSame(await store.sessions.endOfUser('U1'), [session('B')]);
    t.strictSame(await store.sessions.endOfUser('U1'), []);
  });

  await check('creates nothing for an owner who has changed since verification', async (t, store) => {
    const verified = user('U1', { otpSecret: 'sealed' });
    const rows: [string, Partial<User> | null, string][] = [
      ['the same', { otpSecret: 'sealed' }, 'made'],
      ['another name, login and role', { otpSecret: 'sealed', name: 'n', login: 'n', role: 'billing', updatedAt: NOW + 1 }, 'made'],
      ['another password', { otpSecret: 'sealed', passwordHash: 'other' }, 'refused'],
      ['no password', { otpSecret: 'sealed', passwordHash: null }, 'refused'],
      ['the same password, rehashed', { otpSecret: 'sealed', passwordHash: 'stronger', rehashOf: digestOf('hash') }, 'made'],
      ['another password, rehashed', { otpSecret: 'sealed', passwordHash: 'others', rehashOf: digestOf('other') }, 'refused'],
      ['another second factor', { otpSecret: 'other' }, 'refused'],
      ['no second factor', { otpSecret: null }, 'refused'],
      ['locked', { otpSecret: 'sealed', locked: true }, 'refused'],
      ['another customer', { otpSecret: 'sealed', customerId: 'C2' }, 'refused'],
      ['made anew', { otpSecret: 'sealed', createdAt: NOW + 1 }, 'refused'],
      ['gone', null, 'refused'],
    ];
    for (const [name, now, outcome] of rows) {
      if (now === null) await store.directory.change({ removeUsers: ['U1'] }, NOW);
      else await store.directory.change({ users: [user('U1', now)] }, NOW);
      const made = [
        await store.sessions.create(session('D1'), verified, null),
        await store.tokens.create(token('T1'), verified, { active: null, stored: null }, NOW),
        await store.sessions.grantSudo(verified, 'T1', NOW + 60_000),
      ];
      const expected = outcome === 'made' ? [[], 'created', 'granted'] : Array<string>(3).fill('owner_changed');
      t.same(made, expected, name);
      t.equal((await store.sessions.find('D1')) !== undefined, outcome === 'made', name);
      t.equal((await store.tokens.get('T1')) !== undefined, outcome === 'made', name);
      t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), outcome === 'made', name);
      await store.sessions.end('D1');
      if (outcome === 'made') await store.tokens.revoke(['T1']);
    }
  }); // prettier-ignore

  await check('refuses a session for a login that a logout ended, and allows another login', async (t, store, reopen) => {
    const login = { logouts: ['all', 'one'], issuedAt: NOW, begunAt: NOW };
    const create = (more: Partial<typeof login> = {}, from = store) =>
      from.sessions.create(session('D1'), user('U1'), null, { ...login, ...more });
    const note = (name: string, issuedAt: number, receivedAt: number) =>
      store.sessions.noteLogouts([{ name, issuedAt, receivedAt }], NOW + 60_000);
    t.same(await create(), []);
    await note('other', NOW + 9, NOW + 9);
    t.same(await create(), [], 'of another name');
    await note('one', NOW, NOW - 1);
    t.same(await create(), [], 'received before it, in the same second of the provider');
    await note('one', NOW - 9, NOW);
    t.equal(await create(), 'logged_out', 'at the same time');
    t.same(await create({ begunAt: NOW + 1 }), [], 'a login that began after it');
    await note('all', NOW + 1, 0);
    t.equal(await create({ begunAt: NOW + 1 }), 'logged_out', 'issued before it');
    await note('all', 0, 0);
    const again = await reopen();
    t.equal(await create({ begunAt: NOW + 1 }, again), 'logged_out', 'an earlier logout that arrives later changes nothing');
    t.same(await create({ begunAt: NOW + 1, issuedAt: NOW + 1 }, again), []);
    t.same(await again.sessions.create(session('D2'), user('U1'), null), [], 'a password login is unaffected');
    await again.sessions.endOfUser('U1');
    t.equal(await again.maintenance.removeExpired(NOW + 60_000, NOW, 9), 3);
    t.same(await create({}, again), [], 'forgotten');
  }); // prettier-ignore

  await check('a session ends after its idle time, however often that moved', async (t, store) => {
    await createSession(store, session('D1', { endsAt: NOW + 1_000, idleEndsAt: NOW + 100 }));
    await createSession(store, session('D2', { endsAt: NOW + 1_000, idleEndsAt: NOW + 100 }));
    const use = { ...USE, at: NOW + 50, idleEndsAt: NOW + 150 };
    await store.usage.recordUses({ tokens: new Map(), sessions: new Map([['D1', use]]) });
    t.match((await store.sessions.find('D1'))?.session, { lastSeenAt: NOW + 50, idleEndsAt: NOW + 150 });
    t.equal(await store.maintenance.removeExpired(NOW + 99, NOW, 9), 0);
    t.equal(await store.maintenance.removeExpired(NOW + 100, NOW, 9), 1);
    t.equal(await store.sessions.find('D2'), undefined);
    await store.usage.recordUses({ tokens: new Map(), sessions: new Map([['D1', { ...use, at: NOW + 140, idleEndsAt: NOW + 9_000 }]]) });
    t.equal(await store.maintenance.removeExpired(NOW + 999, NOW, 9), 0);
    t.equal(await store.maintenance.removeExpired(NOW + 1_000, NOW, 9), 1, 'its absolute end does not move');
    t.equal(await store.sessions.find('D1'), undefined);
    t.same(await store.sessions.listOfUser('U1'), []);
  }); // prettier-ignore

  await check('a sudo grant holds for one credential of one user, until it expires', async (t, store, reopen) => {
    const MINUTE = 60_000;
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), false);
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + MINUTE);
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW + MINUTE - 1), true);
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW + MINUTE), false, 'expired at its end');
    t.equal(await store.sessions.hasSudo('U1', 'T2', NOW), false, 'another credential has none');
    t.equal(await store.sessions.hasSudo('U2', 'T1', NOW), false, 'another user has none');
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + 3 * MINUTE);
    await store.sessions.grantSudo(user('U1'), 'T2', NOW + 2 * MINUTE);
    const again = await reopen();
    t.equal(await again.sessions.hasSudo('U1', 'T1', NOW + 3 * MINUTE - 1), true, 'a later grant extends it, across restarts');
    t.equal(await again.sessions.hasSudo('U1', 'T2', NOW + 2 * MINUTE - 1), true, 'each credential has its own grant');
    await again.sessions.grantSudo(user('U1'), 'T3', NOW + 9 * MINUTE);
    t.equal(await again.sessions.hasSudo('U1', 'T1', NOW + 2 * MINUTE), true, 'an active grant stays beside a new one');
    t.equal(await again.sessions.hasSudo('U1', 'T2', NOW + 2 * MINUTE), false);
  }); // prettier-ignore

  await check("a changed password, second factor or lock ends the user's sudo grants, other changes do not", async (t, store) => {
    const sudosAfter = async (more: Partial<User>) => {
      for (const [userId, id] of [['U1', 'T1'], ['U1', 'T2'], ['U2', 'T9']] as const) await store.sessions.grantSudo(user(userId), id, NOW + 60_000);
      t.equal(await store.directory.change({ users: [user('U1', more)] }, NOW), undefined);
      t.equal(await store.sessions.hasSudo('U2', 'T9', NOW), true, 'other users keep theirs');
      const left = [await store.sessions.hasSudo('U1', 'T1', NOW), await store.sessions.hasSudo('U1', 'T2', NOW)];
      await store.directory.change({ users: [user('U1')] }, NOW);
      return left;
    };
    t.same(await sudosAfter({ role: 'billing', name: 'new' }), [true, true]);
    t.same(await sudosAfter({ passwordHash: 'other' }), [false, false]);
    t.same(await sudosAfter({ otpSecret: 'sealed' }), [false, false]);
    t.same(await sudosAfter({ locked: true }), [false, false]);
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + 60_000);
    t.equal(await store.directory.change({ removeUsers: ['U1'] }, NOW), undefined);
    t.equal(await store.directory.change({ users: [user('U1')] }, NOW), undefined);
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), false, 'a new user with the same id has none');
  }); // prettier-ignore
}
