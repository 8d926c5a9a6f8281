import cluster from 'node:cluster';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { askWorker } from '../../src/server/processes/messages.js';
import { temporaryFolder } from '../helpers/latchkey.js';

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
  await t.rejects(askWorker(worker, 'ping', 5_000), { message: /EPIPE/ });
});
