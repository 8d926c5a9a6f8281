import t from 'tap';
import { AddressHealth, startHealthChecks } from '../../src/upstream/address.js';
import type { Dispatcher } from '../../src/upstream/upstream-request.js';

/** Records a number of failures at one time. */
function fail(health: AddressHealth, times: number, now: number): void {
  for (let i = 0; i < times; i++) health.failed(now);
}

t.test('three failures in a row eject an address; a response in between resets the count', async (t) => {
  const health = new AddressHealth();
  fail(health, 2, 0);
  health.answered();
  fail(health, 2, 0);
  t.equal(health.usable, true);
  health.failed(0);
  t.equal(health.usable, false);
  health.answered();
  t.equal(health.usable, true, 'a late response brings it back');
});

t.test('probes it with one request per interval, which doubles with each failure up to 30 s', async (t) => {
  const health = new AddressHealth();
  let now = 1_000;
  fail(health, 3, now);
  fail(health, 50, now + 10);
  for (const out of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    t.equal(health.tryProbe(now + out - 1), false, `not before ${out} ms`);
    now += out;
    t.equal(health.tryProbe(now), true, `after ${out} ms`);
    t.equal(health.tryProbe(now), false, 'one request only');
    t.equal(health.usable, false, 'nothing else is sent to it');
    fail(health, 20, now);
  }
  now += 30_000;
  t.equal(health.tryProbe(now), true);
  t.equal(health.tryProbe(now + 29_999), false);
  t.equal(health.tryProbe(now + 30_000), true, 'a probe without an outcome is followed by another one');
  health.answered();
  t.same([health.usable, health.tryProbe(now)], [true, false]);
  fail(health, 3, now);
  t.same([health.tryProbe(now + 999), health.tryProbe(now + 1_000)], [false, true], 'it starts short again');
});

t.test('two checks in a row change the state; the first check sets it alone', async (t) => {
  const changes = (checks: readonly boolean[]) => {
    const health = new AddressHealth();
    return checks.map((healthy) => {
      health.checked(healthy);
      return health.usable;
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

t.test('combines checks and requests', async (t) => {
  const health = new AddressHealth();
  fail(health, 3, 0);
  health.checked(true);
  t.equal(health.usable, false, 'a check that passes as before changes nothing');
  health.checked(false);
  health.checked(false);
  t.equal(health.tryProbe(5_000), false, 'an unhealthy address is not probed by requests');
  health.answered();
  t.equal(health.usable, false, 'a response alone does not bring it back');
  health.checked(true);
  health.checked(true);
  t.equal(health.usable, true, 'a check that brings it back resets the failures');
});

t.test(
  'the longest interval is not exceeded by its random variation: such a timer would fire at once',
  async (t) => {
    const { random } = Math;
    t.teardown(() => void (Math.random = random));
    Math.random = () => 0.99;
    let checks = 0;
    const pool: Dispatcher = {
      dispatch: (_, handler) => handler.onResponseStart(200, 'OK', []),
      destroy: () => undefined,
    };
    const settings = { path: '/', interval: 2_147_483_647, timeout: 1_000 };
    t.teardown(startHealthChecks({ openPool: () => pool }, 'api', settings, () => (checks += 1)));
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    t.equal(checks, 1);
  },
);
