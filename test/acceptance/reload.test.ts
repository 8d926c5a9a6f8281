import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parse, stringify } from 'yaml';
import { client, directory, startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { send, serveHttp, startUpstream } from '../helpers/http.js';
import { run, start, temporaryFolder, workerOf, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { matchLog } from '../helpers/until.js';

const wait = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** Waits until a condition holds; false on timeout. */
async function until(holds: () => Promise<boolean> | boolean, ms = 30_000): Promise<boolean> {
  for (const limit = Date.now() + ms; Date.now() < limit; await wait(50)) if (await holds()) return true;
  return false;
}

/** A server whose files can be changed. */
async function changeable(t: Test, config: object = {}) {
  const fixture = await startFixture(t, config);
  const directoryFile = join(fixture.folder, 'directory.yaml');
  const read = (file: string) => parse(readFileSync(file, 'utf8'));
  return {
    ...fixture,
    write: (more: object) => writeFileSync(fixture.configFile, stringify({ ...read(fixture.configFile), ...more })),
    writeDirectory: (change: (file: Awaited<ReturnType<typeof directory>>) => void) => {
      const file = read(directoryFile);
      change(file);
      writeFileSync(directoryFile, stringify(file));
    },
    reload: () => send(fixture.server.admin, '/-/reload', { method: 'POST' }),
    metric: async () => /^latchkey_config_last_reload_successful (\d)/m.exec((await send(fixture.server.admin, '/metrics')).text)?.[1],
  };
} // prettier-ignore

const READ_ONLY = { policy: { roles: { engineer: { allow: ['*:read'] }, superuser: { allow: ['*'] }, billing: {}, user: {} } } }; // prettier-ignore

for (const workers of EVERY_CASE ? [1, 2] : [2]) {
  t.test(`a new configuration takes effect at once, with ${workers} process(es)`, async (t) => {
    const server = await changeable(t, { workers });
    const headers = { 'Service-Key': await server.token('engineer') };
    const put = async () => (await send(server.url, '/service/SVC1', { method: 'PUT', headers })).status;
    t.equal(await put(), 200);
    server.write(READ_ONLY);
    t.same((await server.reload()).json, { reloaded: true, needs_restart: [] });
    for (let i = 0; i < 6; i++) t.equal(await put(), 403, 'whichever process answers');
    t.ok(await until(async () => (await server.metric()) === '1'), 'the metric is set');

    writeFileSync(server.configFile, `${readFileSync(server.configFile, 'utf8')}\nlisen: {}\n`);
    const refused = await server.reload();
    t.equal(refused.status, 422);
    t.match(refused.json, {
      msg: 'Reload refused',
      faults: [/latchkey\.yaml:\d+:1: unknown key "lisen" \(did you mean "listen"\?\)/],
    });
    t.equal(await put(), 403, 'the running configuration is kept');
    t.ok(await until(async () => (await server.metric()) === '0'), 'the metric is cleared');
    await matchLog(t, server.server, /unknown key .*reload refused; running configuration kept/);

    if (workers > 1) {
      process.kill(workerOf(server.server.pid), 'SIGKILL');
      await wait(300);
      t.ok(
        await until(async () =>
          /^latchkey_workers 2$/m.test((await send(server.server.admin, '/metrics')).text),
        ),
        'a replacement worker serves the running configuration, not the broken file',
      );
      for (let i = 0; i < 6; i++) t.equal(await put(), 403);
    }
    t.equal((await server.server.stop()).code, 0);
  });
}

t.test('SIGHUP reloads configuration and directory, all or nothing', async (t) => {
  const server = await changeable(t);
  const engineer = await server.create('engineer');
  const headers = { 'Service-Key': engineer.json.access_token };
  const status = async (method: string) =>
    (await send(server.url, '/service/SVC1', { method, headers })).status;
  server.writeDirectory((file) => {
    for (const user of file.users) if (user.id === 'engineer') user.role = 'user';
  });
  server.server.signal('SIGHUP');
  // A write that is at the upstream when it is no longer allowed is broken off, without a response.
  t.ok(await until(async () => (await status('PUT').catch(() => 0)) === 403), 'the new role');
  t.equal(await status('GET'), 200);

  server.write({ routes: [{ path: '/service/*', auth: 'deny' }] });
  server.writeDirectory((file) => {
    for (const user of file.users) if (user.id === 'engineer') user.role = 'enginer';
    for (const user of file.users) if (user.id === 'superuser') user.role = 'billing';
  });
  const refused = await server.reload();
  t.equal(refused.status, 422);
  t.match(
    refused.json.faults[0],
    /directory\.yaml:\d+:\d+: users\.2\.role: no role has this name \(did you mean "engineer"/,
  );
  t.equal(await status('GET'), 200, 'the configuration was not applied either');
  const root = { 'Service-Key': await server.token('superuser') };
  t.equal((await send(server.url, '/service/SVC1', { method: 'PUT', headers: root })).status, 200);

  server.writeDirectory((file) => {
    file.users = file.users.filter(({ id }) => id !== 'engineer');
  });
  t.equal((await server.reload()).status, 200);
  t.equal((await send(server.url, '/service/SVC1', { headers: root })).status, 404, 'both are applied');
});

t.test('serves requests while it reads, compares and writes a large directory', nightly, async (t) => {
  const server = await changeable(t);
  const headers = { 'Service-Key': await server.token('superuser') };
  const users = (name: string) =>
    Array.from({ length: 2_000 }, (_, i) => ({
      id: `many${i}`,
      customer_id: 'C1',
      login: `many${i}@example.com`,
      name,
      role: 'user',
    }));
  for (const name of ['first', 'second']) {
    server.writeDirectory((file) => {
      file.users = [...file.users.filter(({ id }) => !id.startsWith('many')), ...(users(name) as never[])];
    });
    const progress = { over: false };
    const startedAt = performance.now();
    const reload = server.reload().finally(() => (progress.over = true));
    let longest = 0;
    const statuses = new Set<number>();
    while (!progress.over) {
      const sentAt = performance.now();
      statuses.add((await send(server.url, '/service/SVC1', { headers })).status);
      longest = Math.max(longest, performance.now() - sentAt);
    }
    t.equal((await reload).status, 200);
    const took = performance.now() - startedAt;
    t.same([...statuses], [200]);
    t.ok(longest < took / 3, `${name}: longest request ${longest} ms of ${took} ms in total`);
  }
});

t.test('names settings that need a restart', async (t) => {
  const server = await changeable(t);
  server.write({
    workers: 2,
    admin: { port: 0, host: '127.0.0.2' },
    store: { type: 'lmdb', path: './other' },
  });
  t.same((await server.reload()).json.needs_restart, ['admin', 'workers', 'store']);
  t.same((await server.reload()).json.needs_restart, ['admin', 'workers', 'store'], 'and again');
  await matchLog(t, server.server, /"needs_restart":\["admin","workers","store"\]/);
  t.equal((await send(server.server.admin, '/-/reload')).status, 405);
});

t.test('after a reload, a replacement worker uses the same store as the others', nightly, async (t) => {
  const server = await changeable(t, { workers: 2 });
  const headers = { 'Service-Key': await server.token('superuser') };
  server.write({ store: { type: 'lmdb', path: './other' } });
  t.same((await server.reload()).json.needs_restart, ['store']);
  process.kill(workerOf(server.server.pid), 'SIGKILL');
  await wait(300);
  const metrics = async () => (await send(server.server.admin, '/metrics')).text;
  t.ok(await until(async () => /^latchkey_workers 2$/m.test(await metrics())), 'replaced');
  for (let i = 0; i < 6; i++) t.equal((await send(server.url, '/x', { headers })).status, 200);
}); // prettier-ignore

t.test('reloads a changed file by itself', async (t) => {
  const server = await changeable(t);
  const headers = { 'Service-Key': await server.token('engineer') };
  const put = async () => (await send(server.url, '/service/SVC1', { method: 'PUT', headers })).status;
  server.write(READ_ONLY);
  t.ok(await until(async () => (await put()) === 403));
  server.writeDirectory((file) => {
    for (const user of file.users) if (user.id === 'engineer') user.role = 'superuser';
  });
  t.ok(await until(async () => (await put()) === 200), 'the directory too');
});

t.test('notices a file that changed while the server was starting', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const upstream = await startUpstream(t);
  const config = { upstream: upstream.url, workers: 2, audit: { to: './audit.jsonl' } };
  const configFile = writeConfig(folder, config, await directory());
  const starting = start(t, configFile);
  const audit = join(folder, 'audit.jsonl');
  const isApplied = () => existsSync(audit) && readFileSync(audit, 'utf8').includes('directory.applied');
  t.ok(await until(isApplied), 'the directory file was read');
  const file = join(folder, 'directory.yaml');
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace('role: engineer', 'role: engineer\n    locked: true'),
  );
  const { create } = client((await starting).url);
  t.ok(await until(async () => (await create('engineer')).status === 400, 10_000), 'the lock applies');
});

t.test('notices a swapped symbolic link, as in a Kubernetes ConfigMap mount', async (t) => {
  const folder = temporaryFolder(t);
  const upstream = await startUpstream(t);
  const publish = (version: string, files: Record<string, unknown>) => {
    mkdirSync(join(folder, version));
    for (const [name, value] of Object.entries(files)) writeFileSync(join(folder, version, name), stringify(value), { mode: 0o600 });
    symlinkSync(version, join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  }; // prettier-ignore
  const config = {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { port: 0 },
    upstream: upstream.url,
    store: { type: 'lmdb', path: join(folder, 'store') },
    directory: { file: './directory.yaml' },
  };
  const people = await directory();
  publish('v1', { 'latchkey.yaml': config, 'directory.yaml': people });
  symlinkSync('..data/latchkey.yaml', join(folder, 'latchkey.yaml'));
  symlinkSync('..data/directory.yaml', join(folder, 'directory.yaml'));
  const server = await start(t, join(folder, 'latchkey.yaml'));
  const headers = { 'Service-Key': await client(server.url).token('engineer') };
  const put = async () => (await send(server.url, '/service/SVC1', { method: 'PUT', headers })).status;
  t.equal(await put(), 200);
  publish('v2', { 'latchkey.yaml': { ...config, ...READ_ONLY }, 'directory.yaml': people });
  rmSync(join(folder, 'v1'), { recursive: true });
  t.ok(await until(async () => (await put()) === 403));
});

t.test('a reload fails no request, and requests in flight keep their configuration', nightly, async (t) => {
  const held: ServerResponse[] = [];
  const { url: upstream } = await serveHttp(t, (req, res) => void (req.url === '/slow' ? held.push(res) : res.end('ok')));
  const server = await changeable(t, { upstream, workers: 2 });
  const headers = { 'Service-Key': await server.token('superuser') };
  const pending = send(server.url, '/slow', { headers });
  t.ok(await until(() => held.length === 1));

  const traffic = { stopped: false };
  const statuses = new Map<number, number>();
  const clients = Array.from({ length: 4 }, async () => {
    while (!traffic.stopped) {
      const { status } = await send(server.url, '/x', { headers });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  });
  for (let i = 0; i < 4; i++) {
    server.write({ upstreams: undefined, identity: { headers: { role: `X-Role-${i}` } } });
    t.equal((await server.reload()).status, 200);
  }
  traffic.stopped = true;
  await Promise.all(clients);
  t.same([...statuses.keys()], [200], JSON.stringify([...statuses]));
  t.ok((statuses.get(200) ?? 0) > 20, `${statuses.get(200)} requests`);
  held[0]?.end('finished');
  t.equal((await pending).text, 'finished');
  t.equal((await server.server.stop()).code, 0);
}); // prettier-ignore

t.test('the command reload says whether the server applied its files, and if not, why', async (t) => {
  const { server, configFile, writeDirectory } = await changeable(t, { admin: { port: await freePort() } });
  const reload = ['reload', '--config', configFile];
  t.same(await run(reload), { code: 0, stdout: 'reloaded\n', stderr: '' });
  writeDirectory((file) => Object.assign(file, { users: 'none' }));
  t.match(await run(reload), {
    code: 1,
    stdout: '',
    stderr: /^latchkey: reload refused: .*directory\.yaml:\d+:\d+: /,
  });
  await server.stop();
  t.match(await run(reload), { code: 1, stderr: /does not respond: .*; is the server running\?/ });
});
