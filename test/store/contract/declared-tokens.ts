import type { Token } from '../../../src/domain/token.js';
import type { Store } from '../../../src/store/core/store.js';
import type { Check } from './check.js';
import { createToken, NOW, token, USE } from './records.js';

const declaredToken = (id: string, more: Partial<Token> = {}) => token(id, { declared: true, ...more });

/** Tokens that a directory file declares. */
export async function declaredTokensContract(check: Check): Promise<void> {
  const put = async (store: Store, ...declared: Token[]) => store.directory.change({ declared }, NOW);
  const idsOf = async (store: Store) =>
    (await store.tokens.listDeclared()).map((each) => each.token.id).toSorted();

  await check('adds, overwrites, lists and revokes declared tokens durably', async (t, first, reopen) => {
    t.equal(await put(first, declaredToken('D1', { expiresAt: NOW + 9 }), declaredToken('D2', { services: ['S1'] })), undefined);
    await createToken(first, token('T1'), null, NOW);
    await first.usage.recordUses({ tokens: new Map([['D1', USE]]), sessions: new Map() });
    const store = await reopen();
    t.strictSame(await idsOf(store), ['D1', 'D2']);
    t.strictSame((await store.tokens.find('digest-D2'))?.token, declaredToken('D2', { services: ['S1'] }));
    t.equal(await store.tokens.countActive(NOW), 3);
    const changed = declaredToken('D1', { name: 'x', scopes: ['purge_all'], expiresAt: NOW + 20 });
    t.equal(await put(store, changed), undefined);
    t.strictSame(await store.tokens.get('D1'), { token: changed, use: USE }, 'overwritten, with its last use');
    t.equal((await store.tokens.listOfUser('U1')).length, 3);
    t.equal(await store.maintenance.removeExpired(NOW + 10, NOW + 10, 9), 0, 'its earlier expiry is forgotten');
    t.equal(await store.tokens.countActive(NOW), 3);
    t.equal(await store.directory.change({ revokeDeclared: ['D1', 'none', 'T1'] }, NOW), undefined);
    t.equal(await store.tokens.find('digest-D1'), undefined);
    t.ok(await store.tokens.find('digest-T1'), 'a token that is not declared stays');
    t.strictSame(await idsOf(store), ['D2']);
    t.strictSame((await store.tokens.filterRevoked(['id:D1', 'digest-D1', 'id:D2', 'digest-D2'])), ['id:D1', 'digest-D1']);
  }); // prettier-ignore

  await check('a token with a new expiry can be claimed again, once for each expiry', async (t, first, reopen) => {
    const expires = async (store: Store, expiresAt: number | null) => put(store, declaredToken('D1', { expiresAt }));
    const claims = async (store: Store) => (await Promise.all([1, 2, 3].map(async () => store.tokens.claimWarnings(['D1'])))).flat();
    await expires(first, NOW + 1_000);
    t.same(await claims(first), ['D1']);
    await expires(first, NOW + 9_000);
    t.same(await claims(first), ['D1'], 'later');
    const store = await reopen();
    t.same(await claims(store), []);
    await expires(store, NOW + 5_000);
    t.same(await claims(store), ['D1'], 'sooner');
    await expires(store, null);
    t.same(await claims(store), [], 'never');
  }); // prettier-ignore

  await check('a revoked declared token never comes back, by its id or by its secret', async (t, first, reopen) => {
    await put(first, declaredToken('D1'), declaredToken('D2'), declaredToken('D3'));
    t.strictSame(await first.tokens.revoke(['D1']), { missing: [], revoked: ['D1'] }, 'by its holder');
    t.equal(await first.directory.change({ revokeDeclared: ['D2'] }, NOW), undefined, 'by the file');
    t.equal(await put(first, declaredToken('D3', { digest: 'other' })), undefined, 'its secret alone');
    const store = await reopen();
    const again = [
      declaredToken('D1'), declaredToken('D1', { digest: 'fresh' }), declaredToken('D4', { digest: 'digest-D1' }),
      declaredToken('D2'), declaredToken('D5', { digest: 'digest-D3' }), declaredToken('D3', { name: 'old secret' }),
    ];
    for (const each of again) t.equal(await put(store, each), undefined, `${each.id} ${each.digest}`);
    t.strictSame(await idsOf(store), ['D3']);
    t.equal((await store.tokens.get('D3'))?.token.digest, 'other');
    for (const digest of ['digest-D1', 'digest-D2', 'digest-D3', 'fresh']) t.equal(await store.tokens.find(digest), undefined);
    t.strictSame((await store.tokens.listRevokedDigests()).toSorted(), ['digest-D1', 'digest-D2', 'digest-D3', 'id:D1', 'id:D2']);
    await store.directory.change({ tokens: [token('L1', { kind: 'legacy_key', digest: 'digest-D1' })] }, NOW);
    t.equal(await store.tokens.find('digest-D1'), undefined, 'nor as a legacy key');
    t.equal(await store.tokens.countActive(NOW), 1);
  }); // prettier-ignore

  await check('refuses a declared token that would replace another token, and writes nothing of that change', async (t, store) => {
    await createToken(store, token('T1'), null, NOW);
    await put(store, declaredToken('D1'));
    for (const taken of [
      declaredToken('T1', { digest: 'fresh' }), declaredToken('D2', { digest: 'digest-T1' }),
      declaredToken('D2', { digest: 'digest-D1' }), declaredToken('D1', { userId: 'U2' }),
    ]) {
      const change = { customers: [{ id: 'C9', name: 'x' }], declared: [declaredToken('D9'), taken], revokeDeclared: ['D1'] };
      t.strictSame(await store.directory.change(change, NOW), { reason: 'token_taken', tokenId: taken.id }, `${taken.id} ${taken.digest}`);
      t.equal(await store.directory.getCustomer('C9'), undefined);
      t.strictSame(await idsOf(store), ['D1']);
    }
    t.strictSame(await put(store, declaredToken('D2', { userId: 'nobody' })), { reason: 'unknown_user', userId: 'nobody' });
  }); // prettier-ignore

  await check('removes a user together with its declared tokens, and not without them', async (t, store) => {
    await put(store, declaredToken('D1'), declaredToken('D2'));
    const without = { removeUsers: ['U1'], revokeDeclared: ['D1'] };
    t.strictSame(await store.directory.change(without, NOW), { reason: 'active_tokens', users: [{ userId: 'U1', tokenIds: ['D2'] }] });
    t.ok(await store.tokens.find('digest-D1'));
    t.equal(await store.directory.change({ ...without, revokeDeclared: ['D1', 'D2'] }, NOW), undefined);
    t.equal(await store.directory.getUser('U1'), undefined);
    t.strictSame(await idsOf(store), []);
    t.equal((await store.tokens.filterRevoked(['id:D1', 'id:D2'])).length, 2);
  }); // prettier-ignore

  await check('removes an expired declared token, which can be declared again', async (t, store) => {
    await put(store, declaredToken('D1', { expiresAt: NOW - 1 }));
    t.equal(await store.maintenance.removeExpired(NOW, NOW, 9), 1);
    t.strictSame(await idsOf(store), []);
    t.equal(await put(store, declaredToken('D1')), undefined);
    t.strictSame(await idsOf(store), ['D1']);
  });
}
