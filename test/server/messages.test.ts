import { fork, spawn } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import { answer, askWorker, signalChild } from '../../src/server/processes/messages.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

t.test('a worker that has just died is reported, and does not end the primary', async (t) => {
  const script = join(temporaryFolder(t), 'worker.mjs');
  writeFileSync(script, 'setInterval(() => undefined, 1_000);');
  cluster.setupPrimary({ exec: script });
  const worker = cluster.fork();
  await once(worker, 'online');
  worker.process.kill('SIGKILL');
  // It is dead, and this process has not noticed.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  t.ok(worker.isConnected());
  await t.rejects(askWorker(worker.process, 'counts', 5_000), { message: /EPIPE/ });
});

t.test('commands right after the configuration wait until the worker has handlers, in order', async (t) => {
  const script = join(temporaryFolder(t), 'worker.mjs');
  writeFileSync(
    script,
    `import { setTimeout as sleep } from 'node:timers/promises';
    import { answerPrimary, configFromPrimary } from ${JSON.stringify(resolve('dist/server/processes/messages.js'))};
    const asked = [];
    const config = await configFromPrimary();
    await sleep(200);
    const note = (ask) => async (value) => { asked.push(ask); return { config, value, asked: [...asked] }; };
    answerPrimary({ prepare: note('prepare'), commit: note('commit'), counts: note('counts') });`,
  );
  cluster.setupPrimary({ exec: script });
  const worker = cluster.fork();
  t.teardown(() => worker.process.kill('SIGKILL'));
  const commands = new Promise<unknown[]>((answered) => {
    const hello = () => {
      // Sent before and after the worker can have read its configuration.
      process.nextTick(() => {
        const asks = [
          askWorker(worker.process, 'prepare', 5_000, 'next'),
          askWorker(worker.process, 'commit', 5_000),
        ];
        setTimeout(() => answered(Promise.all([...asks, askWorker(worker.process, 'counts', 5_000)])), 100);
      });
      return { file: 'first' };
    };
    answer(worker.process, { hello });
  });
  const config = { file: 'first' };
  const asked = ['prepare', 'commit', 'counts'];
  t.same(await commands, [
    { config, value: 'next', asked: asked.slice(0, 1) },
    { config, asked: asked.slice(0, 2) },
    { config, asked },
  ]);
});

t.test('signals nothing in place of a process that could not be started', async (t) => {
  const limit = (files: string) => `prlimit --pid ${process.pid} --nofile=${files}:`;
  const [, usual = '1024'] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  const limits = spawn('sh', ['-c', `${limit('3')} && sleep 1; ${limit(usual)}`], { stdio: 'ignore' });
  const ended = once(limits, 'exit');
  await until(() => !canOpen(), 'no file descriptor is left');
  const child = fork('none.mjs');
  const [error] = await once(child, 'error');
  t.match(error, { code: 'EMFILE' });
  child.kill = () => t.fail('its process would be any');
  signalChild(child, 'SIGKILL');
  await ended;
  t.ok(canOpen());
});

function canOpen(): boolean {
  try {
    closeSync(openSync('/dev/null', 'r'));
    return true;
  } catch {
    return false;
  }
}
