import * as fc from 'fast-check';
import t from 'tap';
import { TokenRates } from '../../src/accounts/token-rates.js';
import { parseRate, type Rate, takeFrom } from '../../src/domain/token.js';
import { StoreUnavailable } from '../../src/store/faults.js';
import { options, told } from '../helpers/property.js';

/** A store shared by several processes that counts its calls. */
function sharedStore() {
  const buckets = new Map<string, number>();
  const store = {
    asked: 0,
    away: false,
    leaseRate: async (id: string, rate: Rate, want: number) => {
      store.asked += 1;
      if (store.away) throw new StoreUnavailable('away');
      const { granted, state, retryAfter } = takeFrom(buckets.get(id) ?? 0, rate, want, Date.now());
      buckets.set(id, state);
      return { granted, retryAfter };
    },
  };
  return store;
}

const quiet = () => undefined;

t.test('admits a burst up to the count exactly, however it is spread over processes', async (t) => {
  const details = await fc.check(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 400 }),
      fc.integer({ min: 1, max: 6 }),
      fc.array(fc.nat(5), { minLength: 1, maxLength: 600 }),
      async (count, processes, asked) => {
        const store = sharedStore();
        const all = Array.from({ length: processes }, () => new TokenRates(store, quiet));
        // Per hour, so that nothing is refilled during the test.
        const waits = await Promise.all(asked.map(async (i) => all[i % processes]?.take('T', `${count}/1h`)));
        const admitted = waits.filter((wait) => wait === 0).length;
        const held = (processes - 1) * Math.max(1, Math.floor(count / 50));
        const most = Math.min(count, asked.length);
        if (admitted > most) throw new Error(`${admitted} of ${asked.length} at ${count}`);
        if (admitted < Math.min(asked.length, count - held)) throw new Error(`only ${admitted} of ${asked.length} at ${count}`);
        const refused = waits.filter((wait) => wait !== 0);
        if (refused.some((wait) => !(typeof wait === 'number' && wait > 0))) throw new Error('a refusal without a wait');
      },
    ),
    options(300),
  );
  t.notOk(details.failed, told(details));
}); // prettier-ignore

t.test('leased requests cost nothing: the store is asked rarely, even for refused ones', async (t) => {
  const store = sharedStore();
  const rates = new TokenRates(store, quiet);
  // The rate is so low that nothing is refilled during the test.
  let inline = 0;
  for (let i = 0; i < 10_000; i++) {
    const wait = rates.take('T', '10000/31d');
    if (typeof wait === 'number') inline += 1;
    else await wait;
  }
  t.ok(store.asked < 100, `${store.asked} times for 10,000 requests`);
  t.ok(inline > 9_900, `${inline} without a promise`);
  const { asked } = store;
  for (let i = 0; i < 1_000; i++) t.ok((await rates.take('T', '10000/31d')) > 0);
  t.ok(store.asked - asked <= 2, `${store.asked - asked} times for 1,000 refused ones`);
});

t.test('a changed rate applies to the next request', async (t) => {
  const rates = new TokenRates(sharedStore(), quiet);
  for (let i = 0; i < 60; i++) t.equal(await rates.take('T', '100/1h'), 0);
  t.ok((await rates.take('T', '1/1h')) > 0);
  t.equal(await rates.take('T', '100/1h'), 0);
  t.equal(await rates.take('other', '1/1h'), 0, 'each token has its own');
});

t.test('while the store is unavailable each process limits by itself; later they share again', async (t) => {
  const store = sharedStore();
  const faults: unknown[] = [];
  const rates = new TokenRates(store, (error) => faults.push(error));
  store.away = true;
  const admitted = async (text: string) => {
    let count = 0;
    for (let i = 0; i < 500; i++) if ((await rates.take(`T${text}`, text)) === 0) count += 1;
    return count;
  };
  t.equal(await admitted('1000/1h'), 20, 'its own lease, and then what is refilled');
  t.equal(await admitted('5/1h'), 1);
  t.equal(store.asked, 2, 'once a second');
  t.equal(faults.length, 2);
  store.away = false;
  await new Promise((later) => setTimeout(later, 1_100));
  t.equal(await admitted('5/1h'), 5);
  const broken = new TokenRates({ leaseRate: async () => Promise.reject(new TypeError('a fault')) }, quiet);
  await t.rejects(async () => broken.take('T', '5/1h'), TypeError, 'an unexpected error refuses');
});

t.test('tokens that share a bucket at different rates gain nothing by taking turns', async (t) => {
  const shared = sharedStore();
  for (const [what, usage, most] of [
    ['without the store', { leaseRate: () => Promise.reject(new StoreUnavailable('away')) }, 3],
    ['with it', shared, 100],
  ] as const) {
    const rates = new TokenRates(usage, quiet);
    let admitted = 0;
    for (let i = 0; i < 400; i++)
      if ((await rates.take('T', i % 2 === 0 ? '50/1h' : '100/1h')) === 0) admitted += 1;
    t.ok(admitted <= most, `${what}: ${admitted}`);
  }
});

t.test('validates the rate', async (t) => {
  t.same(parseRate('5/1h'), { count: 5, per: 3_600_000 });
  t.throws(() => new TokenRates(sharedStore(), quiet).take('T', 'fast'), /the rate fast is not valid/);
});
