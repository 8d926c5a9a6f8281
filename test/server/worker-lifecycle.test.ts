import type { Worker as ClusterWorker } from 'node:cluster';
import { EventEmitter } from 'node:events';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import type { Log } from '../../src/observe/log.js';
import { killUnlessListening } from '../../src/server/processes/worker-lifecycle.js';

/** A worker that must listen on a port within a second, for each one that starts. */
function starting(t: Test, count: number) {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const signals: string[] = [];
  const process = { pid: 1, kill: (signal: string) => void signals.push(signal) };
  const worker = Object.assign(new EventEmitter(), { process });
  const log = { error: () => undefined } as unknown as Log;
  const state = { worker, signals, count };
  const listeners = { ports: 1, secure: false };
  killUnlessListening(worker as unknown as ClusterWorker, listeners, 1_000, () => state.count, log);
  return state;
}

t.test('workers that start at once have as much time as one after another', async (t) => {
  const { signals } = starting(t, 3);
  mock.timers.tick(2_999);
  t.same(signals, []);
  mock.timers.tick(1);
  t.same(signals, ['SIGKILL']);
});

t.test('a worker that hangs is killed when the others have started', async (t) => {
  const state = starting(t, 3);
  mock.timers.tick(1_000);
  state.count = 1;
  mock.timers.tick(1_000);
  t.same(state.signals, ['SIGKILL']);
});

for (const event of ['listening', 'exit'])
  t.test(`no worker is killed after its event ${event}`, async (t) => {
    const { worker, signals } = starting(t, 1);
    worker.emit(event, { address: '127.0.0.1', port: 1 });
    mock.timers.tick(10_000);
    t.same(signals, []);
  });
