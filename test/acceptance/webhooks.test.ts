import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { join, resolve } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { client, directory, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { type Running, run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE, nightly } from '../helpers/nightly.js';
import { startRedis } from '../helpers/redis.js';
import { rememberSecret } from '../helpers/secrets.js';
import { matchLog, until } from '../helpers/until.js';
import { WebhookReceiver } from '../helpers/webhook-receiver.js';

const metricsOf = async ({ admin }: Running) => (await send(admin, '/metrics')).text;
const reportOf = async ({ admin }: Running) => (await send(admin, '/-/webhooks')).json;

/** Creates a token and revokes it; resolves to its id. */
async function createAndRevoke({ create, url }: Pick<ReturnType<typeof client>, 'create' | 'url'>): Promise<string> {
  const created = await create('superuser');
  const { id, access_token: key } = created.json as { id: string; access_token?: string };
  if (key === undefined) throw new Error(`creation answered ${created.status} ${created.text}`);
  const { status } = await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': key } });
  if (status !== 204) throw new Error(`revocation answered ${status}`);
  return id;
} // prettier-ignore

t.test('reports token and login events, signed and in order', async (t) => {
  const receiver = await WebhookReceiver.start(t);
  const { server, url, create, configFile } = await startFixture(t, {
    workers: 2,
    login: { max_failures: 1 },
    tokens: { warn_before: '1h' },
    webhooks: [receiver.settings()],
  });
  const { id, access_token: key } = (await create('superuser')).json;
  const rotated = await send(url, '/tokens/self/rotate', { method: 'POST', headers: { 'Service-Key': key }, body: new URLSearchParams({ overlap: '1' }) });
  const successor = rotated.json.id as string;
  const revoked = await createAndRevoke({ create, url });
  const expires = new Date(Date.now() + 4_000).toISOString();
  const brief = (await create('user', { expires_at: expires })).json.id as string;
  const failLogin = (user: string) => send(url, '/login', { method: 'POST', body: new URLSearchParams({ user: `${user}@example.com`, password: 'wrong' }) });
  await failLogin('nobody');
  // A busy machine may check a password for longer than the first wait, which then locks nobody out.
  await until(async () => (await failLogin('billing')).status === 429, 'billing is locked out');
  t.match(await run(['user', 'lock', 'engineer@example.com', '--config', configFile]), { code: 0 });
  const ends = [[brief, 'expired'], [id, 'expired'], [revoked, 'revoked'], ['billing', 'login.locked'], ['engineer', 'login.locked']] as const;
  await until(() => ends.every(([about, type]) => receiver.of(about).includes(type)), 'all events');
  t.same(receiver.faults, [], 'all signatures are valid');
  t.same(receiver.of(id), ['created', 'expired'], 'the overlap of a rotated token ends with its expiry');
  t.same(receiver.of(revoked), ['created', 'revoked']);
  // Whether it is warned of depends on when tokens are looked through.
  t.same(receiver.of(brief).filter((type) => type !== 'expiring'), ['created', 'expired']);
  const lockouts = server.stdout().split('\n').filter((line) => /"event":"login\.locked_out".*"user_id":"billing"/.test(line));
  t.same([receiver.of('billing'), receiver.of('engineer')], [lockouts.map(() => 'login.locked'), ['login.locked']], 'one each');
  t.match(receiver.received.find(({ about }) => about === 'billing')?.data, { customer_id: 'C1', reason: 'failed_logins', retry_after: Number });
  t.match(receiver.received.find(({ about }) => about === 'engineer')?.data, { reason: 'user_locked', retry_after: null });
  t.match(receiver.received.find(({ about }) => about === successor)?.data, { predecessor_id: id, customer_id: 'C1', user_id: 'superuser' });
  t.match(receiver.received.findLast(({ about }) => about === id)?.data, { successor_id: successor });
  t.equal(new Set(receiver.received.map((each) => each.id)).size, receiver.received.length, 'each once, with a unique id');
  const text = JSON.stringify(receiver.received);
  for (const secret of [key, rotated.json.access_token, 'billing@example.com']) t.notOk(text.includes(secret), 'no secret, no login name');
  await until(async () => /^latchkey_webhook_queued\{endpoint="[^"]+"\} 0$/m.test(await metricsOf(server)), 'the queue is empty');
  const metrics = await metricsOf(server);
  t.match(metrics, /^latchkey_webhook_sender 1$/m);
  t.match(metrics, /^latchkey_webhook_deliveries_total\{endpoint="127\.0\.0\.1:\d+\/[0-9a-f]{8}",outcome="delivered"\} [1-9]\d*$/m);
  for (const name of ['oldest_seconds', 'dead_letters', 'endpoint_disabled'])
    t.match(metrics, new RegExp(`^latchkey_webhook_${name}\\{endpoint="[^"]+"\\} 0$`, 'm'));
  t.match(await reportOf(server), { sender: true, endpoints: [{ configured: true, queued: 0, dead_letters: 0, last_error: null }], dead_letters: [] });
  const shown = JSON.stringify((await send(server.admin, '/-/config')).json);
  t.ok(shown.includes('"secret":"***"') && !shown.includes(receiver.secret));
  t.match(JSON.parse((await send(server.admin, '/readyz')).text), { ready: true });

  await t.test('a reload changes the endpoints', async (t) => {
    const other = await WebhookReceiver.start(t);
    const config = parse(readFileSync(configFile, 'utf8')) as object;
    writeFileSync(configFile, stringify({ ...config, webhooks: [other.settings({ events: ['token.revoked'] })] }));
    t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
    const before = receiver.received.length;
    const last = await createAndRevoke({ create, url });
    await until(() => other.of(last).length === 1, 'the other endpoint is notified');
    t.same(other.of(last), ['revoked']);
    t.equal(receiver.received.length, before, 'the previous one is not');
  });
  t.equal((await server.stop()).code, 0);
}); // prettier-ignore

t.test('retries failures, then keeps dead letters to resend by hand; 410 disables an endpoint', async (t) => {
  const receiver = await WebhookReceiver.start(t);
  const { server, url, create, configFile } = await startFixture(t, {
    webhooks: [receiver.settings({ max_attempts: 2, timeout: '2s', events: ['token.created', 'token.revoked'] })],
  });
  await until(() => receiver.received.length === 1, 'the legacy key of the directory');
  let failures = 0;
  receiver.behaviour = (res, { id }) => {
    failures += 1;
    if (receiver.received.filter((each) => each.id === id).length === 1) res.writeHead(503, { 'Retry-After': '1' }).end();
    else res.writeHead(200).end();
  };
  const again = await createAndRevoke({ create, url });
  await until(() => receiver.of(again).length === 4, 'both sent again');
  t.same(receiver.of(again), ['created', 'created', 'revoked', 'revoked'], 'in order, with the second waiting for the first');
  t.equal(failures, 4);

  receiver.behaviour = () => undefined;
  const dead = await createAndRevoke({ create, url });
  await until(async () => (await reportOf(server)).dead_letters.length === 2, 'both are given up');
  t.same(receiver.of(dead), ['created', 'created', 'revoked', 'revoked']);
  const [first] = (await reportOf(server)).dead_letters;
  t.match(first, { type: 'token.created', subject: `token:${dead}`, attempts: 2, error: 'no response within 2000 ms' });
  await matchLog(t, server, /"msg":"webhook given up; kept as a dead letter"/);

  receiver.behaviour = (res) => res.writeHead(410).end();
  const gone = await createAndRevoke({ create, url });
  await until(async () => (await reportOf(server)).endpoints[0].disabled_at !== null, 'the endpoint is disabled');
  t.same(receiver.of(gone), ['created']);
  receiver.behaviour = (res) => res.writeHead(204).end();
  await sleep(600);
  t.same(receiver.of(gone), ['created'], 'nothing more is sent');
  t.equal((await send(server.admin, '/-/webhooks/resend?endpoint=none', { method: 'POST' })).status, 404);
  const resent = await send(server.admin, `/-/webhooks/resend?id=${first.id}`, { method: 'POST' });
  t.match(resent, { status: 200, json: { resent: [{ endpoint: first.endpoint, resent: 1 }] } });
  await until(() => receiver.of(gone).length === 3 && receiver.of(dead).length === 5, 'enabled again');
  t.same(receiver.of(gone), ['created', 'created', 'revoked']);
  t.match(await send(server.admin, '/-/webhooks/resend', { method: 'POST' }), { status: 200, json: { resent: [{ resent: 1 }] } });
  await until(() => receiver.of(dead).length === 6, 'the other one is sent again');
  t.same(receiver.faults, []);
  t.match(await run(['check', '--online', '--config', configFile]), { code: 0, stdout: /^webhooks 127\.0\.0\.1:\d+\/[0-9a-f]{8}: ok$/m });
}); // prettier-ignore

/** Runs a command that is killed at one of its writes; resolves to the signal. */
async function killed(when: 'before' | 'within' | 'after', args: readonly string[]): Promise<string | null> {
  const preload = ['--import', resolve('test/helpers/die-at-write.mjs'), 'dist/cli.js'];
  const env = { ...process.env, DIE_AT: '1', DIE_WHEN: when };
  const child = spawn(process.execPath, [...preload, ...args], { stdio: 'ignore', env });
  return new Promise((done) => child.once('close', (_code, signal) => done(signal)));
}

t.test('after a kill at any write, a change and its webhook both exist or neither', async (t) => {
  const check = async (store: object): Promise<void> => {
    const receiver = await WebhookReceiver.start(t);
    const folder = temporaryFolder(t);
    const users = { ...(await directory()), legacy_keys: [] };
    const configFile = writeConfig(folder, { upstream: 'http://127.0.0.1:1', store, webhooks: [receiver.settings()] }, users);
    t.match(await run(['apply', '--config', configFile, '-f', join(folder, 'directory.yaml')]), { code: 0 });
    const create = ['token', 'create', '--user', 'user@example.com', '--config', configFile];
    const kept = async (): Promise<string[]> => {
      const { stdout } = await run(['token', 'list', '--json', '--config', configFile]);
      return (JSON.parse(stdout) as { id: string }[]).map((token) => token.id);
    };
    for (let i = 0; i < 2; i++) rememberSecret((await run(create)).stdout.trim());
    const expected = new Map((await kept()).map((id) => [id, ['created']]));
    const [one = '', two = ''] = expected.keys();
    const revoke = (id: string) => ['token', 'revoke', id, '--config', configFile];
    const kills = [killed('within', create), killed('within', revoke(one)), killed('after', revoke(two))];
    t.same(await Promise.all(kills), ['SIGKILL', 'SIGKILL', 'SIGKILL']);
    const now = await kept();
    for (const id of now) if (!expected.has(id)) expected.set(id, ['created']);
    for (const id of [one, two]) if (!now.includes(id)) expected.set(id, ['created', 'revoked']);
    const server = await start(t, configFile);
    await until(async () => (await reportOf(server)).endpoints[0].queued === 0, 'everything is delivered');
    t.ok(expected.size >= 2, `${expected.size} tokens`);
    for (const [id, events] of expected) t.same(receiver.of(id), events, `${JSON.stringify(store)} ${id}`);
    t.equal(new Set(receiver.received.map(({ about }) => about)).size, expected.size, 'no event without a change');
    await server.stop();
  };
  await check({ type: 'lmdb', path: './data' });
  if (EVERY_CASE) await check({ type: 'redis', url: (await startRedis(t)).url, sealing_key: 'a1'.repeat(32) });
}); // prettier-ignore

t.test('a server killed while sending sends again; an older version can read the store', nightly, async (t) => {
  const receiver = await WebhookReceiver.start(t);
  const { server, url, create, configFile, folder } = await startFixture(t, { webhooks: [receiver.settings()] });
  receiver.behaviour = () => undefined;
  const id = await createAndRevoke({ create, url });
  await until(() => receiver.of(id).length === 1, 'in progress');
  await server.stop('SIGKILL');
  receiver.behaviour = (res) => res.writeHead(200).end();
  await start(t, configFile);
  await until(() => receiver.of(id).length === 3, 'sent again');
  t.same(receiver.of(id), ['created', 'created', 'revoked']);
  const [first, second] = receiver.received.filter(({ about }) => about === id);
  t.equal(first?.id, second?.id, 'with the same id');
  const store = openLmdbStore(join(folder, 'data'));
  t.ok(await store.directory.getUser('user'), 'code without webhooks reads the store');
  await store.maintenance.close();
}); // prettier-ignore

t.test('two sidecars of two workers send every event, in order, from one of them', nightly, async (t) => {
  const redis = await startRedis(t);
  const receiver = await WebhookReceiver.start(t);
  const config = { workers: 2, store: { type: 'redis', url: redis.url, sealing_key: 'a1'.repeat(32) }, webhooks: [receiver.settings({ timeout: '1s' })] };
  const one = await startFixture(t, config);
  const two = await start(t, writeConfig(temporaryFolder(t), { upstream: one.upstream.url, ...config }, await directory()));
  const other = { ...client(two.url), url: two.url };
  let count = 0;
  receiver.behaviour = (res) => {
    count += 1;
    if (count % 7 === 0) res.writeHead(500, { 'Retry-After': '1' }).end();
    else if (count % 11 === 0) res.destroy();
    else setTimeout(() => res.writeHead(200).end(), count % 5);
  };
  const ids: string[] = [];
  const create = async (rounds: number) => {
    for (let i = 0; i < rounds; i++)
      ids.push(...(await Promise.all([one, other].map(async (each) => createAndRevoke(each)))));
  };
  await create(10);
  const senders = await Promise.all([one.server, two].map(async (each) => /^latchkey_webhook_sender 1$/m.test(await metricsOf(each))));
  t.equal(senders.filter(Boolean).length, 1, 'one sender');
  await create(3);
  const [sender, left] = senders[0] === true ? [one.server, two] : [two, one.server];
  await sender.stop('SIGKILL');
  const survivor = { ...client(left.url), url: left.url };
  ids.push(await createAndRevoke(survivor));
  await until(() => ids.every((id) => receiver.of(id).includes('revoked')), 'all events');
  t.match(await metricsOf(left), /^latchkey_webhook_sender 1$/m, 'the other one took over');
  for (const id of ids) t.match(receiver.of(id).join(' '), /^(created )+(revoked ?)+$/, 'never out of order');
  t.same(receiver.faults, []);
}); // prettier-ignore
