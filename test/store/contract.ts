import type { Test } from 'tap';
import type { Session } from '../../src/domain/session.js';
import type { SigningKey, SigningKeys } from '../../src/domain/signing-key.js';
import type { Token } from '../../src/domain/token.js';
import type { User } from '../../src/domain/user.js';
import type { Changes, Store } from '../../src/store/store.js';

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
    id, digest: `digest-${id}`, kind: 'token', userId: 'U1', customerId: 'C1', name: '', scopes: ['global'], services: [],
    serviceId: null, createdAt: NOW, updatedAt: NOW, expiresAt: null, ...more,
  }; // prettier-ignore
}

function session(digest: string, more: Partial<Session> = {}): Session {
  return {
    digest, id: `id-${digest}`, userId: 'U1', customerId: 'C1', createdAt: NOW, endsAt: NOW + 1_000, lastSeenAt: NOW,
    ip: '127.0.0.1', userAgent: null, ...more,
  }; // prettier-ignore
}

function signingKey(kid: string): SigningKey {
  return { kid, algorithm: 'EdDSA', sealedKey: 'v1.a.b', signsFrom: NOW };
} // prettier-ignore

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
      await store.begin();
      t.equal(await store.change(BASE, NOW), undefined);
      const reopen = async () => {
        await store.close();
        return (store = await open());
      };
      await body(t, store, reopen);
      await store.close();
    });

  await check('records come back as they were written, after a restart too', async (t, first, reopen) => {
    await first.createToken(token('T1', { services: ['S1'], expiresAt: NOW + 5 }), null, NOW);
    await first.createSession(session('D1'));
    const store = await reopen();
    t.same(await store.getCustomer('C1'), { id: 'C1', name: 'One' });
    t.same(await store.getService('S1'), BASE.services?.[0]);
    t.same(await store.getUser('U1'), user('U1'));
    t.same(await store.getUserByLogin('u1@EXAMPLE.com'), user('U1'), 'upper and lower case alike');
    t.same(await store.findToken('digest-T1'), {
      token: token('T1', { services: ['S1'], expiresAt: NOW + 5 }),
      owner: user('U1'),
    });
    t.same(await store.findSession('D1'), { session: session('D1'), owner: user('U1') });
    t.same((await store.listUsers('C1')).map(({ id }) => id).toSorted(), ['U1', 'U2']);
    t.same((await store.listCustomers()).map(({ id }) => id).toSorted(), ['C1', 'C2']);
    t.same(
      (await store.listServices('C1')).map(({ id }) => id),
      ['S1'],
    );
    t.same(await store.listServices('C2'), []);
    for (const nothing of [
      await store.getUser('x'), await store.getUserByLogin('x'), await store.findToken('x'), await store.findSession('x'),
      await store.getToken('x'), await store.getCustomer('x'), await store.getService('x'), await store.getLoginFailures('x', NOW),
    ]) t.equal(nothing, undefined); // prettier-ignore
    await store.probe();
  });

  await check('a revocation takes tokens, all or none', async (t, store) => {
    for (const id of ['T1', 'T2', 'T3']) await store.createToken(token(id), null, NOW);
    t.same(await store.revokeTokens(['T1', 'nope', 'T2', 'gone']), ['nope', 'gone']);
    t.ok((await store.findToken('digest-T1')) && (await store.getToken('T2')), 'nothing was revoked');
    t.same(await store.revokeTokens(['T1', 'T2']), []);
    t.equal(await store.findToken('digest-T1'), undefined);
    t.equal(await store.getToken('T2'), undefined);
    t.same(
      (await store.listTokensOfUser('U1')).map((each) => each.token.id),
      ['T3'],
    );
  });

  await check('tokens are listed by user and by customer', async (t, store) => {
    await store.createToken(token('A'), null, NOW);
    await store.createToken(token('B', { userId: 'U2' }), null, NOW);
    await store.createToken(token('C', { userId: 'U3', customerId: 'C2' }), null, NOW);
    const ids = (list: { token: Token }[]) => list.map((each) => each.token.id).toSorted();
    t.same(ids(await store.listTokensOfUser('U1')), ['A']);
    t.same(ids(await store.listTokensOfCustomer('C1')), ['A', 'B']);
    t.same(ids(await store.listTokensOfCustomer('C2')), ['C']);
  });

  await check(
    'a limit of active tokens holds for creations at once; expired ones do not count',
    async (t, store) => {
      await store.createToken(token('old', { expiresAt: NOW - 1 }), null, NOW);
      const many = Array.from({ length: 10 }, (_, i) => store.createToken(token(`T${i}`), 3, NOW));
      const results = await Promise.all(many);
      t.equal(results.filter((result) => result === 'created').length, 3);
      t.equal(results.filter((result) => result === 'limit_reached').length, 7);
      t.equal(await store.createToken(token('x', { userId: 'nobody' }), null, NOW), 'owner_gone');
    },
  );

  await check(
    'a user with active tokens is not removed, and nothing else of that change is written',
    async (t, store) => {
      await store.createToken(token('T1'), null, NOW);
      await store.createToken(token('T2', { expiresAt: NOW - 1 }), null, NOW);
      const change = { removeUsers: ['U2', 'U1'], users: [user('U9')], customers: [{ id: 'C9', name: 'x' }] };
      t.same(await store.change(change, NOW), {
        reason: 'active_tokens',
        users: [{ userId: 'U1', tokenIds: ['T1'] }],
      });
      t.ok(await store.getUser('U2'));
      t.equal(await store.getUser('U9'), undefined);
      t.equal(await store.getCustomer('C9'), undefined);
      await store.revokeTokens(['T1']);
      await store.createSession(session('D1'));
      t.equal(await store.change(change, NOW), undefined);
      t.equal(await store.getUser('U1'), undefined);
      t.equal(await store.getUserByLogin('U1@example.com'), undefined);
      t.equal(await store.findSession('D1'), undefined, 'its sessions went with it');
      t.equal(await store.getToken('T2'), undefined, 'so did its expired tokens');
    },
  );

  await check('a change that was worked out from what is no longer so is refused', async (t, store) => {
    const change = (updatedAt: number | null, id = 'U1'): Changes => ({
      users: [user(id, { name: 'new', updatedAt: NOW + 1 })],
      basedOn: new Map([[id, updatedAt]]),
    });
    t.same(await store.change(change(NOW - 1), NOW), { reason: 'changed_meanwhile', userId: 'U1' });
    t.equal((await store.getUser('U1'))?.name, 'U1');
    t.same(await store.change(change(null), NOW), { reason: 'changed_meanwhile', userId: 'U1' }, 'it is there by now');
    t.same(await store.change(change(NOW, 'U9'), NOW), { reason: 'changed_meanwhile', userId: 'U9' }, 'it is gone by now');
    t.equal(await store.change(change(NOW), NOW), undefined);
    t.equal(await store.change(change(null, 'U9'), NOW), undefined);
    const parallel = await Promise.all([store.change(change(NOW + 1), NOW), store.change(change(NOW), NOW)]);
    t.equal(parallel.filter((result) => result === undefined).length, 1);
  }); // prettier-ignore

  await check('tokens that a change takes away can be added again; revoked legacy keys can not', async (t, store) => {
    const key = (id: string) => token(id, { kind: 'legacy_key' });
    const add = (...ids: string[]) => store.change({ tokens: ids.map(key) }, NOW);
    await add('K1', 'K2', 'K3');
    t.same(await store.filterNewDigests(['digest-K1', 'digest-K9', 'digest-K2']), ['digest-K9']);
    await store.change({ removeTokens: ['K1', 'nope'] }, NOW);
    await store.revokeTokens(['K2']);
    t.equal(await store.findToken('digest-K1'), undefined);
    t.same(await store.filterNewDigests(['digest-K1', 'digest-K2', 'digest-K3']), ['digest-K1']);
    await add('K1', 'K2');
    t.ok(await store.findToken('digest-K1'));
    t.equal(await store.findToken('digest-K2'), undefined);
    t.same(await store.change({ removeTokens: ['K1', 'K3'], removeUsers: ['U1'] }, NOW), undefined, 'they do not hold their owner');
    t.equal(await store.hasLegacyKeys(), false);
  }); // prettier-ignore

  await check('a login name belongs to one user, but two may swap theirs', async (t, store) => {
    const refused = await store.change({ users: [user('U9', { login: 'U1@example.com' })] }, NOW);
    t.match(refused, { reason: 'login_taken', userId: 'U9' });
    t.equal(await store.getUser('U9'), undefined);
    const twice = await store.change({ users: [user('X', { login: 'n' }), user('Y', { login: 'N' })] }, NOW);
    t.match(twice, { reason: 'login_taken' });
    const swap = [user('U1', { login: 'U2@example.com' }), user('U2', { login: 'U1@example.com' })];
    t.equal(await store.change({ users: swap }, NOW), undefined);
    t.equal((await store.getUserByLogin('U1@example.com'))?.id, 'U2');
    t.equal((await store.getUserByLogin('U2@example.com'))?.id, 'U1');
    t.equal(await store.change({ users: [user('U1', { login: 'new' })] }, NOW), undefined);
    t.equal(await store.getUserByLogin('U2@example.com'), undefined, 'the old name is free');
    t.match(await store.change({ users: [user('Z', { customerId: 'nope' })] }, NOW), {
      reason: 'unknown_customer',
    });
  });

  await check(
    'a changed password or lock ends the sessions of the user, a changed role does not',
    async (t, store) => {
      const sessionsAfter = async (more: Partial<User>) => {
        await store.createSession(session('D1'));
        await store.change({ users: [user('U1', more)] }, NOW);
        const left = (await store.listSessions('U1')).length;
        await store.change({ users: [user('U1')] }, NOW);
        return left;
      };
      t.equal(await sessionsAfter({ role: 'billing', name: 'new' }), 1);
      t.equal(await sessionsAfter({ passwordHash: 'other' }), 0);
      t.equal(await sessionsAfter({ otpSecret: 'sealed' }), 0);
      t.equal(await sessionsAfter({ locked: true }), 0);
      t.equal((await store.getUser('U1'))?.role, 'user');
    },
  );

  await check('legacy keys are counted, and a revoked one never comes back', async (t, store) => {
    t.equal(await store.hasLegacyKeys(), false);
    const legacy = token('L1', { kind: 'legacy_key' });
    await store.change({ tokens: [legacy, token('L2', { kind: 'legacy_key' })] }, NOW);
    await store.change({ tokens: [legacy] }, NOW);
    t.equal(await store.hasLegacyKeys(), true);
    await store.revokeTokens(['L1']);
    await store.change({ tokens: [legacy] }, NOW);
    t.equal(await store.findToken('digest-L1'), undefined);
    t.ok(await store.findToken('digest-L2'));
    await store.revokeTokens(['L2']);
    t.equal(await store.hasLegacyKeys(), false);
  });

  await check('sessions end one by one or all but one', async (t, store) => {
    for (const digest of ['A', 'B', 'C']) await store.createSession(session(digest));
    t.equal(await store.endSession('A'), true);
    t.equal(await store.endSession('A'), false);
    t.equal(await store.endSessionsOfUser('U1', 'B'), 1);
    t.same(
      (await store.listSessions('U1')).map(({ digest }) => digest),
      ['B'],
    );
    t.equal(await store.endSessionsOfUser('U1'), 1);
  });

  await check('last uses: the newest is kept, and what is gone stays gone', async (t, store) => {
    await store.createToken(token('T1'), null, NOW);
    await store.createSession(session('D1'));
    t.equal((await store.getToken('T1'))?.use, null);
    const at = (ms: number) => ({ ...USE, at: ms });
    const uses = (ms: number) => ({
      tokens: new Map([['T1', at(ms)], ['gone', at(ms)]]),
      sessions: new Map([['D1', at(ms)], ['gone', at(ms)]]),
    }); // prettier-ignore
    await store.recordUses(uses(NOW + 10));
    await store.recordUses(uses(NOW + 5));
    t.same((await store.getToken('T1'))?.use, at(NOW + 10));
    t.equal((await store.findSession('D1'))?.session.lastSeenAt, NOW + 10);
    t.equal(await store.getToken('gone'), undefined);
    await store.revokeTokens(['T1']);
    await store.createToken(token('T1'), null, NOW);
    t.equal((await store.getToken('T1'))?.use, null, 'a use goes with its token');
  });

  await check('last uses of many, one of them revoked meanwhile', async (t, store) => {
    const ids = Array.from({ length: 300 }, (_, index) => `M${index}`);
    for (const id of ids) await store.createToken(token(id), null, NOW);
    const written = store.recordUses({
      tokens: new Map(ids.map((id) => [id, { ...USE, at: NOW + 1 }])),
      sessions: new Map(),
    });
    await store.revokeTokens(['M299']);
    await written;
    let seen = 0;
    for (const id of ids) if ((await store.getToken(id))?.use?.at === NOW + 1) seen += 1;
    t.equal(seen, 299);
    await store.createToken(token('M299'), null, NOW);
    t.equal((await store.getToken('M299'))?.use, null, 'nothing was written for what was gone');
  });

  await check(
    'a one-time-password step is taken once, and never an earlier one',
    async (t, store, reopen) => {
      const results = await Promise.all(Array.from({ length: 20 }, () => store.takeOtpStep('U1', 100)));
      t.equal(results.filter(Boolean).length, 1);
      t.equal(await store.takeOtpStep('U1', 99), false);
      t.equal(await store.takeOtpStep('U2', 99), true, 'each user has its own');
      const again = await reopen();
      t.equal(await again.takeOtpStep('U1', 100), false, 'after a restart too');
      t.equal(await again.takeOtpStep('U1', 101), true);
    },
  );

  await check('writes are counted by user and hour', async (t, store, reopen) => {
    const counts = await Promise.all(Array.from({ length: 10 }, () => store.countWrite('U1', NOW)));
    t.same(counts.toSorted((a, b) => a - b), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    t.equal(await store.countWrite('U2', NOW), 1, 'each user has its own');
    const again = await reopen();
    t.equal(await again.countWrite('U1', NOW), 11, 'after a restart too');
    t.equal(await again.countWrite('U1', NOW + 3_600_000), 1, 'a new hour begins anew');
    t.equal(await again.countWrite('U1', NOW), 2, 'one whose clock is behind counts into it');
    t.equal(await again.countWrite('U1', NOW + 7_200_000), 1);
    t.equal(await again.countWrite('U1', NOW), 1, 'a clock that was hours ahead keeps nobody out');
  }); // prettier-ignore

  await check('what a copy needs beside the records: steps that were taken and revoked digests', async (t, store) => {
    t.equal(await store.getOtpStep('U1'), -1);
    await store.takeOtpStep('U1', 7);
    t.equal(await store.getOtpStep('U1'), 7);
    t.same(await store.listRevokedDigests(), []);
    await store.addRevokedDigests(['digest-K1', 'digest-K2']);
    t.same((await store.listRevokedDigests()).toSorted(), ['digest-K1', 'digest-K2']);
    await store.change({ tokens: [token('K1', { kind: 'legacy_key' })] }, NOW);
    t.equal(await store.findToken('digest-K1'), undefined);
  }); // prettier-ignore

  await check('signing keys are replaced by who knows their revision, once', async (t, store, reopen) => {
    t.equal(await store.getSigningKeys(), undefined);
    const keys = (revision: number, ...kids: string[]): SigningKeys => ({ revision, keys: kids.map(signingKey) });
    t.equal(await store.replaceSigningKeys(keys(2, 'A')), false, 'nothing has revision 1');
    const first = await Promise.all(['A', 'B', 'C'].map((kid) => store.replaceSigningKeys(keys(1, kid))));
    t.equal(first.filter(Boolean).length, 1, 'of several at once one is taken');
    const [kid = ''] = ['A', 'B', 'C'].filter((_, i) => first[i]);
    t.same(await store.getSigningKeys(), keys(1, kid));
    t.equal(await store.replaceSigningKeys(keys(3, 'X')), false);
    t.equal(await store.replaceSigningKeys(keys(2, kid, 'D')), true);
    const again = await reopen();
    t.same(await again.getSigningKeys(), keys(2, kid, 'D'), 'after a restart too');
    t.equal(await again.removeSigningKeys(), true);
    t.equal(await again.removeSigningKeys(), false);
    t.equal(await again.getSigningKeys(), undefined);
    t.equal(await again.replaceSigningKeys(keys(1, 'E')), true, 'and it begins anew');
  }); // prettier-ignore

  await check('login failures add up until they are cleared or forgotten', async (t, store) => {
    const long = 'x'.repeat(3_000);
    for (const key of ['account:a', long]) {
      await Promise.all(Array.from({ length: 5 }, () => store.addLoginFailure(key, NOW, NOW + 100)));
      t.equal((await store.getLoginFailures(key, NOW))?.count, 5);
      t.equal((await store.addLoginFailure(key, NOW + 50, NOW + 200)).count, 6);
      t.match(await store.getLoginFailures(key, NOW + 199), { count: 6, lastAt: NOW + 50 });
      t.equal(await store.getLoginFailures(key, NOW + 200), undefined, 'forgotten');
      t.equal((await store.addLoginFailure(key, NOW + 300, NOW + 400)).count, 1, 'counted anew');
      await store.clearLoginFailures(key);
      t.equal(await store.getLoginFailures(key, NOW + 300), undefined);
    }
  });

  await check('a sudo lasts for one credential of one user, until its time', async (t, store, reopen) => {
    const MINUTE = 60_000;
    t.equal(await store.hasSudo('U1', 'T1', NOW), false);
    await store.grantSudo('U1', 'T1', NOW + MINUTE, NOW);
    t.equal(await store.hasSudo('U1', 'T1', NOW + MINUTE - 1), true);
    t.equal(await store.hasSudo('U1', 'T1', NOW + MINUTE), false, 'not in the moment that it ends');
    t.equal(await store.hasSudo('U1', 'T2', NOW), false, 'another credential has none');
    t.equal(await store.hasSudo('U2', 'T1', NOW), false, 'nor has another user');
    await store.grantSudo('U1', 'T1', NOW + 3 * MINUTE, NOW);
    await store.grantSudo('U1', 'T2', NOW + 2 * MINUTE, NOW);
    const again = await reopen();
    t.equal(await again.hasSudo('U1', 'T1', NOW + 3 * MINUTE - 1), true, 'a later one lasts longer, after a restart too');
    t.equal(await again.hasSudo('U1', 'T2', NOW + 2 * MINUTE - 1), true, 'each credential has its own');
    await again.grantSudo('U1', 'T3', NOW + 9 * MINUTE, NOW + 2 * MINUTE);
    t.equal(await again.hasSudo('U1', 'T1', NOW + 2 * MINUTE), true, 'one that lasts stays beside a new one');
    t.equal(await again.hasSudo('U1', 'T2', NOW + 2 * MINUTE), false);
  }); // prettier-ignore

  await check('a changed password, second factor or lock ends the sudos of the user, another change does not', async (t, store) => {
    const sudosAfter = async (more: Partial<User>) => {
      for (const [userId, id] of [['U1', 'T1'], ['U1', 'T2'], ['U2', 'T9']] as const) await store.grantSudo(userId, id, NOW + 60_000, NOW);
      t.equal(await store.change({ users: [user('U1', more)] }, NOW), undefined);
      t.equal(await store.hasSudo('U2', 'T9', NOW), true, 'nobody else loses any');
      const left = [await store.hasSudo('U1', 'T1', NOW), await store.hasSudo('U1', 'T2', NOW)];
      await store.change({ users: [user('U1')] }, NOW);
      return left;
    };
    t.same(await sudosAfter({ role: 'billing', name: 'new' }), [true, true]);
    t.same(await sudosAfter({ passwordHash: 'other' }), [false, false]);
    t.same(await sudosAfter({ otpSecret: 'sealed' }), [false, false]);
    t.same(await sudosAfter({ locked: true }), [false, false]);
    await store.grantSudo('U1', 'T1', NOW + 60_000, NOW);
    t.equal(await store.change({ removeUsers: ['U1'] }, NOW), undefined);
    t.equal(await store.change({ users: [user('U1')] }, NOW), undefined);
    t.equal(await store.hasSudo('U1', 'T1', NOW), false, 'one of the same id has none');
  }); // prettier-ignore

  await check('what expired is removed, a limited number at a time, and nothing else', async (t, store) => {
    await store.createToken(token('expired', { expiresAt: NOW - 100 }), null, NOW);
    await store.createToken(token('recent', { expiresAt: NOW - 5 }), null, NOW);
    await store.createToken(token('later', { expiresAt: NOW + 100 }), null, NOW);
    await store.createToken(token('forever'), null, NOW);
    await store.createSession(session('over', { endsAt: NOW - 1 }));
    await store.createSession(session('on', { endsAt: NOW + 100 }));
    await store.addLoginFailure('a', NOW - 100, NOW - 1);
    t.equal(await store.removeExpired(NOW, NOW - 50, 2), 2);
    t.equal(await store.removeExpired(NOW, NOW - 50, 10), 1);
    t.equal(await store.removeExpired(NOW, NOW - 50, 10), 0);
    t.equal(await store.getToken('expired'), undefined);
    t.equal(await store.findSession('over'), undefined);
    t.ok(
      (await store.getToken('recent')) &&
        (await store.getToken('later')) &&
        (await store.getToken('forever')),
    );
    t.ok(await store.findSession('on'));
    t.equal(await store.countActiveTokens(NOW), 2, 'one of three is expired');
    t.equal(await store.countActiveTokens(NOW - 6), 3);
    await store.change({ tokens: [token('old key', { kind: 'legacy_key' }), token('forever')] }, NOW);
    t.equal(await store.countActiveTokens(NOW), 3, 'what is there already is not counted again');
    await store.revokeTokens(['forever', 'recent']);
    t.equal(await store.countActiveTokens(NOW), 2);
    t.same(await store.revokeTokens(['later', 'gone']), ['gone']);
    t.equal(await store.countActiveTokens(NOW), 2, 'a refused revocation takes nothing away');
    await store.begin();
    t.equal(await store.countActiveTokens(NOW), 2, 'nor does another start');
  });
}
