import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { directory, PASSWORD, startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { send } from '../helpers/http.js';
import { INSTALLED, start, temporaryFolder, workersOf, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** Whether a process handles a signal, according to the kernel. */
function handles(pid: number, signal: NodeJS.Signals): boolean {
  const mask = /^SigCgt:\s+(\w+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0';
  return ((BigInt(`0x${mask}`) >> BigInt(constants.signals[signal] - 1)) & 1n) === 1n;
}

/** False for a zombie that its parent has not yet waited for, too. */
function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}`) && !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
}

/**
 * Begins to start a server, and returns when it handles signals. `start` would wait until it is
 * ready.
 *
 * @param passwords how many passwords the start has to hash, each in some 50 ms
 */
async function beginStart(t: Test, config: object = {}, passwords = 40) {
  const folder = temporaryFolder(t);
  const { users: [user, ...users], ...rest } = await directory();
  const hashed = Array.from({ length: passwords }, (_, i) => {
    const { password_hash: _hash, ...each } = { ...user };
    return { ...each, id: `many-${i}`, login: `many-${i}@example.com`, password: PASSWORD };
  });
  const declared = { ...rest, users: [user, ...users, ...hashed] };
  const file = writeConfig(folder, { upstream: 'http://127.0.0.1:9', ...config }, declared);
  const child = spawn(process.execPath, [INSTALLED, 'serve', '--config', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => void child.kill('SIGKILL'));
  let log = '';
  child.stdout.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const ended = once(child, 'close');
  const pid = child.pid ?? 0;
  await until(() => handles(pid, 'SIGHUP'), 'it handles signals');
  const isReady = () => log.includes('"msg":"ready"');
  return { child, pid, file, ended, isReady, log: () => log };
} // prettier-ignore

const STARTS = [
  { name: 'one process', config: {} },
  { name: 'two workers', config: { workers: 2 } },
];

for (const { name, config } of EVERY_CASE ? STARTS : STARTS.slice(0, 1)) {
  t.test(`SIGHUP during the start: ${name}`, async (t) => {
    const { child, isReady, log, ended } = await beginStart(t, config);
    t.notOk(isReady(), 'they are handled before it is ready');
    while (!isReady() && child.exitCode === null && child.signalCode === null) {
      child.kill('SIGHUP');
      await sleep(20);
    }
    t.equal(child.signalCode, null);
    await until(() => log().includes('"reason":"SIGHUP"'), 'it reloads once it is ready');
    child.kill('SIGTERM');
    t.same(await ended, [0, null]);
  });

  t.test(`SIGTERM during the start: ${name}`, async (t) => {
    const { child, pid, file, isReady, ended } = await beginStart(t, config);
    t.notOk(isReady());
    await sleep(300);
    const workers = workersOf(pid);
    child.kill('SIGTERM');
    t.same(await ended, [0, null]);
    t.notOk(isReady(), 'it gives the start up');
    await until(() => !workers.some(isRunning), 'no worker is left');
    t.equal((await (await start(t, file)).stop()).code, 0, 'the next start is complete');
  });
}

t.test('SIGINT while the workers start', nightly, async (t) => {
  const { pid, ended } = await beginStart(t, { workers: 2 }, 0);
  await until(() => workersOf(pid).length === 2, 'workers');
  const workers = workersOf(pid);
  for (const each of [pid, ...workers]) process.kill(each, 'SIGINT');
  t.same(await ended, [0, null]);
  await until(() => !workers.some(isRunning), 'no worker is left');
});

t.test('SIGTERM to all processes while the workers start', nightly, async (t) => {
  const { pid, ended } = await beginStart(t, { workers: 2 }, 0);
  await until(() => workersOf(pid).length === 2, 'workers');
  for (const each of [pid, ...workersOf(pid)]) process.kill(each, 'SIGTERM');
  t.same(await ended, [0, null]);
});

t.test('signals during a start without Redis', nightly, async (t) => {
  const store = { type: 'redis', url: `redis://127.0.0.1:${await freePort()}` };
  const sealing = { sealing_key: '0'.repeat(64) };
  const { child, ended } = await beginStart(t, { store: { ...store, ...sealing } }, 0);
  child.kill('SIGHUP');
  await sleep(300);
  child.kill('SIGTERM');
  t.same(await ended, [0, null]);
});

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
