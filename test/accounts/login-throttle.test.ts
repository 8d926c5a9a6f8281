import { join } from 'node:path';
import t, { type Test } from 'tap';
import { clearThrottle, type AttemptOutcome, LoginThrottle } from '../../src/accounts/login-throttle.js';
import { bytesOfAddress } from '../../src/util/addresses.js';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { forEachRow } from '../helpers/table.js';
import { NOW } from '../store/contract/records.js';

const MINUTE = 60_000;
const SETTINGS = { max_failures: 2, lockout: 15 * MINUTE };

function setUp(t: Test, settings = SETTINGS) {
  const store = openLmdbStore(join(temporaryFolder(t), 'store'));
  t.teardown(() => store.maintenance.close());
  const throttle = new LoginThrottle(store.loginThrottle, settings);
  /** Makes attempts until one has to wait; returns their number and the wait. */
  const guess = async (login: (i: number) => string, address: (i: number) => string, now = NOW, most = 5_000) => {
    for (let i = 0; i < most; i++) {
      const reserved = await throttle.reserve({ login: login(i), address: address(i), hasCode: false }, now);
      if (typeof reserved === 'number') return [i, reserved];
    }
    return [most, 0];
  };
  const attempt = async (ending: AttemptOutcome | null, now: number, more: { login?: string; address?: string; hasCode?: boolean } = {}) => {
    const reserved = await throttle.reserve({ login: 'a', address: '192.0.2.1', hasCode: false, ...more }, now);
    if (typeof reserved === 'number') return reserved;
    if (ending !== null) await reserved.settle(ending, now);
    return 0;
  };
  return { store, throttle, guess, attempt };
} // prettier-ignore

t.test('the bytes of an address do not depend on its notation', async (t) => {
  forEachRow(
    [
      ['192.0.2.1', '192.0.2.1'],
      ['::ffff:192.0.2.1', '192.0.2.1'],
      ['::FFFF:c000:0201', '192.0.2.1'],
      ['2001:db8::1', '32.1.13.184.0.0.0.0.0.0.0.0.0.0.0.1'],
      ['2001:0db8:0:0:0:0:0:1', '32.1.13.184.0.0.0.0.0.0.0.0.0.0.0.1'],
      ['2001:db8::192.0.2.1', '32.1.13.184.0.0.0.0.0.0.0.0.192.0.2.1'],
      ['fe80::1%eth0', '254.128.0.0.0.0.0.0.0.0.0.0.0.0.0.1'],
      ['::', '0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0'],
      ['1::', '0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0'],
      ['no address', ''],
      ['', ''],
    ] as const,
    ([address, bytes]) => t.equal(bytesOfAddress(address).join('.'), bytes, address),
  );
});

t.test('counts networks by their bytes, with larger allowances for wider ones', async (t) => {
  const name = (i: number) => `nobody${i}`;
  const rows: [string, (i: number) => string, number][] = [
    ['one IPv4 address', () => '192.0.2.1', 40],
    ['the same as IPv6', (i) => (i % 2 === 0 ? '192.0.2.1' : '::ffff:192.0.2.1'), 40],
    ['many addresses of one /64', (i) => `2001:db8::${i.toString(16)}`, 40],
    ['one /64 in two notations', (i) => (i % 2 === 0 ? '2001:db8::1' : '2001:0db8:0000:0:0:0:0:1'), 40],
    ['many /64 of one /56', (i) => `2001:db8:0:${(i % 256).toString(16)}::1`, 160],
    ['many /56 of one /48', (i) => `2001:db8:0:${((i * 256) % 65_536).toString(16)}::1`, 640],
  ];
  for (const [what, address, free] of rows) t.same(await setUp(t).guess(name, address), [free, 1], what);
  t.same(await setUp(t).guess(name, (i) => `192.0.${i >> 8}.${i & 255}`, NOW, 300), [300, 0], 'others are not throttled');
}); // prettier-ignore

t.test('the count outlasts its longest wait', async (t) => {
  const { attempt } = setUp(t);
  let now = NOW;
  const waits: number[] = [];
  while (waits.at(-1) !== 900) {
    const wait = await attempt(null, now);
    if (wait > 0) waits.push(wait);
    now += wait * 1_000;
  }
  t.same(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900]);
  t.equal(await attempt(null, now), 0);
  t.equal(await attempt(null, now), 900, 'after the longest wait, the next wait is just as long');
});

t.test('a successful login is not counted for the network and clears the account', async (t) => {
  const { attempt } = setUp(t);
  for (let i = 0; i < 120; i++) t.equal(await attempt('succeeded', NOW + i), 0);
  t.equal(await attempt(null, NOW), 0);
  t.equal(await attempt('succeeded', NOW), 0);
  for (let i = 0; i < 2; i++) t.equal(await attempt(null, NOW), 0);
  t.equal(await attempt(null, NOW), 1);
});

t.test(
  'five wrong one-time passwords, then waits; at a hundred, blocked until an operator unlocks',
  async (t) => {
    const { store, attempt } = setUp(t, { max_failures: 5, lockout: 1_000 });
    let now = NOW;
    const guess = (i: number) => attempt('wrong_code', now, { hasCode: true, address: `192.0.2.${i}` });
    for (let i = 0; i < 5; i++) t.equal(await guess(i), 0);
    t.equal(await guess(5), 1);
    t.equal(await attempt('right_password', now), 0, 'an attempt without a code is not a guess');
    for (let i = 5; i < 100; i++) {
      now += 1_000;
      if ((await guess(i)) !== 0) t.fail(`guess ${i}`);
    }
    now += 86_400_000;
    t.ok((await guess(1)) > 86_400, 'codes are no longer checked');
    await clearThrottle(store.loginThrottle, 'A', now);
    t.equal(await guess(1), 0);
  },
);

t.test('without the password, nobody uses up the one-time passwords of an account', async (t) => {
  const { attempt } = setUp(t);
  const owner = { address: '192.0.2.1', hasCode: true };
  t.equal(await attempt('succeeded', NOW, owner), 0, 'the owner logs in once');
  let now = NOW;
  for (let i = 0; i < 120; i++) {
    const stranger = { address: `198.51.100.${i}`, hasCode: true };
    if ((await attempt('wrong_password', now, stranger)) !== 0) t.fail(`guess ${i}`);
    now += SETTINGS.lockout;
  }
  t.equal(await attempt('wrong_code', now, owner), 0, 'the owner is not locked out');
  t.equal(await attempt('wrong_code', now, owner), 0, 'and has as many tries as ever');
  t.equal(await attempt('wrong_password', now, owner), 1);
});

t.test('successful logins are rate-limited', async (t) => {
  const { attempt } = setUp(t);
  let made = 0;
  while (made < 2_000 && (await attempt('succeeded', NOW)) === 0) made += 1;
  t.equal(made, 1_000);
  t.equal(await attempt('succeeded', NOW), 300, 'seconds until the window ends');
  t.equal(await attempt('succeeded', NOW, { login: 'b' }), 0, 'others are not limited');
  t.equal(await attempt('succeeded', NOW + 5 * MINUTE), 0);
});
