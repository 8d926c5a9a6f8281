import * as fc from 'fast-check';
import t from 'tap';
import { Limiter, type OnYield, type Permit } from '../../src/domain/limiter.js';
import type { Holder } from '../../src/domain/shares.js';
import { property, Share } from '../helpers/property.js';
import { until } from '../helpers/until.js';

const SIZE = 4;
const MAX_WAITING = 4;
const tick = () => new Promise((done) => void setImmediate(done));

interface Wish {
  readonly holder: Holder;
  went: number;
  left: string[];
  permit: Permit | undefined;
}

/** Acquires a permit, and records what becomes of it; one that gives way is released. */
function wish(limiter: Limiter, holder: Holder = ['A']): Wish {
  const made: Wish = { holder, went: 0, left: [], permit: undefined };
  const leave = (why: string) => {
    made.left.push(why);
    made.permit?.release();
  };
  made.permit = limiter.acquire({ holder, go: () => void (made.went += 1), leave });
  return made;
}

const isHeld = ({ permit }: Wish) => permit?.isHeld === true;
const isWaiting = ({ permit }: Wish) => permit?.state === 'waiting';

/** What one has, except in common with another: as its network, user or credential, whichever is most. */
const has = (one: Holder, other: Holder, all: readonly Wish[]) =>
  Math.max(
    ...one.map((name, i) => (name === other[i] ? -1 : all.filter((each) => each.holder[i] === name).length)),
  );

const hasMore = (one: Holder, other: Holder, all: readonly Wish[], more: number) =>
  has(one, other, all) > has(other, one, all) + more;

const holder = fc.tuple(
  fc.constantFrom('A', 'A', 'B', 'C'),
  fc.constantFrom('U', 'V'),
  fc.constantFrom('1', '2'),
);
const steps = fc.array(fc.tuple(fc.nat(30), holder), { maxLength: 60, size: 'max' });
const yielded = new Share();
const refused = new Share();

// Each number either acquires a permit (even) or releases an earlier one (odd), even if that was
// released before.
property(
  'the limits hold for any order, and only one that has more than another gives way to it',
  1_000,
  steps,
  (taken) => {
    const made: Wish[] = [];
    let kinds: string[] = [];
    const onYield: OnYield = (kind) => void kinds.push(kind);
    const limits = { size: SIZE, maxWaiting: MAX_WAITING, timeout: 60_000, patience: 60_000 };
    const limiter = new Limiter(limits, onYield);
    let before: Wish[] = [];
    for (const [step, who] of taken) {
      kinds = [];
      before = made.filter((each) => isHeld(each) || isWaiting(each));
      const [held, waiting] = [before.filter(isHeld), before.filter(isWaiting)];
      const earlier = made[Math.floor(step / 2) % Math.max(1, made.length)];
      if (step % 3 === 0 && earlier !== undefined) earlier.permit?.release();
      else {
        const each = wish(limiter, who);
        const gone = before.filter(({ left }) => left.length > 0 && left.splice(0).length > 0);
        if (gone.length > 1 || gone.length !== kinds.length) throw new Error('more than one gave way');
        for (const one of gone) {
          const all = held.includes(one) ? held : waiting;
          if (!hasMore(one.holder, who, all, 1)) throw new Error('it has no more than the other');
        }
        if (each.permit !== undefined) made.push(each);
        else if (waiting.some((one) => hasMore(one.holder, who, waiting, 1)) || held.some((one) => hasMore(one.holder, who, held, 1)))
          throw new Error('refused although another has more');
        yielded.note(gone.length > 0);
        refused.note(each.permit === undefined);
      }
      const counts = [made.filter(isHeld).length, made.filter(isWaiting).length] as const;
      if (limiter.active !== counts[0] || limiter.waiting !== counts[1]) throw new Error('counted wrongly');
      if (counts[0] > SIZE || counts[1] > MAX_WAITING) throw new Error('over a limit');
      if (counts[1] > 0 && counts[0] < SIZE) throw new Error('one waits while a place is free');
    }
    for (const { permit } of made) permit?.release();
    if (limiter.active !== 0 || limiter.waiting !== 0) throw new Error('something is left at rest');
  },
); // prettier-ignore

t.test('the property above covers evictions and refusals', async (t) => {
  t.ok(yielded.exceeds(0.02), `evictions ${yielded.part}`);
  t.ok(refused.exceeds(0.02), `refusals ${refused.part}`);
});

for (const [what, many, other] of [
  ['network', () => ['A', 'U', '1'], (i: number) => [`B${i}`, `V${i}`, `2${i}`]],
  ['network with a credential that others have too', () => ['A', 'U', '1'], (i: number) => [`B${i}`, 'U', '1']],
  ['user of one network', (i: number) => ['A', 'U', `${i}`], (i: number) => ['A', `V${i}`, `x${i}`]],
  ['user of many networks', (i: number) => [`A${i}`, 'U', '1'], (i: number) => [`B${i}`, `V${i}`, `2${i}`]],
  ['credential of one user', () => ['A', 'U', '1'], (i: number) => ['A', 'U', `x${i}`]],
] as [string, (i: number) => Holder, (i: number) => Holder][])
  t.test(`others are served while one holds all, and ten times as much: ${what}`, async (t) => {
    const limiter = new Limiter({ size: SIZE, maxWaiting: 9 * SIZE, timeout: 60_000, patience: 10 });
    const held = Array.from({ length: 10 * SIZE }, (_, i) => wish(limiter, many(i)));
    t.equal(wish(limiter, many(0)).permit, undefined, 'the queue is full');
    const others = Array.from({ length: 20 }, (_, i) => wish(limiter, other(i)));
    t.ok(others.every(({ permit }) => permit !== undefined));
    await until(() => {
      for (const { went, permit } of others) if (went > 0) permit?.release();
      return others.every(({ went }) => went === 1);
    }, 'all of the others');
    t.same(others.flatMap(({ left }) => left), []);
    t.equal(held.filter(({ left }) => left.length > 0).length, 20 + SIZE - 1, 'no more give way than needed');
    for (const { permit } of held) permit?.release();
  }); // prettier-ignore

t.test('who holds as much as others waits for them', async (t) => {
  const limiter = new Limiter({ size: 2, maxWaiting: 2, timeout: 200, patience: 10 });
  const held = [wish(limiter, ['A']), wish(limiter, ['B'])];
  const waiting = [wish(limiter, ['A']), wish(limiter, ['C'])];
  await until(() => waiting.every(({ left }) => left.length > 0), 'the end of the wait');
  t.same([...held, ...waiting].map(({ left }) => left), [[], [], ['waited'], ['waited']]);
  for (const { permit } of held) permit?.release();
  t.same([limiter.active, limiter.waiting], [0, 0]);
}); // prettier-ignore

t.test('a permit released before its turn never starts', async (t) => {
  const limiter = new Limiter({ size: 1, maxWaiting: 2, timeout: 60_000 });
  const [first, second, third] = [wish(limiter), wish(limiter), wish(limiter)];
  t.notOk(second.permit?.isHeld);
  first.permit?.release();
  t.ok(second.permit?.isHeld, 'its turn has come');
  second.permit?.release();
  await tick();
  t.same([second.went, third.went], [0, 1], 'the next one goes in its stead');
  third.permit?.release();
  t.equal(limiter.active, 0);
});
