import * as fc from 'fast-check';
import t from 'tap';
import { BodyBudget, type BodyShare } from '../../src/http/read-body.js';
import { property, Share } from '../helpers/property.js';

const MAX_BYTES = 20;
const MAX_BODIES = 6;

interface Reading {
  readonly network: string;
  readonly share: BodyShare;
  bytes: number;
}

t.test('the budget of a body is released once, however often it ends', async (t) => {
  const budget = new BodyBudget(10, 2);
  const begin = () => budget.begin('A', () => t.fail('none gives way to its own network'));
  const [first, second] = [begin(), begin()];
  t.equal(begin(), undefined, 'not a third');
  t.same([first?.take(6), second?.take(5), second?.take(4)], [true, false, true]);
  first?.end();
  first?.end();
  const third = begin();
  t.equal(begin(), undefined, 'one was released, not two');
  t.same([third?.take(7), third?.take(6)], [false, true]);
});

const step = fc.record({
  network: fc.constantFrom('A', 'A', 'A', 'B', 'C'),
  what: fc.constantFrom('begin', 'begin', 'take', 'take', 'end'),
  amount: fc.nat(MAX_BYTES / 2),
});
const evicted = new Share();
const refused = new Share();

property(
  'is never exceeded, and refuses only a network that has as many bodies as any other',
  2_000,
  fc.array(step, { maxLength: 60, size: 'max' }),
  (steps) => {
    const budget = new BodyBudget(MAX_BYTES, MAX_BODIES);
    const reading: Reading[] = [];
    const countOf = (network: string) => reading.filter((each) => each.network === network).length;
    const mostOfOthers = (network: string) =>
      Math.max(...['A', 'B', 'C'].filter((each) => each !== network).map(countOf));
    const bytes = () => reading.reduce((sum, each) => sum + each.bytes, 0);
    const end = (body: Reading) => {
      body.share.end();
      reading.splice(reading.indexOf(body), 1);
    };
    let evictions = 0;
    const begin = (network: string) => {
      const before = countOf(network);
      const evict = () => {
        evictions += 1;
        const oldest = reading.find((each) => each.network === network);
        if (oldest?.share !== share) throw new Error('not the oldest of its network');
        end(oldest as Reading);
      };
      const share = budget.begin(network, evict);
      refused.note(share === undefined);
      if (share !== undefined) reading.push({ network, share, bytes: 0 });
      else if (reading.length < MAX_BODIES || mostOfOthers(network) > before + 1)
        throw new Error('refused although others have more');
    };
    for (const { network, what, amount } of steps) {
      const body = reading.find((each) => each.network === network);
      if (what === 'begin') begin(network);
      else if (body !== undefined && what === 'end') end(body);
      else if (body?.share.take(amount) === true) body.bytes += amount;
      else if (body !== undefined && mostOfOthers(network) > countOf(network))
        throw new Error('no bytes although others have more bodies');
      if (reading.length > MAX_BODIES || bytes() > MAX_BYTES) throw new Error('over the limit');
    }
    evicted.note(evictions > 0);
  },
);

t.test('the property above covers evictions and refusals', async (t) => {
  t.ok(evicted.exceeds(0.3), `evictions in ${evicted.part}`);
  t.ok(refused.exceeds(0.02), `refusals ${refused.part}`);
});
