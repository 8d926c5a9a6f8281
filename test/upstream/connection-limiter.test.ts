import * as fc from 'fast-check';
import t from 'tap';
import { ConnectionLimiter, type Permit } from '../../src/upstream/connection-limiter.js';
import { ActiveCount } from '../../src/upstream/address.js';
import { property } from '../helpers/property.js';

const SIZE = 2;
const MAX_WAITING = 2;
const tick = () => new Promise((done) => void setImmediate(done));

interface Wish {
  went: number;
  permit: Permit | undefined;
}

/** Acquires a permit, and counts how often it was granted. */
function wish(limiter: ConnectionLimiter): Wish {
  const made: Wish = { went: 0, permit: undefined };
  made.permit = limiter.acquire({ go: () => void (made.went += 1), giveUp: () => undefined });
  return made;
}

// Each number either acquires a permit (even) or releases an earlier one (odd), even if that was
// released before.
property(
  'the limits hold for any order and number of releases',
  300,
  fc.array(fc.nat(20), { maxLength: 60 }),
  (steps) => {
    const limiter = new ConnectionLimiter(SIZE, MAX_WAITING, 60_000);
    const made: Wish[] = [];
    const released = new Set<Wish>();
    for (const step of steps) {
      const earlier = made[Math.floor(step / 2) % Math.max(1, made.length)];
      if (step % 2 === 0 || earlier === undefined) made.push(wish(limiter));
      else {
        earlier.permit?.release();
        released.add(earlier);
      }
      const alive = made.filter((each) => each.permit !== undefined && !released.has(each));
      const held = alive.filter(({ permit }) => permit?.isHeld).length;
      if (limiter.active !== held) throw new Error(`${limiter.active} are counted and ${held} held`);
      if (limiter.waiting !== alive.length - held) throw new Error('the queue is not what waits');
      if (held > SIZE || limiter.waiting > MAX_WAITING) throw new Error('over a limit');
      if (limiter.waiting > 0 && held < SIZE) throw new Error('one waits while a connection is free');
    }
    for (const { permit } of made) permit?.release();
    if (limiter.active !== 0 || limiter.waiting !== 0) throw new Error('something is left at rest');
  },
);

t.test('a permit released before its turn never starts', async (t) => {
  const limiter = new ConnectionLimiter(1, 2, 60_000);
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

t.test('a permit that waited too long is released', async (t) => {
  const limiter = new ConnectionLimiter(1, 1, 10);
  const held = wish(limiter);
  let gaveUp = 0;
  const permit = limiter.acquire({ go: () => t.fail('it never goes'), giveUp: () => void (gaveUp += 1) });
  await new Promise((over) => setTimeout(over, 50));
  t.equal(gaveUp, 1);
  t.equal(limiter.waiting, 0);
  permit?.release();
  held.permit?.release();
  await tick();
  t.equal(limiter.active, 0);
});

t.test('an active permit is released once', (t) => {
  const count = new ActiveCount();
  const [first, second] = [count.begin(), count.begin()];
  first.end();
  first.end();
  t.equal(count.value, 1);
  second.end();
  t.equal(count.value, 0);
  t.end();
});
