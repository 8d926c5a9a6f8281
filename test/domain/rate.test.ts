import * as fc from 'fast-check';
import t from 'tap';
import { includesRate, parseRate, takeFrom } from '../../src/domain/token.js';
import { property } from '../helpers/property.js';

t.test('parses rates', async (t) => {
  for (const [text, count, per] of [['600/1m', 600, 60_000], ['1/1s', 1, 1_000], ['1000000/31d', 1_000_000, 31 * 86_400_000], ['5/90s', 5, 90_000], ['7/2h', 7, 7_200_000]] as const)
    t.same(parseRate(text), { count, per }, text);
  for (const text of ['', '600', '600/m', '600/1', '0/1m', '600/0m', '-1/1m', '1.5/1m', '600/1M', '600/1ms', ' 600/1m', '600/1m ', '600 / 1m', '1000001/1m', '600/32d', '600/99999d', '0600/1m', '600/1m/1m', '1e3/1m', '９/1m'])
    t.equal(parseRate(text), undefined, JSON.stringify(text));
}); // prettier-ignore

t.test('a rate includes another that allows no more, neither at once nor in the long run', async (t) => {
  const includes = (wide: string, narrow: string) => {
    const [a, b] = [parseRate(wide), parseRate(narrow)];
    return a !== undefined && b !== undefined && includesRate(a, b);
  };
  for (const [wide, narrow] of [['600/1m', '600/1m'], ['600/1m', '10/1s'], ['600/1m', '599/1m'], ['60/1m', '60/1h'], ['5/90s', '3/60s']] as const)
    t.equal(includes(wide, narrow), true, `${narrow} in ${wide}`);
  for (const [wide, narrow] of [['600/1m', '601/1m'], ['10/1s', '600/1m'], ['600/1m', '11/1s'], ['60/1h', '60/1m'], ['5/90s', '4/60s']] as const)
    t.equal(includes(wide, narrow), false, `${narrow} not in ${wide}`);
}); // prettier-ignore

/** Requests over time, each wanting a number of permits. */
const requests = fc.array(fc.tuple(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 1, max: 30 })), {
  maxLength: 60,
});
const rates = fc.record({ count: fc.integer({ min: 1, max: 50 }), per: fc.integer({ min: 1, max: 20_000 }) });

property(
  'a bucket never grants more than it held plus the refill; an idle bucket becomes full',
  20_000,
  fc.tuple(rates, requests),
  ([rate, asked]) => {
    let state = 0;
    let now = 1_800_000_000_000;
    const given: { at: number; count: number }[] = [];
    for (const [pause, want] of asked) {
      now += pause;
      const grant = takeFrom(state, rate, want, now);
      if (grant.granted > want || grant.granted < 0) throw new Error('more than was wanted');
      if ((grant.granted === 0) !== grant.retryAfter > 0) throw new Error(`a wait of ${grant.retryAfter}`);
      if (grant.granted === 0) {
        const later = takeFrom(grant.state, rate, 1, now + Math.ceil(grant.retryAfter));
        if (later.granted !== 1) throw new Error('nothing came back in the time that was told');
      }
      state = grant.state;
      given.push({ at: now, count: grant.granted });
    }
    for (const [i, from] of given.entries()) {
      let sum = 0;
      for (const { at, count } of given.slice(i)) {
        sum += count;
        const most = rate.count + ((at - from.at) * rate.count) / rate.per;
        if (sum > most + 0.01) throw new Error(`${sum} instead of ${most} in ${at - from.at} ms`);
      }
    }
    if (takeFrom(state, rate, 1_000, now + rate.per).granted !== rate.count)
      throw new Error('it is not full');
  },
);

t.test('state from a fast clock counts as an empty bucket', async (t) => {
  const rate = { count: 10, per: 1_000 };
  t.match(takeFrom(9e12, rate, 1, 1e12), { granted: 0, retryAfter: 100 });
  t.match(takeFrom(9e12, rate, 20, 1e12), { granted: 0 });
  t.equal(takeFrom(takeFrom(9e12, rate, 1, 1e12).state, rate, 20, 1e12 + 500).granted, 5);
});

t.test('large rates lose nothing to rounding', async (t) => {
  const rate = { count: 1_000_000, per: 1_000 };
  const now = 1_800_000_000_000;
  let state = 0;
  let sum = 0;
  for (;;) {
    const { granted, state: next } = takeFrom(state, rate, 1_000, now);
    if (granted === 0) break;
    sum += granted;
    state = next;
  }
  t.ok(sum > 990_000 && sum <= 1_000_001, String(sum));
});
