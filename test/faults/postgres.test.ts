import t, { type Test } from 'tap';
import type { Config } from '../../src/config/schema/config.js';
import type { Log } from '../../src/observe/log.js';
import { storeOperationDuration } from '../../src/observe/metrics/requests.js';
import { openPostgres } from '../../src/server/stores/postgres-store.js';
import { Endings } from '../../src/store/endings.js';
import { OutcomeUnknown, StoreUnavailable } from '../../src/store/faults.js';
import { openPostgresStore } from '../../src/store/postgres.js';
import type { PostgresSettings } from '../../src/store/postgres/client.js';
import type { Store } from '../../src/store/core/store.js';
import { BASE, createToken, NOW, token } from '../store/contract/records.js';
import { PASSWORD } from '../helpers/fixture.js';
import { startInProcess } from '../helpers/in-process.js';
import { postgresSettings, type PostgresServer, startPooler, startPostgres } from '../helpers/postgres.js';
import { PostgresClient } from '../../src/store/postgres/client.js';
import { startProxy } from '../helpers/proxy.js';
import { until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);
const shared = await startPostgres(t);

/** Returns how many look-ups of tokens reached the store, beside those from the cache. */
async function readCount(): Promise<number | undefined> {
  const { values } = await storeOperationDuration.get();
  return values.find(({ labels, metricName }) => labels['operation'] === 'find_token' && metricName?.endsWith('_count'))?.value;
} // prettier-ignore

/** Opens a store as a serving process does, with a cache. */
async function serve(t: Test, settings: PostgresSettings) {
  const lines: string[] = [];
  const endings = new Endings();
  const [ended, asked]: [string[], string[]] = [[], []];
  endings.on('ended', (what) => ended.push(...(what === null ? ['anything'] : what.keys())));
  endings.on('asked', (question) => asked.push(question));
  const note = (...args: unknown[]) => void lines.push(JSON.stringify(args));
  const log = { info: note, warn: note } as unknown as Log;
  const config = { cache: { size: 100, ttl: 60_000, negative_ttl: 60_000 }, on_store_failure: 'deny' } as Config;
  const { store, close } = await openPostgres(config, { ...settings, type: 'postgres', sealing_key: null }, { log, endings });
  t.teardown(close);
  const isUp = () => lines.filter((line) => line.includes('cache enabled')).length - lines.filter((line) => line.includes('link lost')).length === 1;
  const untilCached = async (id: string) => {
    await until(async () => {
      const before = await readCount();
      return (await store.tokens.find(`digest-${id}`)) !== undefined && (await readCount()) === before;
    }, `${id} is cached`);
  };
  return { store, ended, asked, lines, isUp, untilCached };
} // prettier-ignore

async function prepared(t: Test, settings: PostgresSettings): Promise<Store> {
  const store = openPostgresStore(settings);
  t.teardown(async () => store.maintenance.close());
  await store.maintenance.initialize();
  await store.directory.change(BASE, NOW);
  return store;
}

const isMissing = async (store: Store, id: string) => (await store.tokens.find(`digest-${id}`)) === undefined;

for (const path of ['directly', 'through a pooler'])
  t.test(`what ends in one process ends in the caches of all: ${path}`, async (t) => {
    const url = path === 'directly' ? shared.url : await startPooler(t, shared);
    const settings = postgresSettings({ url, listener_url: shared.url });
    const writer = await prepared(t, settings);
    for (const id of ['T1', 'T2']) await createToken(writer, token(id), null, NOW);
    const [one, other] = [await serve(t, settings), await serve(t, settings)];
    for (const each of [one, other]) for (const id of ['T1', 'T2']) await each.untilCached(id);
    await one.store.tokens.revoke(['T1']);
    t.equal(await isMissing(one.store, 'T1'), true, 'at once in its own');
    await until(async () => isMissing(other.store, 'T1'), 'the other cache');
    await until(() => other.ended.includes('token:T1'), 'its open streams');
    const owner = await writer.directory.getUser('U1');
    await writer.directory.change({ users: [{ ...owner!, locked: true, updatedAt: NOW + 1 }] }, NOW + 1);
    await until(async () => (await other.store.tokens.find('digest-T2'))?.owner.locked === true, 'a lock');
    t.equal(await isMissing(other.store, 'L1'), true);
    await writer.directory.change({ tokens: [token('L1', { kind: 'legacy_key' })] }, NOW);
    await until(async () => !(await isMissing(other.store, 'L1')), 'a key that was cached as unknown');
    await writer.fleet.ask('Q');
    await until(() => other.asked.includes('Q'), 'a question');
    t.ok(one.isUp() && other.isUp());
  });

t.test('a link through a pooler, which would lose notifications, does not come up', async (t) => {
  const settings = postgresSettings({ url: await startPooler(t, shared) });
  const writer = await prepared(t, settings);
  await createToken(writer, token('T1'), null, NOW);
  const { store, lines, isUp } = await serve(t, settings);
  await until(() => lines.some((line) => line.includes('set store.listener_url')), 'the reason is logged');
  t.equal(isUp(), false);
  t.equal(await isMissing(store, 'T1'), false);
  await writer.tokens.revoke(['T1']);
  t.equal(await isMissing(store, 'T1'), true, 'nothing is cached');
});

t.test('a process that may have missed a notification empties its cache', async (t) => {
  const settings = postgresSettings({ url: shared.url });
  const writer = await prepared(t, settings);
  for (const id of ['T1', 'T2', 'T3']) await createToken(writer, token(id), null, NOW);
  const { store, lines, ended, isUp, untilCached } = await serve(t, settings);
  const skip = `UPDATE ${settings.schema}.records SET rev = rev + 1 WHERE key = 'feed'`;
  const lost = async (reason: string) => {
    await until(() => lines.some((line) => line.includes(reason)), reason);
    await until(isUp, 'the link is up again');
  };
  await untilCached('T1');
  await shared.sql(`BEGIN; ${skip}; DELETE FROM ${settings.schema}.records WHERE key = 'token:digest-T1'; COMMIT`);
  await lost('notifications do not arrive');
  t.equal(await isMissing(store, 'T1'), true);
  await untilCached('T2');
  ended.length = 0;
  await shared.sql(`BEGIN; ${skip}; ${skip}; SELECT pg_notify('${settings.schema}_changes', rev || ' []') FROM ${settings.schema}.records WHERE key = 'feed'; COMMIT`);
  await lost('a notification is missing');
  t.ok(ended.includes('anything'), 'open streams are checked');
  await untilCached('T3');
  await shared.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_postmaster_start_time%' AND pid <> pg_backend_pid()");
  await until(() => lines.filter((line) => line.includes('link lost')).length === 3, 'the connection is lost');
  await until(isUp, 'the link is up again');
  await untilCached('T3');
}); // prettier-ignore

t.test('the reply to a change is lost', async (t) => {
  const proxy = await startProxy(t, shared.port);
  const settings = postgresSettings({ url: `postgres://latchkey@127.0.0.1:${proxy.port}/postgres`, command_timeout: 1_000 });
  const store = await prepared(t, settings);
  const create = async (id: string) => createToken(store, token(id), null, NOW).catch((error: unknown) => error);

  proxy.mute('.commit_');
  const made = create('T1');
  await until(async () => (await shared.sql(`SELECT FROM ${settings.schema}.records WHERE key = 'token_id:T1'`)).length === 1, 'it was made');
  proxy.open();
  t.equal(await made, 'created', 'it is read back');

  proxy.mute('.commit_');
  t.ok((await create('T2')) instanceof OutcomeUnknown, 'nobody can be asked');
  proxy.open();
  t.equal(await isMissing(store, 'T2'), false, 'it was made');

  // The change waits for a lock, so it arrives before the question, and is made after it or never.
  const locked = shared.sql(`BEGIN; SELECT FROM ${settings.schema}.records WHERE key = 'user:U1' FOR UPDATE; SELECT pg_sleep(7); COMMIT`);
  await until(async () => (await shared.sql("SELECT FROM pg_stat_activity WHERE query LIKE '%pg_sleep(7)%' AND state = 'active'")).length === 2, 'a lock');
  const given = await create('T3');
  t.ok(given instanceof StoreUnavailable && !(given instanceof OutcomeUnknown), 'it is given up');
  await locked;
  t.equal(await isMissing(store, 'T3'), true, 'and was not made later');
}); // prettier-ignore

t.test('a connection that is made too late for its caller is used by others', async (t) => {
  const proxy = await startProxy(t, shared.port);
  const url = `postgres://latchkey@127.0.0.1:${proxy.port}/postgres`;
  const client = new PostgresClient(postgresSettings({ url, command_timeout: 5_000, connections: 2 }));
  await client.query('SELECT 1');
  // The second request waits for the first connection, then for its own: 2 s in all, and their answers take 1.2 s each.
  proxy.slow(1_200);
  const [first, second] = await Promise.allSettled([client.query('SELECT 1'), client.query('SELECT 1')]);
  t.match([first, second], [{ status: 'fulfilled' }, { reason: StoreUnavailable }]);
  proxy.slow(0);
  await until(() => Promise.all([1, 2, 3].map(() => client.query('SELECT 1'))).then(() => true, () => false), 'connections are free');
  await client.close();
}); // prettier-ignore

t.test('under load, nothing acknowledged is lost when the server is killed, frozen or restarted', async (t) => {
  const server = await startPostgres(t);
  const settings = postgresSettings({ url: server.url, command_timeout: 1_000 });
  const store = await prepared(t, settings);
  const acknowledged = { created: new Set<string>(), revoked: new Set<string>() };
  const unknown = new Set<string>();
  const refusals: unknown[] = [];
  let number = 0;
  const load = { isOver: false };
  const client = async () => {
    while (!load.isOver) {
      const id = `T${++number}`;
      const attempt = async (change: () => Promise<unknown>) => {
        try {
          await change();
          return true;
        } catch (error) {
          refusals.push(error);
          if (error instanceof OutcomeUnknown) unknown.add(id);
          else await new Promise((wait) => setTimeout(wait, 20));
          return false;
        }
      };
      if (!(await attempt(async () => createToken(store, token(id), null, NOW)))) continue;
      acknowledged.created.add(id);
      if (number % 2 === 0 && (await attempt(async () => store.tokens.revoke([id])))) acknowledged.revoked.add(id);
    }
  };
  const clients = Promise.all(Array.from({ length: 4 }, client));
  const more = async () => {
    const { size } = acknowledged.created;
    await until(() => acknowledged.created.size > size + 10, 'changes are acknowledged');
  };
  const refused = async () => {
    const { length } = refusals;
    await until(() => refusals.length > length, 'changes are refused');
  };
  const faults: Record<string, (server: PostgresServer) => Promise<void>> = {
    killed: async ({ kill, restart }) => kill().then(refused).then(restart),
    frozen: async ({ signal }) => {
      signal('SIGSTOP');
      await refused();
      signal('SIGCONT');
    },
    'its connections ended': async ({ sql }) =>
      void (await sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()')),
  };
  for (const [name, fault] of Object.entries(faults)) {
    await more();
    await fault(server);
    await more();
    t.pass(name);
  }
  load.isOver = true;
  await clients;
  t.same(refusals.filter((error) => !(error instanceof StoreUnavailable)), [], 'all others are 503');
  const missing = await Promise.all([...acknowledged.created].map(async (id) => ((await isMissing(store, id)) ? id : '')));
  t.same(missing.filter((id) => id !== '' && !acknowledged.revoked.has(id) && !unknown.has(id)), [], 'acknowledged tokens');
  t.same([...acknowledged.revoked].filter((id) => !missing.includes(id)), [], 'acknowledged revocations');
}); // prettier-ignore

t.test('requests get 503 while the store is away or empty, and the reason is known', async (t) => {
  const server = await startPostgres(t);
  const [schema, url] = ['served', server.url];
  const store = openPostgresStore(postgresSettings({ url, schema }));
  await store.maintenance.initialize();
  await store.maintenance.close();
  const settings = { type: 'postgres', url, schema, sealing_key: SEALING_KEY };
  const { request, opened, token: newToken } = await startInProcess(t, { store: settings });
  const use = { 'Service-Key': await newToken('superuser') };
  const body = JSON.stringify({ username: 'superuser@example.com', password: PASSWORD });
  const create = async () => request('/tokens', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
  const status = async () => (await request('/service/SVC1', { headers: use })).status;
  t.equal(await status(), 200);
  await server.kill();
  await until(async () => (await status()) === 503, 'no cached token is used any more');
  t.equal((await create()).status, 503);
  await t.rejects(opened.store.maintenance.probe(), /^PostgreSQL is unavailable \(127\.0\.0\.1:\d+: connection refused \(ECONNREFUSED\)\)$/);
  await server.restart();
  await until(async () => (await status()) === 200, 'it is back');
  await server.sql(`DROP SCHEMA ${schema} CASCADE`);
  await until(async () => (await status()) === 503, 'without a schema');
  await t.rejects(opened.store.maintenance.probe(), /^the store is empty: start a server/);
}); // prettier-ignore

t.test('refuses what is no store of its own', async (t) => {
  const opened = (more: Partial<PostgresSettings>) => {
    const store = openPostgresStore(postgresSettings({ url: shared.url, ...more }));
    t.teardown(async () => store.maintenance.close());
    return store.maintenance.initialize();
  };
  await shared.sql('CREATE SCHEMA other; CREATE TABLE other.records (key text)');
  await t.rejects(opened({ schema: 'other' }), { code: 'STORE_UNUSABLE', message: /tables of another program; set store.schema/ });
  await opened({ schema: 'newer' });
  await shared.sql("UPDATE newer.records SET rev = 2 WHERE key = 'meta'");
  await t.rejects(opened({ schema: 'newer' }), { code: 'STORE_UNUSABLE', message: /has format 2, known: 1; update this Latchkey/ });
  await shared.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
  await shared.sql('CREATE ROLE guest LOGIN');
  await t.rejects(opened({ url: shared.url.replace(/postgres$/, 'latin') }), { code: 'STORE_UNUSABLE', message: /encoding LATIN1/ });
  await t.rejects(opened({ url: shared.url.replace('latchkey@', 'guest@') }), /lacks a permission of those in docs\/storage.md \(permission denied for database/);
  await t.rejects(opened({ url: shared.url.replace('latchkey@', 'nobody@') }), /role "nobody" does not exist/);
  await t.rejects(opened({ url: shared.url, tls: { ca: null, cert: null, key: null, server_name: null } }), /does not support SSL connections/);
  await Promise.all(Array.from({ length: 5 }, async () => opened({ schema: 'together' })));
  t.equal((await shared.sql("SELECT FROM together.records WHERE key = 'meta'")).length, 1, 'created once');
}); // prettier-ignore
