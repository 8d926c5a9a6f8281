import t, { type Test } from 'tap';
import { type Exchange, OPENS, shake } from '../helpers/handshake.js';
import { until } from '../helpers/until.js';

/** Seconds without data after which a WebSocket closes whose one side has ended. */
const LINGER = 5;
/** More than the buffers of the system. */
const MUCH = 12_000_000;

/** Replaces intervals. The returned function lets seconds pass. */
function stopIntervals(t: Test) {
  const { setInterval, clearInterval } = globalThis;
  const ticks = new Map<unknown, () => void>();
  globalThis.setInterval = ((tick: () => void, ms: number) => {
    const timer = setInterval(() => undefined, 2 ** 30).unref();
    t.equal(ms, 1_000);
    ticks.set(timer, tick);
    return timer;
  }) as typeof globalThis.setInterval;
  globalThis.clearInterval = (timer) => {
    ticks.delete(timer);
    clearInterval(timer);
  };
  t.teardown(() => Object.assign(globalThis, { setInterval, clearInterval }));
  const pass = (seconds: number) => {
    for (let i = 0; i < seconds; i += 1) for (const tick of ticks.values()) tick();
  };
  return { pass, count: () => ticks.size };
}

/** Opens a WebSocket. */
async function open(t: Test, idle?: number): Promise<Exchange> {
  const each = await shake(t, idle === undefined ? {} : { idle });
  each.upstream.write(`${OPENS}\r\n`);
  await until(() => each.far.bytesRead > 0, 'the 101');
  return each;
}

t.test('an open WebSocket gives way, and its place is free at once', async (t) => {
  const { limiter, client, far, opened, upstream, log } = await open(t);
  const received: Buffer[] = [];
  far.on('data', (chunk: Buffer) => received.push(chunk));
  upstream.write('\x81\x05hello', 'latin1');
  await until(() => Buffer.concat(received).includes('hello'), 'the frame');
  const use = { go: () => t.fail(), leave: () => t.fail() };
  limiter.acquire({ ...use, holder: ['network 192.0.2.1'] });
  const other = limiter.acquire({ ...use, holder: ['network 192.0.2.2'] });
  t.equal(other?.isHeld, true);
  t.same([client.destroyed, opened.destroyed], [true, true]);
  t.same(log, ['answered', 'done 101'], 'no failure of the upstream');
  await until(() => far.readableEnded, 'the end');
});

const SIDES = [
  ['far', 'upstream'],
  ['upstream', 'far'],
] as const;

for (const [side, other] of SIDES)
  t.test(`a WebSocket closes when it is silent after one side has ended: ${side}`, async (t) => {
    const { pass, count } = stopIntervals(t);
    const each = await open(t);
    t.equal(count(), 0, 'silence alone does not end it');
    each[side].end();
    await until(() => each[other].readableEnded, 'the end is passed on');
    t.equal(count(), 1);
    pass(LINGER - 1);
    for (let i = 0; i < 3; i += 1) {
      const before = each[side].bytesRead;
      each[other].write('x');
      await until(() => each[side].bytesRead > before, 'more data');
      pass(LINGER);
      t.equal(each.active(), 2, 'data in between');
    }
    pass(1);
    await until(() => each.active() === 0 && count() === 0, 'the end');
    await until(() => each.far.destroyed || each.far.readableEnded, 'the end of the client');
  });

for (const [idle, seconds] of [
  [1_000, LINGER],
  [8_000, 8],
] as const)
  for (const [side, other] of SIDES)
    t.test(`a side that does not read has the idle timeout: ${other}, ${idle} ms`, async (t) => {
      const { pass, count } = stopIntervals(t);
      const each = await open(t, idle);
      each[other].pause();
      each[side].end(Buffer.alloc(MUCH));
      each[other].end();
      const near = side === 'far' ? each.client : each.opened;
      await until(() => count() === 1, 'the end of the other side');
      await until(() => near.readableFlowing === false, 'what it sent is not read');
      await until(() => each.blocked() > 0, 'it waits');
      // Notes what was delivered up to now.
      pass(1);
      pass(seconds - 1);
      t.equal(each.active(), 2);
      pass(1);
      await until(() => each.active() === 0 && count() === 0, 'the end');
    });

for (const [side, other] of SIDES)
  t.test(`a side that is reset passes its end on, and one that is destroyed destroys: ${side}`, async (t) => {
    const { pass, count } = stopIntervals(t);
    const reset = await open(t);
    reset[side].write('last');
    await until(() => reset[other].bytesRead > 0, 'data');
    reset[side].resetAndDestroy();
    await until(() => reset[other].readableEnded, 'the end');
    // The other side has time, but not for ever.
    await until(() => (pass(1), reset.active() === 0 && count() === 0), 'the end of both', 2_000);

    for (const hasEnded of [false, true]) {
      const destroyed = await open(t);
      if (hasEnded) {
        destroyed[side].end();
        await until(() => destroyed[other].readableEnded, 'the end is passed on');
      }
      const near = side === 'far' ? destroyed.client : destroyed.opened;
      near.destroy();
      await until(() => destroyed.active() === 0 && count() === 0, 'the end of both, without delay', 2_000);
    }
  });
