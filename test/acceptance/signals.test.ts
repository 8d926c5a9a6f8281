import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { workersOf } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

/** Whether a port accepts connections, in the kernel's table. */
function isListening(port: number): boolean {
  const entry = `:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000 0A`;
  return ['tcp', 'tcp6'].some((table) => readFileSync(`/proc/net/${table}`, 'utf8').includes(entry));
}

t.test('SIGUSR1 does not open the debugger, in any process', async (t) => {
  const { server, login } = await startFixture(t, { workers: 2 });
  await login('superuser');
  const workers = workersOf(server.pid);
  const hashing = workers.flatMap(workersOf);
  t.equal(hashing.length, 1, 'a process that hashes passwords');
  const debuggers: string[] = [];
  for (const pid of [server.pid, ...workers, ...hashing]) {
    process.kill(pid, 'SIGUSR1');
    await sleep(300);
    if (isListening(9229)) debuggers.push(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
  }
  t.same(debuggers, []);
  t.notMatch(server.stderr(), 'Debugger');
  await until(async () => (await send(server.admin, '/readyz')).status === 200, 'ready');
  t.same([workersOf(server.pid), workers.flatMap(workersOf)], [workers, hashing], 'every process runs on');
});
