import t from 'tap';
import { RefreshedValue } from '../../src/net/refreshed-value.js';

/** A value whose clock and source are controlled by the test; each fetch returns its number. */
function driven(times: { staleFor?: number; cooldown?: number } = {}) {
  const state = { now: 0, fails: false, fetches: 0, outcomes: [] as boolean[] };
  const value = new RefreshedValue(
    async () => {
      state.fetches += 1;
      await Promise.resolve();
      if (state.fails) throw new Error('away');
      return String(state.fetches);
    },
    { after: 100, retry: 10, ...times },
    (error) => state.outcomes.push(error === undefined),
    () => state.now,
  );
  return { state, value };
}

/** Lets a fetch in the background end. */
const settled = async () => new Promise((done) => setImmediate(done));

t.test('concurrent callers share one fetch, and a due refresh keeps nobody waiting', async (t) => {
  const { state, value } = driven({ staleFor: 200 });
  t.same(await Promise.all([value.get(), value.get(), value.get()]), ['1', '1', '1']);
  state.now = 99;
  t.equal(await value.get(), '1');
  t.equal(state.fetches, 1);
  state.now = 100;
  t.equal(await value.get(), '1', 'in the background');
  await settled();
  t.equal(await value.get(), '2');
  state.now = 300;
  t.equal(await value.get(), '3', 'waits for a newer value once it is stale');
  value.expire();
  t.equal(await value.get(), '4');
  t.same(state.outcomes, [true, true, true, true]);
});

t.test('a known value outlives failures, which are retried only after a while', async (t) => {
  const { state, value } = driven({ staleFor: 200 });
  state.fails = true;
  t.equal(value.latest(), undefined);
  await t.rejects(value.get(), /away/);
  await t.rejects(value.get(), /away/);
  t.equal(state.fetches, 1);
  state.now = 10;
  state.fails = false;
  t.equal(await value.get(), '2');
  t.equal(value.failure, undefined);
  state.now = 10_000;
  state.fails = true;
  t.equal(await value.get(), '2');
  t.match(value.failure, { message: 'away' });
  t.equal(await value.newer(), undefined);
  t.equal(state.fetches, 3);
  state.now += 10;
  t.equal(await value.get(), '2', 'nobody waits for a source that is away');
  await settled();
  t.same([state.fetches, state.outcomes], [4, [false, true, false, false]]);
});

t.test('a cooldown allows two fetches', async (t) => {
  const { state, value } = driven({ cooldown: 50 });
  await value.get();
  t.equal(await value.newer(), '2');
  t.equal(await value.newer(), undefined);
  state.now = 50;
  t.same([await value.newer(), await value.newer(), await value.newer()], ['3', '4', undefined]);
});
