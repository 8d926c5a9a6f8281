import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openRedisStore } from '../../src/store/redis.js';
import { client, startFixture } from '../helpers/fixture.js';
import { freshMetrics, send } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { redisSettings, startRedis, startSentinel, untilInStep } from '../helpers/redis.js';
import { matchLog, until } from '../helpers/until.js';

const SEALING_KEY = 'a1'.repeat(32);

const status = async (url: string, key: string) =>
  (await send(url, '/service/SVC1', { headers: { 'Service-Key': key } })).status;
/**
 * The status once the sidecar reaches its store; until it finds the new master, it refuses with
 * 503.
 */
const judged = async (url: string, key: string) => {
  let answer = 503;
  await until(async () => (answer = await status(url, key)) !== 503, `${url} reaches its store`);
  return answer;
};
const revoke = async (url: string, key: string) =>
  (await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': key } })).status;

/** Starts two sidecars on one store; the first one applies the directory. */
async function startTwo(t: Test, store: object) {
  const settings = { store: { type: 'redis', sealing_key: SEALING_KEY, command_timeout: '1s', ...store } };
  const first = await startFixture(t, settings);
  const server = await start(t, writeConfig(temporaryFolder(t), { upstream: first.upstream.url, ...settings }));
  const second = { ...client(server.url), server };
  const linked = async (admin: string) => /^latchkey_store_links_up 1$/m.test((await send(admin, '/metrics')).text);
  for (const { server } of [first, second]) await until(() => linked(server.admin), 'the link is up');
  return { first, second };
} // prettier-ignore

t.test('a master that was stopped and wakes up gets no writes and serves no reads', async (t) => {
  const { master, replica, nodes } = await startSentinel(t);
  const { first, second } = await startTwo(t, { sentinel: { master: 'm', nodes } });
  const [keep, gone] = [await first.token('superuser'), await first.token('superuser')];
  for (const key of [keep, gone]) t.equal(await judged(second.url, key), 200);
  await until(() => replica.cli('DBSIZE') === master.cli('DBSIZE'), 'the replica has them');
  master.signal('SIGSTOP');
  await until(async () => (await revoke(first.url, gone)) === 204, 'a revocation on the new master', 20_000);
  const revokedAt = performance.now();
  const accepted: number[] = [];
  const watch = async () => {
    for (const { url } of [first, second])
      if ((await status(url, gone)) === 200) accepted.push(performance.now() - revokedAt);
  };
  await watch();
  master.signal('SIGCONT');
  const revocations = async () => {
    const key = await first.token('superuser');
    t.equal(await judged(second.url, key), 200, 'a new token is valid at once');
    t.equal(await revoke(first.url, key), 204);
    await until(async () => (await status(second.url, key)) === 401, 'its revocation too');
  };
  while (performance.now() - revokedAt < 2_000) {
    await watch();
    await revocations();
  }
  t.ok(accepted.every((ms) => ms < 2_000), `accepted ${accepted.join(', ')} ms after the revocation`); // prettier-ignore
  t.same([await judged(first.url, gone), await judged(second.url, gone)], [401, 401]);
  t.same([await judged(first.url, keep), await judged(second.url, keep)], [200, 200]);
});

t.test('if a promoted replica lacks writes, revocations hold and lost tokens are reported', async (t) => {
  const { master, replica, nodes, cli } = await startSentinel(t);
  const { first, second } = await startTwo(t, { sentinel: { master: 'm', nodes } });
  const [keep, gone, locked] = [await first.token('superuser'), await first.token('engineer'), await first.token('user')];
  const cookie = await first.login('superuser');
  for (const key of [keep, gone, locked]) t.equal(await judged(second.url, key), 200);
  await until(() => replica.cli('EXISTS', '{latchkey:}meta') === '1' && replica.cli('DBSIZE') === master.cli('DBSIZE'), 'the replica has them');
  replica.signal('SIGSTOP');
  // Later writes do not even reach its socket buffers.
  master.cli('CLIENT', 'KILL', 'TYPE', 'replica');
  t.equal(await revoke(first.url, gone), 204);
  t.equal((await send(first.url, '/logout', { method: 'POST', headers: { Cookie: cookie } })).status, 204);
  t.equal((await run(['user', 'lock', 'user', '--config', first.configFile])).code, 0, 'by another process, which exits');
  const lost = await first.token('superuser');
  await until(async () => (await status(second.url, gone)) === 401 && (await status(second.url, locked)) === 401, 'told');
  await master.kill();
  replica.signal('SIGCONT');
  await until(() => cli('SENTINEL', 'get-master-addr-by-name', 'm').split('\n')[1] === String(replica.port), 'a new master', 20_000);
  await until(async () => (await status(first.url, keep)) === 200 && (await status(second.url, keep)) === 200, 'recovery', 10_000);
  for (const { url } of [first, second]) {
    t.equal(await judged(url, gone), 401, 'revoked');
    t.equal(await judged(url, locked), 401, 'locked');
    t.equal((await send(url, '/tokens', { headers: { Cookie: cookie } })).status, 401, 'logged out');
    t.equal(await judged(url, lost), 401, 'lost');
  }
  t.match(await run(['user', 'show', 'user', '--json', '--config', first.configFile]), { stdout: /"locked": ?true/ }, 'in the store too');
  const lines = first.server.stdout() + second.server.stdout();
  t.match(lines, /"revocations_reapplied":[1-9]\d*,"tokens_lost":\d+,"recovered":0,"msg":"store history changed"/);
  await matchLog(t, first.server, /"token_ids":\["\w{22}"\],"count":1,"msg":"tokens lost by the store"/);
  t.match(await freshMetrics(first.server.admin), /^latchkey_store_tokens_lost_total 1$/m);
  t.match(await freshMetrics(first.server.admin), /^latchkey_store_history_changes_total [1-9]/m);
}); // prettier-ignore

t.test('acknowledge: after a promotion, what a replica confirmed exists, and no response says otherwise', nightly, async (t) => {
  const { master, replica, nodes } = await startSentinel(t);
  const confirms = await startRedis(t, '--replicaof', `127.0.0.1 ${master.port}`, '--replica-priority', '0');
  const inStep = () => replica.cli('DBSIZE') === master.cli('DBSIZE') && confirms.cli('DBSIZE') === master.cli('DBSIZE');
  const acknowledge = { replicas: 1, timeout: '2s' };
  const { first, second } = await startTwo(t, { sentinel: { master: 'm', nodes }, acknowledge });
  await first.token('superuser');
  await until(inStep, 'the replicas have it');
  replica.signal('SIGSTOP');
  master.cli('CLIENT', 'KILL', 'TYPE', 'replica');
  await until(() => confirms.cli('INFO', 'replication').includes('master_link_status:up'), 'one of them is back', 10_000);
  const [keep, gone] = [await first.token('superuser'), await first.token('superuser')];
  const cookie = await first.login('superuser');
  t.equal(await revoke(second.url, gone), 204);
  await master.kill();
  replica.signal('SIGCONT');
  const answers = new Set<string>();
  const ask = async (url: string) => {
    const session = await send(url, '/service/SVC1', { headers: { Cookie: cookie } });
    const each = { keep: await status(url, keep), gone: await status(url, gone), session: session.status };
    for (const [name, answer] of Object.entries(each)) answers.add(`${name} ${answer}`);
    return each.keep === 200 && each.session === 200;
  };
  await until(() => replica.cli('ROLE').startsWith('master'), 'promoted', 20_000);
  await until(async () => (await ask(first.url)) && ask(second.url), 'what was acknowledged', 10_000);
  await until(async () => {
    for (const { url } of [first, second]) await ask(url);
    // Until then, cached records bridge the time without a master.
    const hasBegun = replica.cli('GET', '{latchkey:}history').endsWith(':1');
    return hasBegun && replica.cli('EXISTS', '{latchkey:}recovering') === '0';
  }, 'the recovery has finished');
  t.same([await ask(first.url), await ask(second.url)], [true, true]);
  t.same([await judged(first.url, gone), await judged(second.url, gone)], [401, 401]);
  const wrong = ['keep 401', 'session 401', 'gone 200'].filter((answer) => answers.has(answer));
  t.same(wrong, [], [...answers].toSorted().join(', '));
  await matchLog(t, first.server, /"tokens_lost":0,"recovered":2,"msg":"store history changed"/);
  t.match(replica.cli('GET', '{latchkey:}history'), /^[0-9a-f]{40}:1$/);
}); // prettier-ignore

t.test('acknowledge: a change on too few replicas is not confirmed', nightly, async (t) => {
  const master = await startRedis(t, '--repl-diskless-sync-delay', '0');
  const replica = await startRedis(t, '--replicaof', `127.0.0.1 ${master.port}`);
  await untilInStep(master, replica);
  const acknowledge = { replicas: 1, timeout: '300ms' };
  const { first } = await startTwo(t, { url: master.url, acknowledge });
  const key = await first.token('superuser');
  t.equal(Number(replica.cli('EXISTS', '{latchkey:}meta')), 1);
  replica.signal('SIGSTOP');
  const refused = await first.create('engineer');
  t.match([refused.status, refused.json.detail], [503, 'The change is not confirmed; it may have been applied']);
  t.equal(await status(first.url, key), 200, 'reads do not wait');
  t.equal(await revoke(first.url, key), 503);
  replica.signal('SIGCONT');
  await until(async () => (await first.create('engineer')).status === 200, 'the replica is back', 10_000);
  t.ok(await first.token('engineer'));
}); // prettier-ignore

t.test('does not use a server that is not a master', nightly, async (t) => {
  const master = await startRedis(t);
  const replica = await startRedis(t, '--replicaof', `127.0.0.1 ${master.port}`);
  const store = await openRedisStore(redisSettings({ url: replica.url }));
  t.teardown(() => store.maintenance.close());
  await t.rejects(async () => store.maintenance.probe(), { message: /Redis is unavailable \(no master: .*role is slave\)/ });
  replica.cli('REPLICAOF', 'NO', 'ONE');
  await until(async () => store.maintenance.initialize().then(() => true, () => false), 'promoted', 5_000);
  const read = async () => Promise.resolve(store.directory.getUser('U1')).then(() => 'answered', () => 'refused');
  t.equal(await read(), 'answered');
  replica.cli('REPLICAOF', '127.0.0.1', String(master.port));
  await until(async () => (await read()) === 'refused', 'a replica again', 5_000);
  t.equal(await read(), 'refused');
}); // prettier-ignore

t.test('a revocations folder keeps revocations over a restart if the store lost them', nightly, async (t) => {
  const redis = await startRedis(t);
  const folder = temporaryFolder(t);
  const revocations = join(folder, 'revocations');
  const store = { type: 'redis', sealing_key: SEALING_KEY, url: redis.url, revocations };
  const first = await startFixture(t, { store });
  const key = await first.token('superuser');
  const names = ['token:*', 'token_id:*'].flatMap((name) => redis.cli('--scan', '--pattern', `{latchkey:}${name}`).split('\n'));
  const before = names.map((name) => [name, redis.cli('GET', name)] as const);
  t.equal(await revoke(first.url, key), 204);
  t.match(readdirSync(revocations), [/^revocations-/]);
  await first.server.stop();
  for (const [name, value] of before) redis.cli('SET', name, value);
  const again = await start(t, writeConfig(temporaryFolder(t), { upstream: first.upstream.url, store }));
  await until(async () => (await send(again.admin, '/readyz')).status === 200, 'ready');
  t.equal(await status(again.url, key), 401);
  await matchLog(t, again, /"revocations_reapplied":1/);
  t.equal(before.filter(([name]) => redis.cli('EXISTS', name) === '0').length, 2, 'deleted from the store too');
}); // prettier-ignore
