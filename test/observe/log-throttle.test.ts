import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { createLogThrottle } from '../../src/util/time.js';

t.test('logs the first message of a key, then one per interval with the number suppressed', async (t) => {
  const throttle = createLogThrottle(50);
  t.same([throttle('a'), throttle('a'), throttle('b'), throttle('a')], [0, undefined, 0, undefined]);
  await sleep(60);
  t.same([throttle('a'), throttle('a'), throttle('b')], [2, undefined, 0]);
});

t.test('treats all messages without a key as one key', async (t) => {
  const throttle = createLogThrottle();
  t.same([throttle(), throttle()], [0, undefined]);
});
