import cluster from 'node:cluster';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import type { LoadedConfig } from '../../src/config/load.js';
import type { Log } from '../../src/observe/log.js';
import { type PooledWorker, WorkerPool } from '../../src/server/processes/worker-pool.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

t.test('workers without the current configuration are replaced before they have ended', async (t) => {
  const script = join(temporaryFolder(t), 'worker.mjs');
  writeFileSync(
    script,
    `import { createServer } from 'node:net';
    import { configFromPrimary } from ${JSON.stringify(resolve('dist/server/processes/messages.js'))};
    // As with requests in flight that take long.
    process.on('SIGTERM', () => undefined);
    await configFromPrimary();
    createServer().listen(0, '127.0.0.1');`,
  );
  cluster.setupPrimary({ exec: script });
  const warnings: string[] = [];
  const log = { warn: (_: object, text: string) => void warnings.push(text) } as unknown as Log;
  const withDrain = { config: { limits: { drain_timeout: 60_000 } } } as LoadedConfig;
  let current = withDrain;
  const pids: number[] = [];
  const exited: PooledWorker[] = [];
  const pool = new WorkerPool({
    count: 2,
    listeners: { ports: 1, secure: false },
    current: () => current,
    log,
    forked: ({ worker }) => void pids.push(worker.process.pid ?? 0),
    exited: (member) => void exited.push(member),
    onCrashLoop: () => t.fail('no crash'),
  });
  t.teardown(async () => {
    const drained = pool.drain();
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await drained;
  });
  await pool.start();
  const [stale, ...others] = pool.serving;
  current = { ...withDrain };
  for (const member of others) member.config = current;
  pool.replaceStale();
  t.equal(pool.serving.length, 1, 'the stale one does not count');
  await until(() => pool.serving.length === 2, 'another one serves');
  t.notOk(pool.serving.includes(stale as PooledWorker));
  t.ok(pool.serving.every(({ config }) => config === current));
  t.same(warnings, ['worker did not reload; replacing it']);
  t.same(exited, [], 'the stale one finishes its requests');
});
