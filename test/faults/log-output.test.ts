import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { client, directory, startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { freshMetrics, send, startUpstream } from '../helpers/http.js';
import { temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { fillDisk, mountSmallDisk, NO_SMALL_DISK } from '../helpers/small-disk.js';
import { until } from '../helpers/until.js';
import { programOf } from '../loader/program.mjs';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

const WRONG = new URLSearchParams({ user: 'superuser@example.com', password: 'wrong' });

/** Starts a server whose standard output is a file or device. `start` needs to read it. */
async function serveTo(t: Test, output: string, more: object = {}) {
  const folder = temporaryFolder(t);
  const upstream = await startUpstream(t);
  const [port, adminPort] = [await freePort(), await freePort()];
  const ports = { listen: { host: '127.0.0.1', port }, admin: { port: adminPort } };
  const file = writeConfig(folder, { upstream: upstream.url, ...ports, ...more }, await directory());
  const descriptor = openSync(output, 'a');
  const child = spawn(process.execPath, [programOf(), 'serve', '--config', file], {
    stdio: ['ignore', descriptor, 'inherit'],
  });
  closeSync(descriptor);
  t.teardown(() => void child.kill('SIGKILL'));
  const [url, admin] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${adminPort}`];
  const readiness = async () => (await send(admin, '/readyz').catch(() => null)) ?? { status: 0, text: '' };
  await until(async () => (await readiness()).status === 200, 'it serves', 60_000);
  const stop = async () => {
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    return Promise.race([ended, sleep(20_000, ['it still runs'], { ref: false })]);
  };
  return { admin, readiness, stop, pid: child.pid ?? 0, ...client(url) };
}

async function counter(admin: string, name: string): Promise<number> {
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(await freshMetrics(admin))?.[1]);
}

const droppedLines = (admin: string) => counter(admin, 'latchkey_log_dropped_total');
const auditFailures = (admin: string) => counter(admin, 'latchkey_audit_failures_total');

for (const workers of EVERY_CASE ? [1, 2] : [1]) {
  t.test(`a log that cannot be written, workers: ${workers}`, async (t) => {
    const { url, admin, token, stop } = await serveTo(t, '/dev/full', { workers });
    const headers = { 'Service-Key': await token('superuser') };
    for (let i = 0; i < 20; i++) t.equal((await send(url, '/x', { headers })).status, 200);
    await until(async () => (await droppedLines(admin)) >= 20, 'the lines are counted');
    const before = await auditFailures(admin);
    await token('superuser');
    await until(async () => (await auditFailures(admin)) > before, 'missing audit entries are counted');
    t.same(await stop(), [0, null]);
  });
}

t.test('a pipe that is read slowly gets whole lines from every worker', nightly, async (t) => {
  const pipe = join(temporaryFolder(t), 'pipe');
  execFileSync('mkfifo', [pipe]);
  const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  t.teardown(() => closeSync(reader));
  const { url, token, stop } = await serveTo(t, pipe, { workers: 2 });
  const headers = { 'Service-Key': await token('superuser'), 'User-Agent': 'u'.repeat(500) };
  const ask = async () => send(url, `/${'p'.repeat(500)}`, { headers });
  for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 10 }, ask));
  let log = '';
  const read = (): void => {
    const some = Buffer.alloc(3_001);
    try {
      log += some.toString('latin1', 0, readSync(reader, some));
    } catch {
      // Nothing to read now.
    }
  };
  const paths = () => log.split('p'.repeat(500)).length - 1;
  await until(() => (read(), paths() >= 200), 'all lines are read');
  const ended = stop();
  await until(() => (read(), log.includes('"msg":"stopped"')), 'the last line');
  t.same(await ended, [0, null]);
  for (const line of log.trimEnd().split('\n')) JSON.parse(line);
});

t.test('a log on a full disk continues once there is space', { skip: NO_SMALL_DISK }, async (t) => {
  const disk = mountSmallDisk(t, '1m');
  const log = join(disk, 'log');
  const { url, admin, token, stop } = await serveTo(t, log);
  const headers = { 'Service-Key': await token('superuser') };
  const filler = fillDisk(disk);
  for (let i = 0; i < 60; i++) t.equal((await send(url, `/full/${i}`, { headers })).status, 200);
  await until(async () => (await droppedLines(admin)) > 0, 'lines are dropped');
  rmSync(filler);
  for (let i = 0; i < 10; i++) t.equal((await send(url, `/space/${i}`, { headers })).status, 200);
  t.same(await stop(), [0, null]);
  const torn: string[] = [];
  const paths = readFileSync(log, 'utf8')
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      try {
        return [(JSON.parse(line) as { path?: string }).path];
      } catch {
        torn.push(line);
        return [];
      }
    });
  t.ok(torn.length <= 1, 'a line that was cut off spoils no other one');
  for (let i = 0; i < 10; i++) t.ok(paths.includes(`/space/${i}`), `entry ${i} after the disk has space`);
});

t.test('audit entries that nobody reads are counted', nightly, async (t) => {
  const { server, url, token } = await startFixture(t, {}, { isolated: true });
  await token('superuser');
  t.equal(await auditFailures(server.admin), 0);
  server.closeOutput();
  for (let i = 0; i < 3; i++) t.equal((await send(url, '/login', { body: WRONG })).status, 401);
  await until(async () => (await auditFailures(server.admin)) >= 3, 'all are counted');
  t.equal(await auditFailures(server.admin), 3);
});
