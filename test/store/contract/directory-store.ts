import { deletePending } from '../../../src/accounts/pending-deletions.js';
import type { User } from '../../../src/domain/user.js';
import type { Changes } from '../../../src/store/core/directory-checks.js';
import type { Check } from './check.js';
import { BASE, createSession, createToken, LONG_AGO, NOW, session, token, user } from './records.js';

/** Customers, services and users, and changes of several records. */
export async function directoryStoreContract(check: Check): Promise<void> {
  await check('returns records as they were written, across restarts', async (t, first, reopen) => {
    await createToken(first, token('T1', { services: ['S1'], expiresAt: NOW + 5 }), null, NOW);
    await createSession(first, session('D1'));
    const store = await reopen();
    t.same(await store.directory.getCustomer('C1'), { id: 'C1', name: 'One' });
    t.same(await store.directory.getService('S1'), BASE.services?.[0]);
    t.same(await store.directory.getUser('U1'), user('U1'));
    t.same(await store.directory.getUserByLogin('u1@EXAMPLE.com'), user('U1'), 'case-insensitive');
    t.same(await store.tokens.find('digest-T1'), {
      token: token('T1', { services: ['S1'], expiresAt: NOW + 5 }),
      owner: user('U1'),
    });
    t.same(await store.sessions.find('D1'), { session: session('D1'), owner: user('U1') });
    t.same((await store.directory.listUsers('C1')).map(({ id }) => id).toSorted(), ['U1', 'U2']);
    t.same((await store.directory.listCustomers()).map(({ id }) => id).toSorted(), ['C1', 'C2']);
    t.same(
      (await store.directory.listServices('C1')).map(({ id }) => id),
      ['S1'],
    );
    t.same(await store.directory.listServices('C2'), []);
    for (const nothing of [
      await store.directory.getUser('x'), await store.directory.getUserByLogin('x'), await store.tokens.find('x'), await store.sessions.find('x'),
      await store.tokens.get('x'), await store.directory.getCustomer('x'), await store.directory.getService('x'),
    ]) t.equal(nothing, undefined); // prettier-ignore
    await store.maintenance.probe();
  });

  await check('a token to add must have an owner', async (t, store) => {
    const orphan = token('T1', { userId: 'U9' });
    const refused = { reason: 'unknown_user', userId: 'U9' };
    t.same(await store.directory.change({ users: [user('U8')], tokens: [orphan] }, NOW), refused);
    t.equal(await store.directory.getUser('U8'), undefined, 'nothing is written');
    t.same(
      await store.directory.change({ tokens: [token('T1', { userId: 'U2' })], removeUsers: ['U2'] }, NOW),
      {
        reason: 'unknown_user',
        userId: 'U2',
      },
    );
    t.equal(await store.directory.change({ users: [user('U9')], tokens: [orphan] }, NOW), undefined);
    t.ok(await store.tokens.find('digest-T1'));
  });

  await check(
    'refuses to remove a user with active tokens, and writes nothing else of that change',
    async (t, store) => {
      await createToken(store, token('T1'), null, NOW);
      await createToken(store, token('T2', { expiresAt: LONG_AGO }), null, NOW);
      const change = { removeUsers: ['U2', 'U1'], users: [user('U9')], customers: [{ id: 'C9', name: 'x' }] };
      t.same(await store.directory.change(change, NOW), {
        reason: 'active_tokens',
        users: [{ userId: 'U1', tokenIds: ['T1'] }],
      });
      t.ok(await store.directory.getUser('U2'));
      t.equal(await store.directory.getUser('U9'), undefined);
      t.equal(await store.directory.getCustomer('C9'), undefined);
      await store.tokens.revoke(['T1']);
      await createSession(store, session('D1'));
      t.equal(await store.directory.change(change, NOW), undefined);
      t.equal(await store.directory.getUser('U1'), undefined);
      t.equal(await store.directory.getUserByLogin('U1@example.com'), undefined);
      t.equal(await store.sessions.find('D1'), undefined, 'its sessions are removed');
      t.equal(await store.tokens.get('T2'), undefined, 'its expired tokens are removed');
    },
  );

  await check('removes a customer with all of its users and services, or not at all', async (t, store) => {
    const inUse = (customerId: string) => ({ reason: 'customer_in_use', customerId });
    const rest = { customers: [{ id: 'C9', name: 'x' }], users: [user('U9', { customerId: 'C9' })] };
    const moved = user('U3', { updatedAt: NOW + 1 });
    const refused: [string, Changes][] = [
      ['C2', { removeCustomers: ['C2'] }],
      ['C1', { removeCustomers: ['C1'], removeUsers: ['U1', 'U2', 'U2'] }],
      ['C1', { removeCustomers: ['C1'], removeUsers: ['U1', 'U3', 'U2', 'none'], removeServices: ['none'] }],
      ['C1', { removeCustomers: ['C1'], removeUsers: ['U1', 'U3'], removeServices: ['S1'] }],
      ['C2', { removeCustomers: ['C1', 'C2'], removeUsers: ['U1', 'U2'], removeServices: ['S1'] }],
      ['C1', { removeCustomers: ['C1'], removeUsers: ['U1', 'U1'], removeServices: ['S1', 'S1'] }],
    ];
    for (const [customerId, change] of refused) {
      t.strictSame(await store.directory.change({ ...rest, ...change }, NOW), inUse(customerId), JSON.stringify(change));
      t.equal(await store.directory.getCustomer('C9'), undefined, 'nothing is written');
    }
    t.strictSame(await store.directory.change({ removeCustomers: ['C2'], users: [user('U3', { customerId: 'C2' })] }, NOW), {
      reason: 'unknown_customer',
      customerId: 'C2',
    });
    const again = { customers: [{ id: 'C2', name: 'again' }], removeCustomers: ['C2'] };
    t.equal(await store.directory.change(again, NOW), undefined, 'a user that is declared again stays');
    t.equal(await store.directory.change({ removeCustomers: ['C2'], users: [moved] }, NOW), undefined, 'its user moved');
    t.equal(await store.directory.getCustomer('C2'), undefined);
    const service = { id: 'S1', customerId: 'C9', name: 'www' };
    const all = { ...rest, removeCustomers: ['C1', 'none'], removeUsers: ['U1', 'U2', 'U3'], services: [service] };
    t.equal(await store.directory.change(all, NOW), undefined, 'its service moved, its users are removed');
    t.strictSame((await store.directory.listCustomers()).map(({ id }) => id), ['C9']);
  }); // prettier-ignore

  await check('either a user joins a customer, or the customer is removed', async (t, store) => {
    for (let round = 0; round < 10; round++) {
      const [customerId, id] = [`R${round}`, `RU${round}`];
      await store.directory.change({ customers: [{ id: customerId, name: '' }] }, NOW);
      const results = await Promise.all([
        store.directory.change({ removeCustomers: [customerId] }, NOW),
        store.directory.change({ users: [user(id, { customerId })] }, NOW),
      ]);
      t.equal(results.filter((refused) => refused === undefined).length, 1);
      t.equal(
        (await store.directory.getCustomer(customerId)) === undefined,
        (await store.directory.getUser(id)) === undefined,
      );
    }
  });

  await check('lists users whose deletion is pending until they are kept or removed', async (t, store) => {
    const pending = (id: string) => user(id, { locked: true, deletionPending: true });
    const change = (changes: Changes) => store.directory.change(changes, NOW);
    t.same(await store.directory.listPendingDeletions(), []);
    await createToken(store, token('T1', { expiresAt: LONG_AGO + 5 }), null, NOW);
    await change({ users: [pending('U1'), pending('U2'), pending('U3')] });
    t.same([...(await store.directory.listPendingDeletions())].toSorted(), ['U1', 'U2', 'U3']);
    t.same(await store.directory.getUser('U1'), pending('U1'));
    await change({ users: [user('U2')], removeUsers: ['U3'] });
    t.same(await store.directory.listPendingDeletions(), ['U1']);

    const told: string[] = [];
    const tell = ({ id }: User, outcome: string) => void told.push(`${id} ${outcome}`);
    await deletePending(store, LONG_AGO + 4, tell);
    t.same(told, []);
    t.ok(await store.directory.getUser('U1'), 'a token still works');
    await deletePending(store, LONG_AGO + 5, tell);
    t.same(told, ['U1 success']);
    t.equal(await store.directory.getUser('U1'), undefined);
    t.same(await store.directory.listPendingDeletions(), []);
    t.ok(await store.directory.getUser('U2'));
  });

  await check('refuses a change that is based on outdated records', async (t, store) => {
    const change = (updatedAt: number | null, id = 'U1'): Changes => ({
      users: [user(id, { name: 'new', updatedAt: NOW + 1 })],
      basedOn: new Map([[id, updatedAt]]),
    });
    t.same(await store.directory.change(change(NOW - 1), NOW), { reason: 'changed_meanwhile', userId: 'U1' });
    t.equal((await store.directory.getUser('U1'))?.name, 'U1');
    t.same(await store.directory.change(change(null), NOW), { reason: 'changed_meanwhile', userId: 'U1' }, 'created meanwhile');
    t.same(await store.directory.change(change(NOW, 'U9'), NOW), { reason: 'changed_meanwhile', userId: 'U9' }, 'removed meanwhile');
    t.equal(await store.directory.change(change(NOW), NOW), undefined);
    t.equal(await store.directory.change(change(null, 'U9'), NOW), undefined);
    const parallel = await Promise.all([store.directory.change(change(NOW + 1), NOW), store.directory.change(change(NOW), NOW)]);
    t.equal(parallel.filter((result) => result === undefined).length, 1);
  }); // prettier-ignore

  await check('tokens that a change removes can be added again; revoked legacy keys cannot', async (t, store) => {
    const key = (id: string) => token(id, { kind: 'legacy_key' });
    const add = (...ids: string[]) => store.directory.change({ tokens: ids.map(key) }, NOW);
    await add('K1', 'K2', 'K3');
    t.same(await store.tokens.filterNewDigests(['digest-K1', 'digest-K9', 'digest-K2']), ['digest-K9']);
    await store.directory.change({ removeTokens: ['K1', 'nope'] }, NOW);
    await store.tokens.revoke(['K2']);
    t.equal(await store.tokens.find('digest-K1'), undefined);
    t.same(await store.tokens.filterNewDigests(['digest-K1', 'digest-K2', 'digest-K3']), ['digest-K1']);
    await add('K1', 'K2');
    t.ok(await store.tokens.find('digest-K1'));
    t.equal(await store.tokens.find('digest-K2'), undefined);
    t.same(await store.directory.change({ removeTokens: ['K1', 'K3'], removeUsers: ['U1'] }, NOW), undefined, 'they do not block the removal of their owner');
    t.equal(await store.tokens.hasLegacyKeys(), false);
  }); // prettier-ignore

  await check('a login name belongs to one user, but two users may swap theirs', async (t, store) => {
    const refused = await store.directory.change({ users: [user('U9', { login: 'U1@example.com' })] }, NOW);
    t.match(refused, { reason: 'login_taken', userId: 'U9' });
    t.equal(await store.directory.getUser('U9'), undefined);
    const twice = await store.directory.change(
      { users: [user('X', { login: 'n' }), user('Y', { login: 'N' })] },
      NOW,
    );
    t.match(twice, { reason: 'login_taken' });
    const swap = [user('U1', { login: 'U2@example.com' }), user('U2', { login: 'U1@example.com' })];
    t.equal(await store.directory.change({ users: swap }, NOW), undefined);
    t.equal((await store.directory.getUserByLogin('U1@example.com'))?.id, 'U2');
    t.equal((await store.directory.getUserByLogin('U2@example.com'))?.id, 'U1');
    t.equal(await store.directory.change({ users: [user('U1', { login: 'new' })] }, NOW), undefined);
    t.equal(await store.directory.getUserByLogin('U2@example.com'), undefined, 'the old name is free');
    t.match(await store.directory.change({ users: [user('Z', { customerId: 'nope' })] }, NOW), {
      reason: 'unknown_customer',
    });
  });

  await check('rehashing a password ends nothing, and the highest hash cost is known', async (t, store, reopen) => {
    const hash = (parameters: string) => `$argon2id$v=19$${parameters}$c2FsdHNhbHQ$aGFzaGhhc2g`;
    t.equal(await store.directory.getPasswordCost(), 0);
    await createSession(store, session('D1'));
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + 60_000);
    const renewed = user('U1', { passwordHash: hash('m=4096,t=3,p=1') });
    t.equal(await store.directory.change({ users: [renewed], rehashed: ['U1'] }, NOW), undefined);
    t.ok(await store.sessions.find('D1'));
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), true);
    t.equal(await store.directory.getPasswordCost(), 12_288);
    await store.directory.change({ users: [user('U2', { passwordHash: hash('m=1024,t=1,p=1') })] }, NOW);
    const again = await reopen();
    t.equal(await again.directory.getPasswordCost(), 12_288);
    t.equal(await again.directory.change({ users: [{ ...renewed, locked: true }], rehashed: ['U1'] }, NOW), undefined);
    t.equal(await again.sessions.find('D1'), undefined, 'a lock ends them, whatever else changes');
  }); // prettier-ignore
}
