import * as fc from 'fast-check';
import t from 'tap';
import { type Hasher, Passwords, passwordsBusy } from '../../src/accounts/passwords.js';
import { costOfHash, MAX_PASSWORD_COST } from '../../src/domain/limits.js';
import { options, told } from '../helpers/property.js';

const CURRENT = 47_104;
const phc = (memory: number, passes: number) =>
  `$argon2id$v=19$m=${memory},t=${passes},p=1$c2FsdHNhbHQ$aGFzaGhhc2g`;

/** A hasher that adds up the requested work. */
function counting() {
  const work = { cost: 0, mostMemory: 0 };
  const hasher: Hasher = {
    hash: async (_, { memoryCost, timeCost }) => {
      work.cost += memoryCost * timeCost;
      work.mostMemory = Math.max(work.mostMemory, memoryCost);
      return '';
    },
    verify: async (hash, password) => {
      work.cost += costOfHash(hash);
      return password === 'right';
    },
  };
  return { work, passwords: new Passwords(hasher, 1) };
}

const parameters = fc.tuple(fc.integer({ min: 8, max: 262_144 }), fc.integer({ min: 1, max: 16 }));

t.test('every wrong password and every unknown user costs as much as the most expensive hash', async (t) => {
  const details = await fc.check(
    fc.asyncProperty(fc.array(parameters, { minLength: 1, maxLength: 5 }), async (all) => {
      const hashes = all.map(([memory, passes]) => phc(memory, passes));
      const costliest = Math.max(...hashes.map(costOfHash));
      const expected = Math.max(CURRENT, costliest);
      for (const hash of [...hashes, null]) {
        const { work, passwords } = counting();
        if (await passwords.verify(hash, 'wrong', costliest)) throw new Error('let in');
        const off = Math.abs(work.cost - expected) / expected;
        if (off > 0.011) throw new Error(`${hash}: ${work.cost} instead of ${expected}`);
        if (work.mostMemory > 65_536) throw new Error(`${work.mostMemory} KiB for nothing`);
      }
    }),
    options<[[number, number][]]>(500),
  );
  t.notOk(details.failed, told(details));
}); // prettier-ignore

t.test('the cost is bounded, and a right password costs only its own hash', async (t) => {
  const { work, passwords } = counting();
  t.equal(await passwords.verify(null, 'wrong', 1e12), false);
  t.ok(work.cost <= MAX_PASSWORD_COST * 1.01);
  work.cost = 0;
  t.equal(await passwords.verify(phc(1_024, 1), 'right', 1e6), true);
  t.equal(work.cost, 1_024);
  t.equal(await passwords.verify(null, 'right', 0), false);
});

t.test('the queue is bounded, and rejected work is not run', async (t) => {
  const { passwords } = counting();
  const done: string[] = [];
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const work = (network: string) =>
    passwords.queue.run(network, async () => {
      await held;
      done.push(network);
    });
  const waiting = Array.from({ length: 65 }, () => work('A'));
  await t.rejects(work('A'), passwordsBusy());
  const other = work('B');
  release();
  const results = await Promise.allSettled(waiting);
  await other;
  const refused = results.filter(({ status }) => status === 'rejected');
  t.same([done.length, refused.length], [65, 1], 'the network with the most checks gives way');
  t.equal(done.indexOf('B'), 2, 'the networks take turns');
});

t.test('detects hashes that are weaker than the current ones', async (t) => {
  const { passwords } = counting();
  t.equal(passwords.isWeak(phc(1_024, 1)), true);
  t.equal(passwords.isWeak(phc(47_104, 1)), false);
  t.equal(passwords.isWeak(phc(19_456, 3)), false);
  t.equal(passwords.isWeak(null), false);
});
