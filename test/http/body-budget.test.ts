import { array, assert, constantFrom, nat, property, record } from 'fast-check';
import t from 'tap';
import { BodyBudget, type BodyShare } from '../../src/http/body-budget.js';

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

t.test('within the limits always; refuses only a network that has as many as any other', async (t) => {
  const step = record({
    network: constantFrom('A', 'A', 'A', 'B', 'C'),
    what: constantFrom('begin', 'begin', 'take', 'take', 'end'),
    amount: nat(MAX_BYTES / 2),
  });
  let evictions = 0;
  let refusals = 0;
  assert(
    property(array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const budget = new BodyBudget(MAX_BYTES, MAX_BODIES);
      const reading: Reading[] = [];
      const countOf = (network: string) => reading.filter((each) => each.network === network).length;
      const bytes = () => reading.reduce((sum, each) => sum + each.bytes, 0);
      const mostOfOthers = (network: string) =>
        Math.max(0, ...['A', 'B', 'C'].filter((each) => each !== network).map(countOf));
      const end = (body: Reading) => {
        body.share.end();
        reading.splice(reading.indexOf(body), 1);
      };
      const begin = (network: string) => {
        const before = countOf(network);
        const evict = () => {
          evictions += 1;
          const oldest = reading.find((each) => each.network === network);
          if (oldest === undefined || oldest.share !== share)
            throw new Error('not the oldest of its network');
          end(oldest);
        };
        const share = budget.begin(network, evict);
        if (share !== undefined) reading.push({ network, share, bytes: 0 });
        else if (reading.length < MAX_BODIES || mostOfOthers(network) > before + 1)
          throw new Error('refused although others have more');
        else refusals += 1;
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
    }),
  );
  t.ok(evictions > 0 && refusals > 0, `${evictions} evictions, ${refusals} refusals`);
});
