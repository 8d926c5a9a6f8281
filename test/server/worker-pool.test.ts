import cluster from 'node:cluster';
import { rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import type { LoadedConfig } from '../../src/config/load.js';
import type { Log } from '../../src/observe/log.js';
import { type PooledWorker, WorkerPool } from '../../src/server/processes/worker-pool.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/** Two workers that do not end on SIGTERM, as with requests in flight that take long. */
function poolOf(t: Test) {
  const folder = temporaryFolder(t);
  const script = join(folder, 'worker.mjs');
  const hangs = join(folder, 'hangs');
  writeFileSync(
    script,
    `import { existsSync } from 'node:fs';
    import { createServer } from 'node:net';
    import { configFromPrimary, reportToPrimary } from ${JSON.stringify(resolve('dist/server/processes/messages.js'))};
    process.on('SIGTERM', () => undefined);
    await configFromPrimary();
    if (existsSync(${JSON.stringify(hangs)})) for (;;);
    createServer().listen(0, '127.0.0.1', () => reportToPrimary('serving', { url: 'http://a' }));`,
  );
  cluster.setupPrimary({ exec: script });
  const logged: string[] = [];
  const note = (_: object, text: string) => void logged.push(text);
  const state = {
    current: { config: { limits: { drain_timeout: 60_000 } } } as LoadedConfig,
    logged,
    exited: [] as PooledWorker[],
    startTimeout: 60_000,
    /** Makes new workers hang during their start, or not. */
    hang: (yes: boolean) => (yes ? writeFileSync(hangs, '') : rmSync(hangs)),
  };
  const pool = new WorkerPool({
    count: 2,
    get startTimeout() {
      return state.startTimeout;
    },
    current: () => state.current,
    log: { info: note, warn: note, error: note } as unknown as Log,
    counted: () => undefined,
    exited: (member) => void state.exited.push(member),
    onCrashLoop: () => t.fail('no crash'),
  });
  t.teardown(async () => {
    const drained = pool.drain();
    for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
    await drained;
  });
  return { pool, state };
}

t.test('workers without the current configuration are replaced before they have ended', async (t) => {
  const { pool, state } = poolOf(t);
  await pool.start();
  const [stale, ...others] = pool.serving;
  state.current = { ...state.current };
  for (const member of others) member.config = state.current;
  pool.replaceStale();
  t.equal(pool.serving.length, 1, 'the stale one does not count');
  await until(() => pool.serving.length === 2, 'another one serves');
  t.notOk(pool.serving.includes(stale as PooledWorker));
  t.ok(pool.serving.every(({ config }) => config === state.current));
  t.same(state.logged, ['worker did not reload; replacing it']);
  t.same(state.exited, [], 'the stale one finishes its requests');
});

t.test('a worker that hangs while it starts is killed, and replaces none', async (t) => {
  const { pool, state } = poolOf(t);
  await pool.start();
  const before = pool.serving;
  state.hang(true);
  state.startTimeout = 500;
  await t.rejects(pool.replaceAll(), { message: /exited before it was ready/ });
  t.same(pool.serving, before, 'the others serve');
  t.same(state.logged, ['worker killed; not ready in time', 'worker died']);
  state.hang(false);
  state.startTimeout = 60_000;
  before[0]?.worker.process.kill('SIGKILL');
  await until(() => pool.serving.length === 2, 'a worker that starts is not killed');
});
