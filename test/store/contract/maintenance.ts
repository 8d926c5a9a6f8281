import type { Check } from './check.js';
import { FAILURES, NOW, createSession, createToken, session, token } from './records.js';

/** Operations on the store as a whole. */
export async function maintenanceContract(check: Check): Promise<void> {
  await check('only a restore can open a store that is partly restored', async (t, store, reopen) => {
    t.equal(await store.maintenance.isRestoring(), false);
    await store.maintenance.setRestoring(true);
    const again = await reopen();
    t.equal(await again.maintenance.isRestoring(), true);
    await t.rejects(again.maintenance.initialize(), { code: 'STORE_UNUSABLE', message: /interrupted/ });
    await again.maintenance.initialize('restore');
    await again.maintenance.setRestoring(false);
    await again.maintenance.initialize();
    t.equal(await again.maintenance.isRestoring(), false);
  });

  await check('checks that it is writable, and finds no key beyond the size limit', async (t, store) => {
    await store.maintenance.probeWrite();
    const long = 'x'.repeat(5_000);
    for (const nothing of [await store.directory.getUser(long), await store.directory.getUserByLogin('\ufdfa'.repeat(341)), await store.tokens.get(long),
      await store.directory.getCustomer(long), await store.directory.getService(long)]) t.equal(nothing, undefined); // prettier-ignore
    t.same(await store.tokens.listOfUser(long), []);
    t.same(await store.tokens.listOfCustomer(long), []);
    t.same(await store.tokens.revoke([long]), { missing: [long], revoked: [] });
  });

  await check('a time before 1970 has expired like any other', async (t, store) => {
    const [active, removed] = [await store.tokens.countActive(NOW), [-62_167_219_200_000, -1, 0, 1]];
    for (const at of removed) await createToken(store, token(`at${at}`, { expiresAt: at }), null, NOW);
    t.equal(await store.tokens.countActive(NOW), active);
    t.equal(await store.maintenance.removeExpired(NOW, NOW, 10), removed.length);
    for (const at of removed) t.equal(await store.tokens.get(`at${at}`), undefined, `${at}`);
  });

  await check('removes only expired records, a limited number at a time', async (t, store) => {
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
    t.equal(await store.tokens.countActive(NOW), 3, 'an existing record is not counted again');
    await store.tokens.revoke(['forever', 'recent']);
    t.equal(await store.tokens.countActive(NOW), 2);
    t.same(await store.tokens.revoke(['later', 'gone']), { missing: ['gone'], revoked: [] });
    t.equal(await store.tokens.countActive(NOW), 2, 'a refused revocation does not lower the count');
    await store.maintenance.initialize();
    t.equal(await store.tokens.countActive(NOW), 2, 'neither does another start');
  });
}
