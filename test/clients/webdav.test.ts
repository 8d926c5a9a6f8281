import { execFile, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { needPackages, runs } from '../helpers/debian.js';
import { startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

/* rclone as WebDAV server and client, and the requests of CalDAV and locking clients by curl. */
needPackages(() => runs('rclone', 'version') && runs('curl', '--version'), 'rclone', 'curl');
const run = promisify(execFile);

t.test('rclone copies, lists, moves and removes through Latchkey', { timeout: 120_000 }, async (t) => {
  const folder = temporaryFolder(t);
  const [served, mine] = [join(folder, 'served'), join(folder, 'mine')];
  for (const each of [served, join(mine, 'a b')]) mkdirSync(each, { recursive: true });
  writeFileSync(join(mine, 'a b', 'é.txt'), 'one');
  const port = await freePort();
  const server = spawn('rclone', ['serve', 'webdav', served, '--addr', `127.0.0.1:${port}`, '--config', '/dev/null'], { stdio: 'ignore' });
  t.teardown(() => server.kill());
  const upstream = `http://127.0.0.1:${port}`;
  await until(async () => fetch(upstream).then(() => true, () => false), 'the WebDAV server');
  const { url, token } = await startFixture(t, { upstream: undefined, upstreams: { dav: { url: upstream, host: 'preserve' } }, routes: [] });
  const key = await token('superuser');
  const remote = (bearer: string) => ({ ...process.env, RCLONE_CONFIG: '/dev/null', RCLONE_CONFIG_X_TYPE: 'webdav', RCLONE_CONFIG_X_URL: url, RCLONE_CONFIG_X_VENDOR: 'other', RCLONE_CONFIG_X_BEARER_TOKEN: bearer });
  const rclone = async (...args: string[]) => (await run('rclone', [...args, '--retries', '1'], { env: remote(key) })).stdout;
  await rclone('copy', mine, 'x:top');
  t.equal(readFileSync(join(served, 'top', 'a b', 'é.txt'), 'utf8'), 'one');
  t.equal(await rclone('lsf', '-R', 'x:'), 'top/\ntop/a b/\ntop/a b/é.txt\n');
  await rclone('moveto', 'x:top/a b/é.txt', 'x:top/b.txt');
  await rclone('copyto', 'x:top/b.txt', 'x:top/c.txt');
  t.equal(await rclone('cat', 'x:top/c.txt'), 'one');
  const reader = await token('superuser', { scope: 'global:read' });
  const asReader = (...args: string[]) => run('rclone', [...args, '--retries', '1'], { env: remote(reader) });
  t.equal((await asReader('lsf', 'x:top')).stdout, 'a b/\nb.txt\nc.txt\n', 'PROPFIND is a read');
  await t.rejects(asReader('mkdir', 'x:other'), /403/, 'MKCOL is a write');
  await rclone('purge', 'x:top');
  t.equal(await rclone('lsf', 'x:'), '');
}); // prettier-ignore

t.test('bodies of CalDAV and locking clients reach the upstream, and its connection is not reused', nightly, async (t) => {
  const { url, token, upstream } = await startFixture(t, { routes: [] });
  const key = await token('superuser');
  const curl = (method: string, path: string, ...more: string[]) =>
    run('curl', ['-sS', '-o', '/dev/null', '-w', '%{http_code}', '-X', method, '-H', `Service-Key: ${key}`, '-H', 'Depth: 1', ...more, url + path]);
  const rows: readonly (readonly string[])[] = [
    ['PROPFIND', '-d', '<propfind/>'],
    ['REPORT', '-d', '<calendar-query/>'],
    ['REPORT', '-H', 'Transfer-Encoding: chunked', '-d', '<sync-collection/>'],
    ['OPTIONS', '-d', '<options/>'],
    ['SEARCH', '-d', '<searchrequest/>'],
    ['QUERY', '-d', 'q=1'],
    ['MKCALENDAR', '-d', '<mkcalendar/>'],
    ['LOCK', '-d', '<lockinfo/>'],
    ['UNLOCK', '-H', 'Lock-Token: <a:b>'],
    ['PROPPATCH', '-d', '<propertyupdate/>'],
    ['COPY', '-H', 'Destination: /b'],
    ['GET', '-H', 'Transfer-Encoding: chunked', '-d', ''],
  ];
  for (const [method = '', ...more] of rows) {
    t.equal((await curl(method, '/calendars/a/', ...more)).stdout, '200', method);
    const got = upstream.received.at(-1);
    t.equal(got?.method, method);
    t.equal(got?.body, more.includes('-d') ? more.at(-1) : '', `${method}: the body`);
    if (method !== 'GET' && more.includes('-d')) t.equal(got?.headers['connection'], 'close', `${method}: the connection is not reused`);
  }
}); // prettier-ignore
