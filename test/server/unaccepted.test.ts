import { type ChildProcess, fork } from 'node:child_process';
import type { Worker as ClusterWorker } from 'node:cluster';
import { EventEmitter, once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { redistributeUnaccepted } from '../../src/server/processes/worker-lifecycle.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/** A worker that answers nothing. */
function silentWorker(t: Test): ClusterWorker & { process: ChildProcess } {
  const script = join(temporaryFolder(t), 'worker.mjs');
  writeFileSync(script, 'process.on("message", () => undefined);');
  const child = fork(script);
  t.teardown(() => child.kill('SIGKILL'));
  return Object.assign(new EventEmitter(), { process: child }) as never;
}

/** Returns the messages that a worker is sent from now on. */
function sentTo({ process: child }: { readonly process: ChildProcess }): unknown[] {
  const sent: unknown[] = [];
  const send = child.send.bind(child) as (...args: unknown[]) => boolean;
  child.send = (...args: unknown[]) => {
    sent.push(args[0]);
    return send(...args);
  };
  return sent;
}

t.test('a connection of a worker that ended is not lost on one whose end is not known yet', async (t) => {
  const [ended, next, last] = [silentWorker(t), silentWorker(t), silentWorker(t)];
  const serving = [next, last];
  for (const each of [ended, next, last]) redistributeUnaccepted(each, () => serving[0]);
  const [toNext, toLast] = [sentTo(next), sentTo(last)];
  const server = createServer().listen(0);
  t.teardown(() => void server.close());
  await once(server, 'listening');
  const { _handle: handle } = server as unknown as { _handle: never };
  const message = { cmd: 'NODE_CLUSTER', act: 'newconn', key: 'x', seq: 1 };
  ended.process.send(message, handle);
  next.process.disconnect();
  ended.emit('exit');
  await until(() => toNext.length === 1, 'it is sent to the next worker');
  serving.shift();
  next.emit('exit');
  await until(() => toLast.length === 1, 'it is sent to the last worker');
  t.same([...toNext, ...toLast], [message, message]);
});
