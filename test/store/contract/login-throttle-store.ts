import type { AttemptLimit } from '../../../src/store/core/usage.js';
import type { Check } from './check.js';
import { FAILURES, NOW } from './records.js';

/** Login attempts and known addresses. */
export async function loginThrottleStoreContract(check: Check): Promise<void> {
  await check('counts an attempt before it is judged, and delays attempts beyond the free ones', async (t, store) => {
    for (const key of ['account:a', 'x'.repeat(3_000)]) {
      const limits = [{ ...FAILURES, key }];
      const many = await Promise.all(Array.from({ length: 10 }, () => store.loginThrottle.reserve(limits, NOW)));
      t.same(many.filter((until) => until === 0).length, 3, 'of many concurrent attempts, only the free ones proceed');
      t.same(new Set(many), new Set([0, NOW + 1_000]), 'the others learn when their wait ends');
      t.equal(await store.loginThrottle.blockedUntil(limits, NOW + 999), NOW + 1_000);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 999), NOW + 1_000, 'a delayed attempt is not counted');
      t.equal(await store.loginThrottle.blockedUntil(limits, NOW + 1_000), 0);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 1_000), 0);
      t.equal(await store.loginThrottle.blockedUntil(limits, NOW + 1_000), NOW + 3_000, 'the wait doubles');
      t.equal(await store.loginThrottle.blockedUntil(limits, NOW - 5_000), NOW - 3_000, 'a clock that is set back does not extend the wait');
      t.equal(await store.loginThrottle.reserve(limits, NOW + 3_000), 0);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 7_000), 0);
      t.equal(await store.loginThrottle.blockedUntil(limits, NOW + 7_000), NOW + 11_000, 'limited by the longest wait');
      t.equal(await store.loginThrottle.blockedUntil(limits, NOW + 27_000), 0, 'forgotten');
      t.equal(await store.loginThrottle.reserve(limits, NOW + 27_000), 0);
      t.equal(await store.loginThrottle.reserve(limits, NOW + 27_000), 0, 'counted from zero');
      await store.loginThrottle.settle({ clear: [key], release: [] }, NOW);
    }
  }); // prettier-ignore

  await check('counts an attempt under all of its keys, or none', async (t, store) => {
    const [account, network] = [FAILURES, { ...FAILURES, key: 'address:1.2.3.4', free: 1 }];
    t.equal(await store.loginThrottle.reserve([account, network], NOW), 0);
    t.equal(await store.loginThrottle.reserve([account, network], NOW), NOW + 1_000);
    t.equal(await store.loginThrottle.reserve([account], NOW), 0, 'only one was counted');
    t.equal(await store.loginThrottle.reserve([account], NOW), 0);
    t.equal(await store.loginThrottle.reserve([account], NOW), NOW + 1_000);
  });

  await check('a released attempt affects neither the count nor the wait', async (t, store) => {
    const release = { clear: [], release: [FAILURES.key] };
    for (let i = 0; i < 10; i++) {
      t.equal(await store.loginThrottle.reserve([FAILURES], NOW + i), 0);
      await store.loginThrottle.settle(release, NOW + i);
    }
    for (let i = 0; i < 3; i++) await store.loginThrottle.reserve([FAILURES], NOW);
    t.equal(await store.loginThrottle.blockedUntil([FAILURES], NOW), NOW + 1_000);
    t.equal(await store.loginThrottle.reserve([FAILURES], NOW + 2_000), 0);
    await store.loginThrottle.settle(release, NOW + 2_000);
    t.equal(await store.loginThrottle.reserve([FAILURES], NOW + 2_001), 0, 'the wait follows the earlier failures');
    await store.loginThrottle.settle({ clear: [FAILURES.key, 'none'], release: ['none'] }, NOW);
    t.equal(await store.loginThrottle.blockedUntil([FAILURES], NOW + 2_001), 0);
  }); // prettier-ignore

  await check('a count may block all attempts until it is forgotten, and a window does not move', async (t, store) => {
    const stop: AttemptLimit = { ...FAILURES, free: 1, stopAt: 2 };
    t.equal(await store.loginThrottle.reserve([stop], NOW), 0);
    t.equal(await store.loginThrottle.reserve([stop], NOW + 1_000), 0);
    t.equal(await store.loginThrottle.reserve([stop], NOW + 20_999), NOW + 21_000);
    t.equal(await store.loginThrottle.reserve([stop], NOW + 21_000), 0);
    const window: AttemptLimit = { ...FAILURES, key: 'window', free: 2, stopAt: 2, forgetFrom: 'first' };
    t.equal(await store.loginThrottle.reserve([window], NOW), 0);
    t.equal(await store.loginThrottle.reserve([window], NOW + 19_000), 0);
    t.equal(await store.loginThrottle.reserve([window], NOW + 19_000), NOW + 20_000);
    t.equal(await store.loginThrottle.blockedUntil([window], NOW - 50_000), NOW - 30_000, 'a clock that was set back does not extend it');
    t.equal(await store.loginThrottle.reserve([window], NOW + 20_000), 0);
  }); // prettier-ignore

  await check('attempts counted by a clock that ran ahead delay later ones no longer than others do', async (t, store) => {
    const YEAR = 365 * 86_400_000;
    const ahead = NOW + YEAR;
    const kinds: AttemptLimit[] = [
      { ...FAILURES, key: 'failures', free: 1 },
      { ...FAILURES, key: 'codes', free: 1, stopAt: 2 },
      { ...FAILURES, key: 'window', free: 2, stopAt: 2, forgetFrom: 'first' },
    ];
    for (const limit of kinds) {
      const { key } = limit;
      while ((await store.loginThrottle.reserve([limit], ahead)) === 0);
      t.not(await store.loginThrottle.blockedUntil([limit], ahead - 60_000), 0, `${key}: not for clocks that differ a little`);
      t.equal(await store.loginThrottle.blockedUntil([limit], NOW), 0, key);
      t.equal(await store.loginThrottle.reserve([limit], NOW), 0, `${key}: one attempt is allowed`);
      const until = await store.loginThrottle.reserve([limit], NOW);
      t.ok(until > NOW && until <= NOW + limit.forgetAfter, `${key}: and the next has to wait as usual`);
      t.equal(await store.loginThrottle.blockedUntil([limit], until), 0, `${key}: until then`);
    }
    const window: AttemptLimit = { ...FAILURES, key: 'open', free: 3, stopAt: 3, forgetFrom: 'first' };
    await store.loginThrottle.reserve([window], ahead);
    for (let i = 0; i < 10; i++) t.equal(await store.loginThrottle.reserve([window], NOW + i * 15_000), 0, 'windows continue');
  }); // prettier-ignore

  await check('remembers the last few addresses of an account until they expire', async (t, store, reopen) => {
    const remember = (address: string, until: number, account = 'a') =>
      store.loginThrottle.settle({ clear: [], release: [], remember: { account, address, until } }, NOW);
    t.same(await store.loginThrottle.listKnownAddresses('a', NOW), []);
    // Redis removes expired entries by its own clock, so these last longer than the test.
    const MINUTE = 60_000;
    for (let i = 1; i <= 7; i++) await remember(`A${i}`, NOW + i * MINUTE);
    await remember('A3', NOW + 9 * MINUTE);
    await remember('B1', NOW + MINUTE, 'x'.repeat(3_000));
    const known = async (now: number) => (await store.loginThrottle.listKnownAddresses('a', now)).toSorted();
    t.same(await known(NOW), ['A3', 'A4', 'A5', 'A6', 'A7'], 'five at most');
    t.same(await known(NOW + 6 * MINUTE), ['A3', 'A7']);
    const again = await reopen();
    t.same(await again.loginThrottle.listKnownAddresses('x'.repeat(3_000), NOW), ['B1'], 'across restarts');
    await again.maintenance.removeExpired(NOW + 8 * MINUTE, NOW, 10);
    t.same(await again.loginThrottle.listKnownAddresses('a', NOW + 8 * MINUTE), ['A3'], 'kept until the last one expires');
    await again.maintenance.removeExpired(NOW + 9 * MINUTE, NOW, 10);
    t.same(await again.loginThrottle.listKnownAddresses('a', NOW + 9 * MINUTE), []);
  }); // prettier-ignore
}
