import {
  type RotationTerms,
  rotationOf,
  newTokenId,
  successorIdOf,
  type Token,
} from '../../../src/domain/token.js';
import type { Store } from '../../../src/store/core/store.js';
import type { TokenLimits } from '../../../src/store/core/token-records.js';
import type { Check } from './check.js';
import { createToken, LONG_AGO, NOW, token, USE, user } from './records.js';

const UNLIMITED: TokenLimits = { active: null, stored: null };

/** Computes a rotation with an overlap of ten seconds. */
function rotation(before: Token, id: string, more: Partial<RotationTerms> = {}) {
  return rotationOf(before, { id, digest: `digest-${id}`, overlap: 10_000, maxLifetime: null, notAfter: null, sharesRate: false, ...more }, NOW);
} // prettier-ignore

const ROOT = newTokenId();

/** Creates a token and rotates it, and each replacement. Returns the ids of the replacements. */
async function rotatedTokens(store: Store, id: string, times: number): Promise<string[]> {
  let latest = token(id);
  await createToken(store, latest, null, NOW);
  const ids: string[] = [];
  for (let i = 0; i < times; i++) {
    const made = rotation(latest, successorIdOf(latest.id));
    await store.tokens.rotate(made, user('U1'), UNLIMITED, NOW);
    latest = made.replacement;
    ids.push(latest.id);
  }
  return ids;
}

/** Token rotation. */
export async function rotationsContract(check: Check): Promise<void> {
  const rotate = (store: Store, each: ReturnType<typeof rotation>, limits = UNLIMITED, owner = user('U1')) =>
    store.tokens.rotate(each, owner, limits, NOW);

  await check('a rotation writes both tokens durably', async (t, first, reopen) => {
    const before = token('T1', { services: ['S1'], serviceId: 'S1', expiresAt: NOW + 60_000, name: 'a "quoted", name', restrictions: { rate: '5/1m', addresses: ['::1'] } });
    await createToken(first, before, null, NOW);
    await first.usage.recordUses({ tokens: new Map([['T1', USE]]), sessions: new Map() });
    const made = rotation(before, 'T2');
    t.equal(await rotate(first, made), 'rotated');
    const store = await reopen();
    t.strictSame(await store.tokens.get('T1'), { token: { ...before, updatedAt: NOW + 1, expiresAt: NOW + 10_000, rotated: { to: 'T2' } }, use: USE });
    t.strictSame((await store.tokens.find('digest-T2'))?.token, { ...token('T2'), services: ['S1'], serviceId: 'S1', name: before.name, updatedAt: NOW + 1, expiresAt: NOW + 60_000, predecessorId: 'T1', restrictions: before.restrictions });
    t.same([await store.tokens.countActive(NOW), await store.tokens.countInOverlap(NOW)], [2, 1]);
    t.equal((await store.tokens.listOfUser('U1')).length, 2);
    t.equal(await store.maintenance.removeExpired(NOW + 20_000, NOW + 20_000, 9), 1, 'the old token expires when it says');
    t.equal(await store.tokens.get('T1'), undefined);
    t.equal(await store.tokens.countInOverlap(NOW), 0);
  }); // prettier-ignore

  await check('rotates only the token that was read, completely or not at all', async (t, store) => {
    const before = token('T1');
    await createToken(store, before, null, NOW);
    const made = rotation(before, 'T2');
    t.equal(await rotate(store, rotation(token('none'), 'T2')), 'changed', 'a token that does not exist');
    t.equal(await rotate(store, rotation({ ...before, name: 'x' }, 'T2')), 'changed');
    t.equal(await rotate(store, rotation({ ...before, services: ['S1'] }, 'T2')), 'changed');
    for (const other of [{ passwordHash: 'other' }, { locked: true }, { createdAt: 1 }, { customerId: 'C2' }])
      t.equal(await rotate(store, made, UNLIMITED, user('U1', other)), 'owner_changed', JSON.stringify(other));
    t.equal(await rotate(store, made, UNLIMITED, user('U2')), 'owner_changed', 'another user');
    t.strictSame((await store.tokens.find('digest-T1'))?.token, before);
    t.equal(await store.tokens.get('T2'), undefined);
    const many = await Promise.all(['A', 'B', 'C'].map((id) => rotate(store, rotation(before, id))));
    t.strictSame(many.toSorted(), ['changed', 'changed', 'rotated'], 'one of several concurrent rotations');
    await store.tokens.revoke(['T1']);
    t.equal(await rotate(store, made), 'changed', 'a revoked token');
    t.equal(await store.tokens.get('T1'), undefined, 'it is not recreated');
  }); // prettier-ignore

  await check('of a change and a rotation based on the same record, only one is written', async (t, store) => {
    const before = token('T1');
    await createToken(store, before, null, NOW);
    const suspended = { ...before, restrictions: { suspended: true as const }, updatedAt: NOW + 1 };
    const made = rotation(before, 'T2');
    t.equal(await rotate(store, made), 'rotated');
    t.equal(await store.tokens.update(suspended, before.updatedAt), 'changed_meanwhile', 'within the same millisecond');
    t.strictSame((await store.tokens.find('digest-T1'))?.token, made.old);
    const both = { ...made.old, restrictions: { suspended: true as const }, updatedAt: made.old.updatedAt + 1 };
    t.equal(await store.tokens.update(both, made.old.updatedAt), 'updated', 'a token in its overlap can be suspended');
    t.strictSame((await store.tokens.find('digest-T1'))?.token, both);
    t.equal(await store.tokens.countInOverlap(NOW), 1);
    t.equal(await rotate(store, rotation(made.old, 'T3')), 'changed');
    t.equal(await rotate(store, rotation(both, 'T3')), 'rotated');
    t.strictSame((await store.tokens.find('digest-T3'))?.token.restrictions, { suspended: true });
  }); // prettier-ignore

  await check('a revocation reaches all that came from a token, whatever became of those in between', async (t, store, reopen) => {
    const chain = await rotatedTokens(store, ROOT, 5);
    const [other = ''] = await rotatedTokens(store, newTokenId(), 1);
    await createToken(store, token('D1'), null, NOW);
    const family = async (id: string, from = store) => (await from.tokens.family(id)).map((each) => each.token.id);
    t.strictSame(await family(ROOT), [ROOT, ...chain]);
    const [, second = '', third = '', fourth = '', fifth = ''] = chain;
    t.strictSame(await family(third), [third, fourth, fifth]);
    t.strictSame(await family('none'), []);
    await store.directory.change({ removeTokens: [ROOT, second] }, NOW);
    const again = await reopen();
    t.strictSame(await family(second, again), [third, fourth, fifth], 'of one that is gone');
    t.strictSame(await again.tokens.revoke([second, 'nope']), { missing: ['nope'], revoked: [] });
    t.strictSame(await again.tokens.revoke([fourth, second]), { missing: [], revoked: [third, fourth, fifth] });
    t.strictSame(await again.tokens.revoke([fourth]), { missing: [fourth], revoked: [] });
    t.strictSame(await again.tokens.revoke([ROOT]), { missing: [], revoked: chain.slice(0, 1) });
    t.same((await again.tokens.listOfUser('U1')).length, 3);
    t.ok((await again.tokens.get(other)) && (await again.tokens.get('D1')), 'no other token');
  }); // prettier-ignore

  await check('tokens are changed together or not at all', async (t, store) => {
    const [first = '', second = ''] = await rotatedTokens(store, ROOT, 2);
    const changeOf = async (id: string) => {
      const [found] = await store.tokens.family(id);
      const before = found?.token ?? token(id);
      return { token: { ...before, restrictions: { suspended: true as const }, updatedAt: before.updatedAt + 1 }, basedOn: before.updatedAt };
    };
    const { token: root, basedOn } = await changeOf(ROOT);
    const others = [await changeOf(first), await changeOf(second)];
    for (const wrong of [{ ...others[0]!, basedOn: 1 }, { token: token('gone'), basedOn: NOW }])
      t.equal(await store.tokens.update(root, basedOn, [others[1]!, wrong]), 'changed_meanwhile');
    t.notOk((await store.tokens.family(ROOT)).some((each) => each.token.restrictions?.suspended), 'nothing was changed');
    t.equal(await store.tokens.update(root, basedOn, others), 'updated');
    for (const { token: each } of await store.tokens.family(ROOT)) t.strictSame((await store.tokens.find(each.digest))?.token.restrictions, { suspended: true });
  }); // prettier-ignore

  await check('a token in its overlap yields its place to its replacement, one for each', async (t, store) => {
    const limits = { active: 2, stored: null };
    for (const id of ['T1', 'T2']) await createToken(store, token(id), null, NOW);
    const first = rotation(token('T1'), 'R1');
    t.equal(await rotate(store, first, limits), 'rotated', 'at the limit');
    t.equal(await store.tokens.create(token('T3'), user('U1'), limits, NOW), 'limit_reached');
    t.equal(await rotate(store, rotation(token('T2'), 'R2'), limits), 'rotated');
    t.equal(await rotate(store, rotation(first.replacement, 'R3'), limits), 'limit_reached', 'not more in overlap than active');
    await store.tokens.revoke(['R1', 'T2']);
    t.equal(await store.tokens.create(token('T3'), user('U1'), limits, NOW), 'created');
    t.same([await store.tokens.countActive(NOW), await store.tokens.countInOverlap(NOW)], [3, 1]);
    t.equal(await rotate(store, rotation(token('T3'), 'R4'), { active: null, stored: 3 }), 'full');
    await createToken(store, token('E', { expiresAt: LONG_AGO }), null, NOW);
    t.equal(await rotate(store, rotation(token('T3'), 'R4'), { active: null, stored: 4 }), 'rotated', 'expired tokens make room');
    t.equal(await store.tokens.get('E'), undefined);
  }); // prettier-ignore

  await check('reports the end of an overlap once', async (t, first, reopen) => {
    const ids = ['T1', 'T2', 'T3'];
    for (const id of ids) await createToken(first, token(id), null, NOW);
    await rotate(first, rotation(token('T1'), 'R1'));
    await rotate(first, rotation(token('T2'), 'R2', { overlap: 20_000 }));
    await rotate(first, rotation(token('T3'), 'R3'));
    await first.usage.recordUses({ tokens: new Map([['T1', USE]]), sessions: new Map() });
    await first.tokens.revoke(['T3']);
    const store = await reopen();
    const take = async (before: number, limit = 9) =>
      (await store.tokens.takeEndedOverlaps(before, limit)).map((each): [string, string | undefined] => [each.token.id, each.use?.ip]);
    t.strictSame(await take(NOW + 10_000), [], 'not before');
    t.strictSame(await take(NOW + 10_001), [['T1', USE.ip]], 'with its last use; a revoked token ended in another way');
    t.strictSame(await take(NOW + 10_002), [], 'taken');
    t.strictSame(await Promise.all([take(NOW + 30_000, 1), take(NOW + 30_000, 1)]).then((all) => all.flat()), [['T2', undefined]], 'by one of two');
    t.ok(await store.tokens.get('T1'), 'its holder still learns why it is refused');
  }); // prettier-ignore
}
