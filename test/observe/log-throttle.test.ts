import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createLogThrottle } from '../../src/observe/log-throttle.js';

t.test(
  'the first message of a key is logged, and then one an interval, with the number between',
  async (t) => {
    const throttle = createLogThrottle(50);
    t.same([throttle('a'), throttle('a'), throttle('b'), throttle('a')], [0, undefined, 0, undefined]);
    await sleep(60);
    t.same([throttle('a'), throttle('a'), throttle('b')], [2, undefined, 0]);
  },
);

t.test('without a key all messages are one', async (t) => {
  const throttle = createLogThrottle();
  t.same([throttle(), throttle()], [0, undefined]);
});
