import t from 'tap';
import { AddressHealth } from '../../src/upstream/address-health.js';

/** Fails an address so often at one time. */
function fail(standing: AddressHealth, times: number, now: number): void {
  for (let i = 0; i < times; i++) standing.failed(now);
}

t.test(
  'three failures in a row leave an address out, an answer between them starts the count again',
  async (t) => {
    const standing = new AddressHealth();
    fail(standing, 2, 0);
    standing.answered();
    fail(standing, 2, 0);
    t.equal(standing.usable, true);
    standing.failed(0);
    t.equal(standing.usable, false);
    standing.answered();
    t.equal(standing.usable, true, 'an answer that was under way brings it back');
  },
);

t.test(
  'it is tried by one request in each while, and each failure doubles the while up to 30 s',
  async (t) => {
    const standing = new AddressHealth();
    let now = 1_000;
    fail(standing, 3, now);
    fail(standing, 50, now + 10);
    for (const out of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      t.equal(standing.tryProbe(now + out - 1), false, `not before ${out} ms`);
      now += out;
      t.equal(standing.tryProbe(now), true, `after ${out} ms`);
      t.equal(standing.tryProbe(now), false, 'one request only');
      t.equal(standing.usable, false, 'nothing else is sent to it');
      fail(standing, 20, now);
    }
    now += 30_000;
    t.equal(standing.tryProbe(now), true);
    t.equal(standing.tryProbe(now + 29_999), false);
    t.equal(standing.tryProbe(now + 30_000), true, 'a try that came to nothing is followed by another one');
    standing.answered();
    t.same([standing.usable, standing.ejectedMs, standing.tryProbe(now)], [true, 0, false]);
    fail(standing, 3, now);
    t.equal(standing.ejectedMs, 1_000, 'and the next time begins short');
  },
);

t.test('two checks in a row change what is thought of it; of the very first ones, one', async (t) => {
  const changes = (checks: readonly boolean[]) => {
    const standing = new AddressHealth();
    return checks.map((healthy) => {
      standing.checked(healthy);
      return standing.usable;
    });
  };
  t.same(changes([false, false, true, true]), [false, false, false, true]);
  t.same(changes([true, false, true, false, false]), [true, true, true, true, false]);
  t.same(changes([true, false, false, true, false, true, true]), [
    true,
    true,
    false,
    false,
    false,
    false,
    true,
  ]);
});

t.test('checks and requests together', async (t) => {
  const standing = new AddressHealth();
  fail(standing, 3, 0);
  standing.checked(true);
  t.equal(standing.usable, false, 'a check that passes all along says nothing new');
  standing.checked(false);
  standing.checked(false);
  t.equal(standing.tryProbe(5_000), false, 'an unhealthy address is not tried by requests');
  standing.answered();
  t.equal(standing.usable, false, 'nor is it used because it answered one');
  standing.checked(true);
  standing.checked(true);
  t.equal(standing.usable, true, 'a check that brings it back forgives the failures');
});
