import type { Check } from './check.js';
import { USE, NOW, createSession, createToken, session, token } from './records.js';

/** Last uses, one-time passwords and write counts. */
export async function usageStoreContract(check: Check): Promise<void> {
  await check('keeps the newest last use, and does not recreate removed records', async (t, store) => {
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
    t.equal((await store.tokens.get('T1'))?.use, null, 'the use is removed with its token');
  });

  await check('a use before a session began, by a slow clock, does not shorten it', async (t, store) => {
    await createSession(store, session('D1', { endsAt: NOW + 1_000, idleEndsAt: NOW + 500 }));
    const use = { ...USE, at: NOW - 400, idleEndsAt: NOW + 100 };
    await store.usage.recordUses({ tokens: new Map(), sessions: new Map([['D1', use]]) });
    await store.maintenance.removeExpired(NOW + 200, NOW, 10);
    t.match(await store.sessions.find('D1'), { session: { lastSeenAt: NOW, idleEndsAt: NOW + 500 } });
  });

  await check('records the last uses of many tokens, one of them revoked meanwhile', async (t, store) => {
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
    t.equal((await store.tokens.get('M299'))?.use, null, 'nothing was written for the revoked token');
  });

  await check('accepts a one-time-password step once, and never an earlier one', async (t, store, reopen) => {
    const results = await Promise.all(Array.from({ length: 20 }, () => store.usage.takeOtpStep('U1', 100)));
    t.equal(results.filter(Boolean).length, 1);
    t.equal(await store.usage.takeOtpStep('U1', 99), false);
    t.equal(await store.usage.takeOtpStep('U2', 99), true, 'the step is per user');
    const again = await reopen();
    t.equal(await again.usage.takeOtpStep('U1', 100), false, 'across restarts');
    t.equal(await again.usage.takeOtpStep('U1', 101), true);
  });

  await check('counts writes by user and hour', async (t, store, reopen) => {
    const counts = await Promise.all(Array.from({ length: 10 }, () => store.usage.countWrite('U1', NOW)));
    t.same(counts.toSorted((a, b) => a - b), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    t.equal(await store.usage.countWrite('U2', NOW), 1, 'the count is per user');
    const again = await reopen();
    t.equal(await again.usage.countWrite('U1', NOW), 11, 'across restarts');
    t.equal(await again.usage.countWrite('U1', NOW + 3_600_000), 1, 'a new hour starts at zero');
    t.equal(await again.usage.countWrite('U1', NOW), 2, 'a process with a slow clock counts into its own hour');
    t.equal(await again.usage.countWrite('U1', NOW + 7_200_000), 1);
    t.equal(await again.usage.countWrite('U1', NOW), 1, 'a clock that was hours ahead locks nobody out');
  }); // prettier-ignore

  await check('a bucket refills at a new rate, however much the former one or a fast clock left to refill', async (t, store) => {
    const [slow, fast] = [{ count: 2, per: 31 * 86_400_000 }, { count: 1_000, per: 1_000 }];
    t.match(await store.usage.leaseRate('T1', slow, 2), { granted: 2 });
    t.match(await store.usage.leaseRate('T1', slow, 1), { granted: 0 });
    t.match(await store.usage.leaseRate('T1', fast, 1_000), { granted: 0 }, 'it is empty');
    await new Promise((resolve) => setTimeout(resolve, 20));
    t.ok((await store.usage.leaseRate('T1', fast, 1_000)).granted > 0);
    t.ok((await store.usage.leaseRate('T1', slow, 1)).granted <= 2);
  }); // prettier-ignore

  await check('returns what a copy needs beside the records: used steps and revoked digests', async (t, store) => {
    t.equal(await store.usage.getOtpStep('U1'), -1);
    await store.usage.takeOtpStep('U1', 7);
    t.equal(await store.usage.getOtpStep('U1'), 7);
    t.same(await store.tokens.listRevokedDigests(), []);
    await store.tokens.addRevokedDigests(['digest-K1', 'digest-K2']);
    t.same((await store.tokens.listRevokedDigests()).toSorted(), ['digest-K1', 'digest-K2']);
    await store.directory.change({ tokens: [token('K1', { kind: 'legacy_key' })] }, NOW);
    t.equal(await store.tokens.find('digest-K1'), undefined);
  }); // prettier-ignore
}
