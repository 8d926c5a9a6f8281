import type { Test } from 'tap';
import { deletePending } from '../../src/accounts/pending-deletions.js';
import { digestOf } from '../../src/domain/secret.js';
import type { Session } from '../../src/domain/session.js';
import type { SigningKey, SigningKeys } from '../../src/domain/signing-key.js';
import type { Token } from '../../src/domain/token.js';
import type { User } from '../../src/domain/user.js';
import type { AttemptLimit } from '../../src/store/attempts.js';
import type { Changes } from '../../src/store/directory-store.js';
import type { Store } from '../../src/store/store.js';

export const NOW = 1_800_000_000_000;
const USE = { at: NOW, ip: '127.0.0.1', userAgent: 'probe' };

export function user(id: string, more: Partial<User> = {}): User {
  return {
    id, customerId: 'C1', login: `${id}@example.com`, name: id, role: 'user', passwordHash: 'hash', otpSecret: null,
    locked: false, createdAt: NOW, updatedAt: NOW, ...more,
  }; // prettier-ignore
}

export function token(id: string, more: Partial<Token> = {}): Token {
  return {
    id, digest: `digest-${id}`, kind: 'token', userId: 'U1', name: '', scopes: ['global'], services: [],
    serviceId: null, createdAt: NOW, updatedAt: NOW, expiresAt: null, ...more,
  }; // prettier-ignore
}

export function session(digest: string, more: Partial<Session> = {}): Session {
  return {
    digest, id: `id-${digest}`, userId: 'U1', createdAt: NOW, endsAt: NOW + 1_000, lastSeenAt: NOW,
    ip: '127.0.0.1', userAgent: null, ...more,
  }; // prettier-ignore
}

function signingKey(kid: string): SigningKey {
  return { kid, algorithm: 'EdDSA', sealedKey: 'v1.a.b', signsFrom: NOW };
} // prettier-ignore

/** A user of {@link BASE} as its record is. */
function ownerOf(id: string): User {
  return user(id, { customerId: id === 'U3' ? 'C2' : 'C1' });
}

/** Creates a token for its owner as {@link BASE} has it. */
export async function createToken(store: Store, created: Token, maxPerUser: number | null, now: number) {
  const limits = { active: maxPerUser, stored: null };
  return store.tokens.create(created, ownerOf(created.userId), limits, now);
}

async function createSession(store: Store, created: Session) {
  return store.sessions.create(created, ownerOf(created.userId), null);
}

/** Whether a customer has one token, two, or three. */
async function countsOf(store: Store, customerId: string): Promise<boolean[]> {
  const has = [1, 2, 3].map(async (count) => store.tokens.customerHasAtLeast(customerId, count));
  return Promise.all(has);
}

/** Failures of an account, as a login counts them. */
const FAILURES: AttemptLimit = {
  key: 'account:a', free: 3, longestWait: 4_000, stopAt: 1_000, forgetAfter: 20_000, forgetFrom: 'latest',
}; // prettier-ignore

export const BASE: Changes = {
  customers: [{ id: 'C1', name: 'One' }, { id: 'C2', name: 'Two' }],
  services: [{ id: 'S1', customerId: 'C1', name: 'www' }],
  users: [user('U1'), user('U2'), user('U3', { customerId: 'C2' })],
}; // prettier-ignore

/**
 * What every store promises. Each case gets a store of its own with {@link BASE} in it.
 *
 * @param open opens the same empty-or-not store again; `fresh` makes another one
 */
export async function storeContract(
  t: Test,
  fresh: (t: Test) => { open: () => Store | Promise<Store> },
): Promise<void> {
  const check = (
    name: string,
    body: (t: Test, store: Store, reopen: () => Promise<Store>) => Promise<void>,
  ) =>
    t.test(name, async (t) => {
      const { open } = fresh(t);
      let store = await open();
      await store.maintenance.begin();
      t.equal(await store.directory.change(BASE, NOW), undefined);
      const reopen = async () => {
        await store.maintenance.close();
        return (store = await open());
      };
      await body(t, store, reopen);
      await store.maintenance.close();
    });

  await check('records come back as they were written, after a restart too', async (t, first, reopen) => {
    await createToken(first, token('T1', { services: ['S1'], expiresAt: NOW + 5 }), null, NOW);
    await createSession(first, session('D1'));
    const store = await reopen();
    t.same(await store.directory.getCustomer('C1'), { id: 'C1', name: 'One' });
    t.same(await store.directory.getService('S1'), BASE.services?.[0]);
    t.same(await store.directory.getUser('U1'), user('U1'));
    t.same(await store.directory.getUserByLogin('u1@EXAMPLE.com'), user('U1'), 'upper and lower case alike');
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
      t.equal((await store.sessions.find('D1'))?.owner.customerId, customerId, 'sessions go along');
      t.same(await countsOf(store, 'C1'), [here.length > 0, here.length > 1, false]);
      t.same(await countsOf(store, 'C2'), [there.length > 0, there.length > 1, false]);
    }
    t.same(await countsOf(store, 'nope'), [false, false, false]);
  });

  await check('a token to add has to have an owner', async (t, store) => {
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

  await check('so many tokens of a user are kept; expired ones make room, the first to end before the others', async (t, store) => {
    const limits = { active: null, stored: 4 };
    const create = (id: string, expiresAt: number | null = null) =>
      store.tokens.create(token(id, { expiresAt }), user('U1'), limits, NOW);
    const ids = async () => (await store.tokens.listOfUser('U1')).map((each) => each.token.id).toSorted();
    for (const [id, expiresAt] of [['E2', NOW - 20], ['E1', NOW - 10], ['E3', NOW - 30], ['A', NOW + 10]] as const)
      t.equal(await create(id, expiresAt), 'created');
    t.equal(await create('B'), 'created');
    t.strictSame(await ids(), ['A', 'B', 'E1', 'E2']);
    t.equal(await store.tokens.find('digest-E3'), undefined);
    const many = await Promise.all(['C', 'D', 'E', 'F'].map((id) => create(id)));
    t.strictSame(many.toSorted(), ['created', 'created', 'full', 'full'], 'of many at once as well');
    t.equal((await ids()).length, 4);
    t.equal(await create('G'), 'full', 'active ones never make room');
    t.same([await store.tokens.customerHasAtLeast('C1', 4), await store.tokens.customerHasAtLeast('C1', 5)], [true, false]);
    t.equal(await store.tokens.create(token('H', { userId: 'U2' }), user('U2'), limits, NOW), 'created', 'each user has a limit');
    for (const id of ['A', 'B']) await store.tokens.revoke([id]);
    t.equal(await create('I'), 'created');
    // With a limit that was lowered, all that is too much has to be expired.
    for (const id of ['X', 'Y']) await createToken(store, token(id, { expiresAt: NOW - 1 }), null, NOW);
    t.equal(await store.tokens.create(token('J'), user('U1'), { active: null, stored: 5 }, NOW), 'created');
    t.equal((await ids()).length, 5);
    t.equal(await store.maintenance.removeExpired(NOW, NOW, 9), 1, 'what made room left nothing behind');
  }); // prettier-ignore

  await check('so many sessions of a user are on; the one that was used longest ago ends', async (t, store) => {
    const start = (id: string, lastSeenAt: number, userId = 'U1') =>
      store.sessions.create(session(id, { lastSeenAt, endsAt: NOW + 10, userId }), ownerOf(userId), 3);
    const on = async () => (await store.sessions.listOfUser('U1')).map(({ digest }) => digest).toSorted();
    for (const [i, id] of ['A', 'B', 'C'].entries()) t.strictSame(await start(id, NOW + i), []);
    await store.usage.recordUses({ tokens: new Map(), sessions: new Map([['A', { ...USE, at: NOW + 9, idleEndsAt: NOW + 10 }]]) });
    t.match(await start('D', NOW + 4), [{ digest: 'B', userId: 'U1' }]);
    t.strictSame(await on(), ['A', 'C', 'D']);
    t.equal(await store.sessions.find('B'), undefined);
    t.strictSame(await start('X', NOW, 'U2'), [], 'each user has a limit');
    t.strictSame(await start('D', NOW + 5), [], 'one that is written again takes no more room');
    await Promise.all(['E', 'F', 'G', 'H'].map((id) => start(id, NOW + 8)));
    t.equal((await on()).length, 3);
    t.strictSame((await store.sessions.create(session('I', { lastSeenAt: NOW + 20 }), user('U1'), 1) as Session[]).length, 3, 'a limit that was lowered');
    t.equal(await store.maintenance.removeExpired(NOW + 10, NOW, 9), 1, 'what ended left nothing behind');
    t.strictSame(await on(), ['I']);
  }); // prettier-ignore

  await check('a session that is written again ends when the later record says', async (t, store) => {
    await createSession(store, session('D1', { idleEndsAt: NOW + 10 }));
    await createSession(store, session('D1', { idleEndsAt: NOW + 20 }));
    t.equal(await store.maintenance.removeExpired(NOW + 10, NOW, 9), 0);
    t.ok(await store.sessions.find('D1'));
    t.equal(await store.maintenance.removeExpired(NOW + 20, NOW, 9), 1);
  });

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
    t.equal(await store.sessions.endOfUser('U1'), 60);
  });

  await check('a store that is half restored is begun by a restore only', async (t, store, reopen) => {
    t.equal(await store.maintenance.isRestoring(), false);
    await store.maintenance.setRestoring(true);
    const again = await reopen();
    t.equal(await again.maintenance.isRestoring(), true);
    await t.rejects(again.maintenance.begin(), { code: 'STORE_UNUSABLE', message: /interrupted/ });
    await again.maintenance.begin('restore');
    await again.maintenance.setRestoring(false);
    await again.maintenance.begin();
    t.equal(await again.maintenance.isRestoring(), false);
  });

  await check('a revocation takes tokens, all or none', async (t, store) => {
    for (const id of ['T1', 'T2', 'T3']) await createToken(store, token(id), null, NOW);
    t.same(await store.tokens.revoke(['T1', 'nope', 'T2', 'gone']), ['nope', 'gone']);
    t.ok((await store.tokens.find('digest-T1')) && (await store.tokens.get('T2')), 'nothing was revoked');
    t.same(await store.tokens.revoke(['T1', 'T2']), []);
    t.equal(await store.tokens.find('digest-T1'), undefined);
    t.equal(await store.tokens.get('T2'), undefined);
    t.same(
      (await store.tokens.listOfUser('U1')).map((each) => each.token.id),
      ['T3'],
    );
  });

  await check('tokens are listed by user and by customer', async (t, store) => {
    await createToken(store, token('A'), null, NOW);
    await createToken(store, token('B', { userId: 'U2' }), null, NOW);
    await createToken(store, token('C', { userId: 'U3' }), null, NOW);
    const ids = (list: { token: Token }[]) => list.map((each) => each.token.id).toSorted();
    t.same(ids(await store.tokens.listOfUser('U1')), ['A']);
    t.same(ids(await store.tokens.listOfCustomer('C1')), ['A', 'B']);
    t.same(ids(await store.tokens.listOfCustomer('C2')), ['C']);
  });

  await check(
    'a limit of active tokens holds for creations at once; expired ones do not count',
    async (t, store) => {
      await createToken(store, token('old', { expiresAt: NOW - 1 }), null, NOW);
      const many = Array.from({ length: 10 }, (_, i) => createToken(store, token(`T${i}`), 3, NOW));
      const results = await Promise.all(many);
      t.equal(results.filter((result) => result === 'created').length, 3);
      t.equal(results.filter((result) => result === 'limit_reached').length, 7);
      t.equal(await createToken(store, token('x', { userId: 'nobody' }), null, NOW), 'owner_changed');
    },
  );

  await check(
    'a user with active tokens is not removed, and nothing else of that change is written',
    async (t, store) => {
      await createToken(store, token('T1'), null, NOW);
      await createToken(store, token('T2', { expiresAt: NOW - 1 }), null, NOW);
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
      t.equal(await store.sessions.find('D1'), undefined, 'its sessions went with it');
      t.equal(await store.tokens.get('T2'), undefined, 'so did its expired tokens');
    },
  );

  await check('a customer is removed with all of its users and services, or not at all', async (t, store) => {
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
    t.equal(await store.directory.change(again, NOW), undefined, 'one that is declared again stays');
    t.equal(await store.directory.change({ removeCustomers: ['C2'], users: [moved] }, NOW), undefined, 'its user moved');
    t.equal(await store.directory.getCustomer('C2'), undefined);
    const service = { id: 'S1', customerId: 'C9', name: 'www' };
    const all = { ...rest, removeCustomers: ['C1', 'none'], removeUsers: ['U1', 'U2', 'U3'], services: [service] };
    t.equal(await store.directory.change(all, NOW), undefined, 'its service moved, its users went');
    t.strictSame((await store.directory.listCustomers()).map(({ id }) => id), ['C9']);
  }); // prettier-ignore

  await check('whoever comes first: a user gets a customer, or the customer goes', async (t, store) => {
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

  await check('users whose deletion is pending are listed until they are kept or gone', async (t, store) => {
    const pending = (id: string) => user(id, { locked: true, deletionPending: true });
    const change = (changes: Changes) => store.directory.change(changes, NOW);
    t.same(await store.directory.listPendingDeletions(), []);
    await createToken(store, token('T1', { expiresAt: NOW + 5 }), null, NOW);
    await change({ users: [pending('U1'), pending('U2'), pending('U3')] });
    t.same([...(await store.directory.listPendingDeletions())].toSorted(), ['U1', 'U2', 'U3']);
    t.same(await store.directory.getUser('U1'), pending('U1'));
    await change({ users: [user('U2')], removeUsers: ['U3'] });
    t.same(await store.directory.listPendingDeletions(), ['U1']);

    const told: string[] = [];
    const tell = ({ id }: User, outcome: string) => void told.push(`${id} ${outcome}`);
    await deletePending(store, NOW + 4, tell);
    t.same(told, []);
    t.ok(await store.directory.getUser('U1'), 'a token still works');
    await deletePending(store, NOW + 5, tell);
    t.same(told, ['U1 success']);
    t.equal(await store.directory.getUser('U1'), undefined);
    t.same(await store.directory.listPendingDeletions(), []);
    t.ok(await store.directory.getUser('U2'));
  });

  await check('a change that was worked out from what is no longer so is refused', async (t, store) => {
    const change = (updatedAt: number | null, id = 'U1'): Changes => ({
      users: [user(id, { name: 'new', updatedAt: NOW + 1 })],
      basedOn: new Map([[id, updatedAt]]),
    });
    t.same(await store.directory.change(change(NOW - 1), NOW), { reason: 'changed_meanwhile', userId: 'U1' });
    t.equal((await store.directory.getUser('U1'))?.name, 'U1');
    t.same(await store.directory.change(change(null), NOW), { reason: 'changed_meanwhile', userId: 'U1' }, 'it is there by now');
    t.same(await store.directory.change(change(NOW, 'U9'), NOW), { reason: 'changed_meanwhile', userId: 'U9' }, 'it is gone by now');
    t.equal(await store.directory.change(change(NOW), NOW), undefined);
    t.equal(await store.directory.change(change(null, 'U9'), NOW), undefined);
    const parallel = await Promise.all([store.directory.change(change(NOW + 1), NOW), store.directory.change(change(NOW), NOW)]);
    t.equal(parallel.filter((result) => result === undefined).length, 1);
  }); // prettier-ignore

  await check('tokens that a change takes away can be added again; revoked legacy keys cannot', async (t, store) => {
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
    t.same(await store.directory.change({ removeTokens: ['K1', 'K3'], removeUsers: ['U1'] }, NOW), undefined, 'they do not hold their owner');
    t.equal(await store.tokens.hasLegacyKeys(), false);
  }); // prettier-ignore

  await check('a login name belongs to one user, but two may swap theirs', async (t, store) => {
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

  await check(
    'a changed password or lock ends the sessions of the user, a changed role does not',
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

  await check('legacy keys are counted, and a revoked one never comes back', async (t, store) => {
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

  await check('sessions end one by one or all but one', async (t, store) => {
    for (const digest of ['A', 'B', 'C']) await createSession(store, session(digest));
    t.equal(await store.sessions.end('A'), true);
    t.equal(await store.sessions.end('A'), false);
    t.equal(await store.sessions.endOfUser('U1', 'B'), 1);
    t.same(
      (await store.sessions.listOfUser('U1')).map(({ digest }) => digest),
      ['B'],
    );
    t.equal(await store.sessions.endOfUser('U1'), 1);
  });

  await check('last uses: the newest is kept, and what is gone stays gone', async (t, store) => {
    await createToken(store, token('T1'), null, NOW);
    await createSession(store, session('D1'));
    t.equal((await store.tokens.get('T1'))?.use, null);
    const at = (ms: number) => ({ ...USE, at: ms });
    const uses = (ms: number) => ({
      tokens: new Map([['T1', at(ms)], ['gone', at(ms)]]),
      sessions: new Map([['D1', { ...at(ms), idleEndsAt: NOW + 900 }], ['gone', { ...at(ms), idleEndsAt: NOW + 900 }]]),
    }); // prettier-ignore
    await store.usage.recordUses(uses(NOW + 10));
    await store.usage.recordUses(uses(NOW + 5));
    t.same((await store.tokens.get('T1'))?.use, at(NOW + 10));
    t.equal((await store.sessions.find('D1'))?.session.lastSeenAt, NOW + 10);
    t.equal(await store.tokens.get('gone'), undefined);
    await store.tokens.revoke(['T1']);
    await createToken(store, token('T1'), null, NOW);
    t.equal((await store.tokens.get('T1'))?.use, null, 'a use goes with its token');
  });

  await check('last uses of many, one of them revoked meanwhile', async (t, store) => {
    const ids = Array.from({ length: 300 }, (_, index) => `M${index}`);
    for (const id of ids) await createToken(store, token(id), null, NOW);
    const written = store.usage.recordUses({
      tokens: new Map(ids.map((id) => [id, { ...USE, at: NOW + 1 }])),
      sessions: new Map(),
    });
    await store.tokens.revoke(['M299']);
    await written;
    let seen = 0;
    for (const id of ids) if ((await store.tokens.get(id))?.use?.at === NOW + 1) seen += 1;
    t.equal(seen, 299);
    await createToken(store, token('M299'), null, NOW);
    t.equal((await store.tokens.get('M299'))?.use, null, 'nothing was written for what was gone');
  });

  await check(
    'a one-time-password step is taken once, and never an earlier one',
    async (t, store, reopen) => {
      const results = await Promise.all(Array.from({ length: 20 }, () => store.usage.takeOtpStep('U1', 100)));
      t.equal(results.filter(Boolean).length, 1);
      t.equal(await store.usage.takeOtpStep('U1', 99), false);
      t.equal(await store.usage.takeOtpStep('U2', 99), true, 'each user has its own');
      const again = await reopen();
      t.equal(await again.usage.takeOtpStep('U1', 100), false, 'after a restart too');
      t.equal(await again.usage.takeOtpStep('U1', 101), true);
    },
  );

  await check('writes are counted by user and hour', async (t, store, reopen) => {
    const counts = await Promise.all(Array.from({ length: 10 }, () => store.usage.countWrite('U1', NOW)));
    t.same(counts.toSorted((a, b) => a - b), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    t.equal(await store.usage.countWrite('U2', NOW), 1, 'each user has its own');
    const again = await reopen();
    t.equal(await again.usage.countWrite('U1', NOW), 11, 'after a restart too');
    t.equal(await again.usage.countWrite('U1', NOW + 3_600_000), 1, 'a new hour begins anew');
    t.equal(await again.usage.countWrite('U1', NOW), 2, 'one whose clock is behind counts into it');
    t.equal(await again.usage.countWrite('U1', NOW + 7_200_000), 1);
    t.equal(await again.usage.countWrite('U1', NOW), 1, 'a clock that was hours ahead keeps nobody out');
  }); // prettier-ignore

  await check('what a copy needs beside the records: steps that were taken and revoked digests', async (t, store) => {
    t.equal(await store.usage.getOtpStep('U1'), -1);
    await store.usage.takeOtpStep('U1', 7);
    t.equal(await store.usage.getOtpStep('U1'), 7);
    t.same(await store.tokens.listRevokedDigests(), []);
    await store.tokens.addRevokedDigests(['digest-K1', 'digest-K2']);
    t.same((await store.tokens.listRevokedDigests()).toSorted(), ['digest-K1', 'digest-K2']);
    await store.directory.change({ tokens: [token('K1', { kind: 'legacy_key' })] }, NOW);
    t.equal(await store.tokens.find('digest-K1'), undefined);
  }); // prettier-ignore

  await check('signing keys are replaced by who knows their revision, once', async (t, store, reopen) => {
    t.equal(await store.signingKeys.get(), undefined);
    const keys = (revision: number, ...kids: string[]): SigningKeys => ({ revision, keys: kids.map(signingKey) });
    t.equal(await store.signingKeys.replace(keys(2, 'A')), false, 'nothing has revision 1');
    const first = await Promise.all(['A', 'B', 'C'].map((kid) => store.signingKeys.replace(keys(1, kid))));
    t.equal(first.filter(Boolean).length, 1, 'of several at once one is taken');
    const [kid = ''] = ['A', 'B', 'C'].filter((_, i) => first[i]);
    t.same(await store.signingKeys.get(), keys(1, kid));
    t.equal(await store.signingKeys.replace(keys(3, 'X')), false);
    t.equal(await store.signingKeys.replace(keys(2, kid, 'D')), true);
    const again = await reopen();
    t.same(await again.signingKeys.get(), keys(2, kid, 'D'), 'after a restart too');
    t.equal(await again.signingKeys.remove(), true);
    t.equal(await again.signingKeys.remove(), false);
    t.equal(await again.signingKeys.get(), undefined);
    t.equal(await again.signingKeys.replace(keys(1, 'E')), true, 'and it begins anew');
  }); // prettier-ignore

  await check('an attempt is counted before it is judged, and held up behind the free ones', async (t, store) => {
    for (const key of ['account:a', 'x'.repeat(3_000)]) {
      const limits = [{ ...FAILURES, key }];
      const many = await Promise.all(Array.from({ length: 10 }, () => store.loginThrottle.reserve(limits, NOW)));
      t.same(many.filter((until) => until === 0).length, 3, 'of many at once the free ones go ahead');
      t.same(new Set(many), new Set([0, NOW + 1_000]), 'the others are told until when they wait');
      t.equal(await store.loginThrottle.heldUntil(limits, NOW + 999), NOW + 1_000);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 999), NOW + 1_000, 'what is held up is not counted');
      t.equal(await store.loginThrottle.heldUntil(limits, NOW + 1_000), 0);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 1_000), 0);
      t.equal(await store.loginThrottle.heldUntil(limits, NOW + 1_000), NOW + 3_000, 'the wait doubles');
      t.equal(await store.loginThrottle.heldUntil(limits, NOW - 5_000), NOW - 3_000, 'a clock that is set back makes no wait longer');
      t.equal(await store.loginThrottle.reserve(limits, NOW + 3_000), 0);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 7_000), 0);
      t.equal(await store.loginThrottle.heldUntil(limits, NOW + 7_000), NOW + 11_000, 'up to the longest');
      t.equal(await store.loginThrottle.heldUntil(limits, NOW + 27_000), 0, 'forgotten');
      t.equal(await store.loginThrottle.reserve(limits, NOW + 27_000), 0);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 27_000), 0, 'counted anew');
      await store.loginThrottle.settle({ clear: [key], release: [] }, NOW);
    }
  }); // prettier-ignore

  await check('an attempt under several keys is counted under all or none', async (t, store) => {
    const [account, network] = [FAILURES, { ...FAILURES, key: 'address:1.2.3.4', free: 1 }];
    t.equal(await store.loginThrottle.reserve([account, network], NOW), 0);
    t.equal(await store.loginThrottle.reserve([account, network], NOW), NOW + 1_000);
    t.equal(await store.loginThrottle.reserve([account], NOW), 0, 'one was counted, not two');
    t.equal(await store.loginThrottle.reserve([account], NOW), 0);
    t.equal(await store.loginThrottle.reserve([account], NOW), NOW + 1_000);
  });

  await check('an attempt that is taken back leaves no trace, in the count nor in the wait', async (t, store) => {
    const release = { clear: [], release: [FAILURES.key] };
    for (let i = 0; i < 10; i++) {
      t.equal(await store.loginThrottle.reserve([FAILURES], NOW + i), 0);
      await store.loginThrottle.settle(release, NOW + i);
    }
    for (let i = 0; i < 3; i++) await store.loginThrottle.reserve([FAILURES], NOW);
    t.equal(await store.loginThrottle.heldUntil([FAILURES], NOW), NOW + 1_000);
    t.equal(await store.loginThrottle.reserve([FAILURES], NOW + 2_000), 0);
    await store.loginThrottle.settle(release, NOW + 2_000);
    t.equal(await store.loginThrottle.reserve([FAILURES], NOW + 2_001), 0, 'the wait is that of the failures before');
    await store.loginThrottle.settle({ clear: [FAILURES.key, 'none'], release: ['none'] }, NOW);
    t.equal(await store.loginThrottle.heldUntil([FAILURES], NOW + 2_001), 0);
  }); // prettier-ignore

  await check('a count may stop everything until it is forgotten, and a window is not moved', async (t, store) => {
    const stop: AttemptLimit = { ...FAILURES, free: 1, stopAt: 2 };
    t.equal(await store.loginThrottle.reserve([stop], NOW), 0);
    t.equal(await store.loginThrottle.reserve([stop], NOW + 1_000), 0);
    t.equal(await store.loginThrottle.reserve([stop], NOW + 20_999), NOW + 21_000);
    t.equal(await store.loginThrottle.reserve([stop], NOW + 21_000), 0);
    const window: AttemptLimit = { ...FAILURES, key: 'window', free: 2, stopAt: 2, forgetFrom: 'first' };
    t.equal(await store.loginThrottle.reserve([window], NOW), 0);
    t.equal(await store.loginThrottle.reserve([window], NOW + 19_000), 0);
    t.equal(await store.loginThrottle.reserve([window], NOW + 19_000), NOW + 20_000);
    t.equal(await store.loginThrottle.heldUntil([window], NOW - 50_000), NOW - 30_000, 'nor is it longer for a clock that was set back');
    t.equal(await store.loginThrottle.reserve([window], NOW + 20_000), 0);
  }); // prettier-ignore

  await check('the last few addresses of an account are known until they are forgotten', async (t, store, reopen) => {
    const remember = (address: string, until: number, account = 'a') =>
      store.loginThrottle.settle({ clear: [], release: [], remember: { account, address, until } }, NOW);
    t.same(await store.loginThrottle.listKnownAddresses('a', NOW), []);
    // Redis removes what is over by its own clock, so these last longer than the test.
    const MINUTE = 60_000;
    for (let i = 1; i <= 7; i++) await remember(`A${i}`, NOW + i * MINUTE);
    await remember('A3', NOW + 9 * MINUTE);
    await remember('B1', NOW + MINUTE, 'x'.repeat(3_000));
    const known = async (now: number) => (await store.loginThrottle.listKnownAddresses('a', now)).toSorted();
    t.same(await known(NOW), ['A3', 'A4', 'A5', 'A6', 'A7'], 'five of them');
    t.same(await known(NOW + 6 * MINUTE), ['A3', 'A7']);
    const again = await reopen();
    t.same(await again.loginThrottle.listKnownAddresses('x'.repeat(3_000), NOW), ['B1'], 'after a restart too');
    await again.maintenance.removeExpired(NOW + 8 * MINUTE, NOW, 10);
    t.same(await again.loginThrottle.listKnownAddresses('a', NOW + 8 * MINUTE), ['A3'], 'they stay until the last one is over');
    await again.maintenance.removeExpired(NOW + 9 * MINUTE, NOW, 10);
    t.same(await again.loginThrottle.listKnownAddresses('a', NOW + 9 * MINUTE), []);
  }); // prettier-ignore

  await check('nothing is made for an owner who is not as verified any more', async (t, store) => {
    const verified = user('U1', { otpSecret: 'sealed' });
    const rows: [string, Partial<User> | null, string][] = [
      ['the same', { otpSecret: 'sealed' }, 'made'],
      ['another name, login and role', { otpSecret: 'sealed', name: 'n', login: 'n', role: 'billing', updatedAt: NOW + 1 }, 'made'],
      ['another password', { otpSecret: 'sealed', passwordHash: 'other' }, 'refused'],
      ['no password', { otpSecret: 'sealed', passwordHash: null }, 'refused'],
      ['the same password, hashed anew', { otpSecret: 'sealed', passwordHash: 'stronger', rehashOf: digestOf('hash') }, 'made'],
      ['another password, hashed anew', { otpSecret: 'sealed', passwordHash: 'others', rehashOf: digestOf('other') }, 'refused'],
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
        await store.sessions.grantSudo(verified, 'T1', NOW + 60_000, NOW),
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

  await check('a password that is hashed anew ends nothing, and the costliest hash is known', async (t, store, reopen) => {
    const hash = (parameters: string) => `$argon2id$v=19$${parameters}$c2FsdHNhbHQ$aGFzaGhhc2g`;
    t.equal(await store.directory.getPasswordCost(), 0);
    await createSession(store, session('D1'));
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + 60_000, NOW);
    const renewed = user('U1', { passwordHash: hash('m=4096,t=3,p=1') });
    t.equal(await store.directory.change({ users: [renewed], rehashed: ['U1'] }, NOW), undefined);
    t.ok(await store.sessions.find('D1'));
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), true);
    t.equal(await store.directory.getPasswordCost(), 12_288);
    await store.directory.change({ users: [user('U2', { passwordHash: hash('m=1024,t=1,p=1') })] }, NOW);
    const again = await reopen();
    t.equal(await again.directory.getPasswordCost(), 12_288);
    t.equal(await again.directory.change({ users: [{ ...renewed, locked: true }], rehashed: ['U1'] }, NOW), undefined);
    t.equal(await again.sessions.find('D1'), undefined, 'a lock does, whatever else is true');
  }); // prettier-ignore

  await check('a session is over when it was idle, however often that moved', async (t, store) => {
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
    t.equal(await store.maintenance.removeExpired(NOW + 1_000, NOW, 9), 1, 'its absolute end is no later for that');
    t.equal(await store.sessions.find('D1'), undefined);
    t.same(await store.sessions.listOfUser('U1'), []);
  }); // prettier-ignore

  await check('a write can be tried, and what is too long to be there is not there', async (t, store) => {
    await store.maintenance.probeWrite();
    const long = 'x'.repeat(5_000);
    for (const nothing of [await store.directory.getUser(long), await store.directory.getUserByLogin('\ufdfa'.repeat(341)), await store.tokens.get(long),
      await store.directory.getCustomer(long), await store.directory.getService(long)]) t.equal(nothing, undefined); // prettier-ignore
    t.same(await store.tokens.listOfUser(long), []);
    t.same(await store.tokens.listOfCustomer(long), []);
    t.same(await store.tokens.revoke([long]), [long]);
  });

  await check('a sudo lasts for one credential of one user, until its time', async (t, store, reopen) => {
    const MINUTE = 60_000;
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), false);
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + MINUTE, NOW);
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW + MINUTE - 1), true);
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW + MINUTE), false, 'not in the moment that it ends');
    t.equal(await store.sessions.hasSudo('U1', 'T2', NOW), false, 'another credential has none');
    t.equal(await store.sessions.hasSudo('U2', 'T1', NOW), false, 'nor has another user');
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + 3 * MINUTE, NOW);
    await store.sessions.grantSudo(user('U1'), 'T2', NOW + 2 * MINUTE, NOW);
    const again = await reopen();
    t.equal(await again.sessions.hasSudo('U1', 'T1', NOW + 3 * MINUTE - 1), true, 'a later one lasts longer, after a restart too');
    t.equal(await again.sessions.hasSudo('U1', 'T2', NOW + 2 * MINUTE - 1), true, 'each credential has its own');
    await again.sessions.grantSudo(user('U1'), 'T3', NOW + 9 * MINUTE, NOW + 2 * MINUTE);
    t.equal(await again.sessions.hasSudo('U1', 'T1', NOW + 2 * MINUTE), true, 'one that lasts stays beside a new one');
    t.equal(await again.sessions.hasSudo('U1', 'T2', NOW + 2 * MINUTE), false);
  }); // prettier-ignore

  await check('a changed password, second factor or lock ends the sudos of the user, another change does not', async (t, store) => {
    const sudosAfter = async (more: Partial<User>) => {
      for (const [userId, id] of [['U1', 'T1'], ['U1', 'T2'], ['U2', 'T9']] as const) await store.sessions.grantSudo(user(userId), id, NOW + 60_000, NOW);
      t.equal(await store.directory.change({ users: [user('U1', more)] }, NOW), undefined);
      t.equal(await store.sessions.hasSudo('U2', 'T9', NOW), true, 'nobody else loses any');
      const left = [await store.sessions.hasSudo('U1', 'T1', NOW), await store.sessions.hasSudo('U1', 'T2', NOW)];
      await store.directory.change({ users: [user('U1')] }, NOW);
      return left;
    };
    t.same(await sudosAfter({ role: 'billing', name: 'new' }), [true, true]);
    t.same(await sudosAfter({ passwordHash: 'other' }), [false, false]);
    t.same(await sudosAfter({ otpSecret: 'sealed' }), [false, false]);
    t.same(await sudosAfter({ locked: true }), [false, false]);
    await store.sessions.grantSudo(user('U1'), 'T1', NOW + 60_000, NOW);
    t.equal(await store.directory.change({ removeUsers: ['U1'] }, NOW), undefined);
    t.equal(await store.directory.change({ users: [user('U1')] }, NOW), undefined);
    t.equal(await store.sessions.hasSudo('U1', 'T1', NOW), false, 'one of the same id has none');
  }); // prettier-ignore

  await check('what expired is removed, a limited number at a time, and nothing else', async (t, store) => {
    await createToken(store, token('expired', { expiresAt: NOW - 100 }), null, NOW);
    await createToken(store, token('recent', { expiresAt: NOW - 5 }), null, NOW);
    await createToken(store, token('later', { expiresAt: NOW + 100 }), null, NOW);
    await createToken(store, token('forever'), null, NOW);
    await createSession(store, session('over', { endsAt: NOW - 1 }));
    await createSession(store, session('on', { endsAt: NOW + 100 }));
    await store.loginThrottle.reserve([{ ...FAILURES, forgetAfter: 99 }], NOW - 100);
    t.equal(await store.maintenance.removeExpired(NOW, NOW - 50, 2), 2);
    t.equal(await store.maintenance.removeExpired(NOW, NOW - 50, 10), 1);
    t.equal(await store.maintenance.removeExpired(NOW, NOW - 50, 10), 0);
    t.equal(await store.tokens.get('expired'), undefined);
    t.equal(await store.sessions.find('over'), undefined);
    t.ok(
      (await store.tokens.get('recent')) &&
        (await store.tokens.get('later')) &&
        (await store.tokens.get('forever')),
    );
    t.ok(await store.sessions.find('on'));
    t.equal(await store.tokens.countActive(NOW), 2, 'one of three is expired');
    t.equal(await store.tokens.countActive(NOW - 6), 3);
    await store.directory.change(
      { tokens: [token('old_key', { kind: 'legacy_key' }), token('forever')] },
      NOW,
    );
    t.equal(await store.tokens.countActive(NOW), 3, 'what is there already is not counted again');
    await store.tokens.revoke(['forever', 'recent']);
    t.equal(await store.tokens.countActive(NOW), 2);
    t.same(await store.tokens.revoke(['later', 'gone']), ['gone']);
    t.equal(await store.tokens.countActive(NOW), 2, 'a refused revocation takes nothing away');
    await store.maintenance.begin();
    t.equal(await store.tokens.countActive(NOW), 2, 'nor does another start');
  });
}
