import { rotationOf, type Token } from '../../../src/domain/token.js';
import type { Check } from './check.js';
import { declaredTokensContract } from './declared-tokens.js';
import { rotationsContract } from './rotations.js';
import { LONG_AGO, NOW, countsOf, createSession, createToken, session, token, user } from './records.js';

/** Tokens and legacy keys. */
export async function tokenStoreContract(check: Check): Promise<void> {
  await check("a token's customer is its owner's, wherever the owner moves", async (t, store) => {
    const ids = async (customerId: string) =>
      (await store.tokens.listOfCustomer(customerId)).map((each) => each.token.id).toSorted();
    await createToken(store, token('T1', { services: ['S1'] }), null, NOW);
    await store.directory.change({ tokens: [token('L1', { kind: 'legacy_key' })] }, NOW);
    await createSession(store, session('D1'));
    for (const [customerId, here, there] of [
      ['C2', [], ['L1', 'T1']],
      ['C1', ['L1', 'T1'], []],
    ] as const) {
      await store.directory.change({ users: [user('U1', { customerId })] }, NOW);
      t.strictSame(await ids('C1'), here);
      t.strictSame(await ids('C2'), there);
      t.strictSame(await store.tokens.find('digest-T1'), {
        token: token('T1', { services: ['S1'] }),
        owner: user('U1', { customerId }),
      });
      t.equal((await store.sessions.find('D1'))?.owner.customerId, customerId, 'sessions move, too');
      t.same(await countsOf(store, 'C1'), [here.length > 0, here.length > 1, false]);
      t.same(await countsOf(store, 'C2'), [there.length > 0, there.length > 1, false]);
    }
    t.same(await countsOf(store, 'nope'), [false, false, false]);
  });

  await check('limits the stored tokens of a user; expired ones make room, the earliest first', async (t, store) => {
    const limits = { active: null, stored: 4 };
    const create = (id: string, expiresAt: number | null = null) =>
      store.tokens.create(token(id, { expiresAt }), user('U1'), limits, NOW);
    const ids = async () => (await store.tokens.listOfUser('U1')).map((each) => each.token.id).toSorted();
    for (const [id, expiresAt] of [['E2', LONG_AGO - 20], ['E1', LONG_AGO - 10], ['E3', LONG_AGO - 30], ['A', NOW + 10]] as const)
      t.equal(await create(id, expiresAt), 'created');
    t.equal(await create('B'), 'created');
    t.strictSame(await ids(), ['A', 'B', 'E1', 'E2']);
    t.equal(await store.tokens.find('digest-E3'), undefined);
    const many = await Promise.all(['C', 'D', 'E', 'F'].map((id) => create(id)));
    t.strictSame(many.toSorted(), ['created', 'created', 'full', 'full'], 'also for concurrent creations');
    t.equal((await ids()).length, 4);
    t.equal(await create('G'), 'full', 'active tokens never make room');
    t.same([await store.tokens.customerHasAtLeast('C1', 4), await store.tokens.customerHasAtLeast('C1', 5)], [true, false]);
    t.equal(await store.tokens.create(token('H', { userId: 'U2' }), user('U2'), limits, NOW), 'created', 'the limit is per user');
    for (const id of ['A', 'B']) await store.tokens.revoke([id]);
    t.equal(await create('I'), 'created');
    // With a lowered limit, all excess tokens have to be expired.
    for (const id of ['X', 'Y']) await createToken(store, token(id, { expiresAt: LONG_AGO }), null, NOW);
    t.equal(await store.tokens.create(token('J'), user('U1'), { active: null, stored: 5 }, NOW), 'created');
    t.equal((await ids()).length, 5);
    t.equal(await store.maintenance.removeExpired(NOW, NOW, 9), 1, 'removed tokens leave nothing behind');
  }); // prettier-ignore

  await check('lists of the largest records', async (t, store) => {
    const services = Array.from({ length: 1_000 }, (_, i) => `S${i}`.padEnd(64, 'x'));
    const ids = Array.from({ length: 60 }, (_, i) => `T${i}`);
    for (const id of ids) await createToken(store, token(id, { services }), null, NOW);
    for (const id of ids) await createSession(store, session(id, { userAgent: 'x'.repeat(50_000) }));
    t.strictSame(
      (await store.tokens.listOfUser('U1')).map((each) => each.token.id).toSorted(),
      ids.toSorted(),
    );
    t.strictSame(
      (await store.sessions.listOfUser('U1')).map(({ digest }) => digest).toSorted(),
      ids.toSorted(),
    );
    t.equal((await store.sessions.endOfUser('U1')).length, 60);
  });

  await check('revokes all of the given tokens or none', async (t, store) => {
    for (const id of ['T1', 'T2', 'T3']) await createToken(store, token(id), null, NOW);
    t.same(await store.tokens.revoke(['T1', 'nope', 'T2', 'gone']), {
      missing: ['nope', 'gone'],
      revoked: [],
    });
    t.ok((await store.tokens.find('digest-T1')) && (await store.tokens.get('T2')), 'nothing was revoked');
    t.same(await store.tokens.revoke(['T1', 'T2']), { missing: [], revoked: ['T1', 'T2'] });
    t.equal(await store.tokens.find('digest-T1'), undefined);
    t.equal(await store.tokens.get('T2'), undefined);
    t.same(
      (await store.tokens.listOfUser('U1')).map((each) => each.token.id),
      ['T3'],
    );
  });

  await check('changes a token only if it is as it was read, and every reader sees the change', async (t, store, reopen) => {
    await createToken(store, token('T1', { expiresAt: NOW + 50 }), null, NOW);
    const change = (at: number, basedOn: number, restrictions?: Token['restrictions']) =>
      store.tokens.update(token('T1', { expiresAt: NOW + 50, updatedAt: NOW + at, restrictions }), NOW + basedOn);
    const limits = { suspended: true, rate: '5/1m', addresses: ['10.0.0.0/8'] } as const;
    t.equal(await change(1, 0, limits), 'updated');
    t.equal(await change(2, 0), 'changed_meanwhile', 'the record has changed since it was read');
    const found = [(await store.tokens.find('digest-T1'))?.token, (await store.tokens.get('T1'))?.token, (await store.tokens.listOfUser('U1'))[0]?.token];
    for (const each of found) t.match(each, { updatedAt: NOW + 1, expiresAt: NOW + 50, restrictions: limits });
    const both = await Promise.all([change(3, 1, { rate: '6/1m' }), change(4, 1, { rate: '7/1m' })]);
    t.same(both.toSorted(), ['changed_meanwhile', 'updated'], 'one of two concurrent changes is made');
    const again = await reopen();
    t.match((await again.tokens.get('T1'))?.token.restrictions, { rate: both[0] === 'updated' ? '6/1m' : '7/1m' });
    t.equal(await again.tokens.update(token('gone', { updatedAt: NOW + 1 }), NOW), 'not_found');
    t.equal(await again.maintenance.removeExpired(NOW + 51, NOW + 51, 9), 1, 'its expiry is still known');
    t.equal(await again.tokens.find('digest-T1'), undefined);
  }); // prettier-ignore

  await check('lists tokens that expire soon, and lets one caller claim each warning', async (t, store, reopen) => {
    const times = { A: NOW, B: NOW + 1, C: NOW + 10, D: NOW + 11 } as const;
    for (const [id, expiresAt] of Object.entries(times)) await createToken(store, token(id, { expiresAt }), null, NOW);
    await createToken(store, token('never'), null, NOW);
    await createSession(store, session('S1', { endsAt: NOW + 5 }));
    t.same(await store.tokens.listExpiring(NOW, NOW + 10), [{ id: 'B', expiresAt: NOW + 1 }, { id: 'C', expiresAt: NOW + 10 }]);
    const many = await Promise.all(Array.from({ length: 5 }, () => store.tokens.claimWarnings(['B', 'C', 'gone'])));
    t.same(many.flat().toSorted(), ['B', 'C'], 'by one of several concurrent callers');
    const again = await reopen();
    t.same(await again.tokens.claimWarnings(['B', 'C', 'D']), ['D'], 'across restarts');
    await again.tokens.revoke(['C']);
    t.same(await again.tokens.listExpiring(NOW, NOW + 10), [{ id: 'B', expiresAt: NOW + 1 }]);
  }); // prettier-ignore

  await check('does not list a rotated token as expiring soon', async (t, store, reopen) => {
    const before = token('T1', { expiresAt: NOW + 60_000 });
    await createToken(store, before, null, NOW);
    const terms = {
      id: 'T2',
      digest: 'digest-T2',
      overlap: 10_000,
      maxLifetime: null,
      notAfter: null,
      sharesRate: false,
    };
    const made = rotationOf(before, terms, NOW);
    t.equal(await store.tokens.rotate(made, user('U1'), { active: null, stored: null }, NOW), 'rotated');
    const tokens = Array.from({ length: 1_100 }, (_, i) => token(`R${i}`, { expiresAt: NOW + 20_000 }));
    t.equal(await store.directory.change({ tokens }, NOW), undefined);
    const ids = (await (await reopen()).tokens.listExpiring(NOW, NOW + 100_000)).map(({ id }) => id);
    t.same([ids.length, ids.includes('T1'), ids.includes('T2')], [1_101, false, true]);
  });

  await check('lists tokens by user and by customer', async (t, store) => {
    await createToken(store, token('A'), null, NOW);
    await createToken(store, token('B', { userId: 'U2' }), null, NOW);
    await createToken(store, token('C', { userId: 'U3' }), null, NOW);
    const ids = (list: { token: Token }[]) => list.map((each) => each.token.id).toSorted();
    t.same(ids(await store.tokens.listOfUser('U1')), ['A']);
    t.same(ids(await store.tokens.listOfCustomer('C1')), ['A', 'B']);
    t.same(ids(await store.tokens.listOfCustomer('C2')), ['C']);
  });

  await check(
    'the limit of active tokens holds for concurrent creations, and ignores expired ones',
    async (t, store) => {
      await createToken(store, token('old', { expiresAt: NOW - 1 }), null, NOW);
      const many = Array.from({ length: 10 }, (_, i) => createToken(store, token(`T${i}`), 3, NOW));
      const results = await Promise.all(many);
      t.equal(results.filter((result) => result === 'created').length, 3);
      t.equal(results.filter((result) => result === 'limit_reached').length, 7);
      t.equal(await createToken(store, token('x', { userId: 'nobody' }), null, NOW), 'owner_changed');
    },
  );

  await check('the limit of all tokens of a customer counts those of every user, until they are revoked', async (t, store) => {
    const create = async (id: string, userId: string) =>
      store.tokens.create(token(id, { userId }), user(userId), { active: null, stored: 9, ofCustomer: { id: 'C1', most: 4 } }, NOW);
    await store.directory.change({ tokens: [token('K', { kind: 'legacy_key' })] }, NOW);
    const created = [];
    for (const [i, userId] of ['U1', 'U2', 'U1', 'U2', 'U1'].entries()) created.push(await create(`T${i}`, userId));
    t.strictSame(created, ['created', 'created', 'created', 'customer_full', 'customer_full']);
    await store.tokens.revoke(['T0', 'T1']);
    t.strictSame([await create('A', 'U2'), await create('B', 'U1'), await create('C', 'U1')], ['created', 'created', 'customer_full']);
  }); // prettier-ignore

  await check('counts legacy keys, and never restores a revoked one', async (t, store) => {
    t.equal(await store.tokens.hasLegacyKeys(), false);
    const legacy = token('L1', { kind: 'legacy_key' });
    await store.directory.change({ tokens: [legacy, token('L2', { kind: 'legacy_key' })] }, NOW);
    await store.directory.change({ tokens: [legacy] }, NOW);
    t.equal(await store.tokens.hasLegacyKeys(), true);
    await store.tokens.revoke(['L1']);
    await store.directory.change({ tokens: [legacy] }, NOW);
    t.equal(await store.tokens.find('digest-L1'), undefined);
    t.ok(await store.tokens.find('digest-L2'));
    await store.tokens.revoke(['L2']);
    t.equal(await store.tokens.hasLegacyKeys(), false);
  });

  await declaredTokensContract(check);
  await rotationsContract(check);
}
