import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { parse } from 'yaml';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { type directory, LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

t.test('a user who moves to another customer keeps the tokens, and a backup restores', async (t) => {
  const f = await startFixture(t);
  const { id, access_token: key } = (await f.create('billing', { name: 'moves' })).json;
  const limited = await f.token('billing', new URLSearchParams('services[]=SVC1'));
  const stays = (await f.create('user')).json.id;
  const [old, next] = [await f.login('superuser'), await f.login('other')];
  const ask = (Cookie: string, path: string, method = 'GET') => send(f.url, path, { method, headers: { Cookie } });
  t.match(await ask(old, `/tokens/${id}`), { status: 200, json: { customer_id: 'C1' } });
  t.equal((await ask(next, `/tokens/${id}`)).status, 404);

  const before = parse(readFileSync(join(f.folder, 'directory.yaml'), 'utf8')) as Awaited<ReturnType<typeof directory>>;
  const moved = {
    ...before,
    users: before.users.map((user) => (user.id === 'billing' ? { ...user, customer_id: 'C2' } : user)),
    legacy_keys: [{ customer_id: 'C2', key: LEGACY_KEY }],
  };
  const file = join(temporaryFolder(t), 'moved.yaml');
  writeFileSync(file, JSON.stringify(moved), { mode: 0o600 });
  t.match(await run(['apply', '--config', f.configFile, '-f', file]), { code: 0 });
  t.match(await run(['apply', '--config', f.configFile, '-f', file]), { code: 0, stdout: /nothing to change/ }, 'a single apply is enough');

  for (const [name, reply] of [
    ['show', await ask(old, `/tokens/${id}`)],
    ['revoke', await ask(old, `/tokens/${id}`, 'DELETE')],
  ] as const) t.equal(reply.status, 404, `the old customer: ${name}`);
  const listed = async (Cookie: string, customer: string) =>
    (await ask(Cookie, `/customer/${customer}/tokens`)).json as { id: string; customer_id: string; name: string }[];
  t.notOk((await listed(old, 'C1')).some((token) => token.id === id));
  t.ok((await listed(old, 'C1')).some((token) => token.id === stays));
  t.match((await listed(next, 'C2')).find((token) => token.id === id), { customer_id: 'C2' });
  const use = (value: string, path = '/service/SVC1') => send(f.url, path, { headers: { 'Service-Key': value } });
  t.match((await use(key)).json.headers, { 'x-auth-user-id': 'billing', 'x-auth-customer-id': 'C2' });
  t.match((await use(limited)).json.headers, { 'x-auth-customer-id': 'C2', 'x-auth-services': 'SVC1' }, 'its service list is unchanged');
  t.equal((await use(limited, '/service/SVC2')).status, 403);
  t.match((await use(LEGACY_KEY)).json.headers, { 'x-auth-customer-id': 'C2', 'x-auth-credential': 'legacy_key' });

  const backup = join(temporaryFolder(t), 'backup.jsonl');
  t.match(await run(['store', 'backup', backup, '--config', f.configFile]), { code: 0 });
  const folder = temporaryFolder(t);
  const into = writeConfig(folder, { upstream: f.upstream.url });
  mkdirSync(join(folder, 'data'));
  copyFileSync(join(f.folder, 'data/sealing.key'), join(folder, 'data/sealing.key'));
  t.match(await run(['store', 'restore', backup, '--config', into]), { code: 0 });

  t.equal((await ask(next, `/tokens/${id}`, 'DELETE')).status, 204);
  t.equal((await use(key)).status, 401, 'revoked by the new customer');
}); // prettier-ignore

t.test('quotas limit what is stored for each user and each customer', async (t) => {
  const f = await startFixture(t, {
    sessions: { max_per_user: 3 },
    tokens: { max_stored_per_user: 3, max_stored_per_customer: 5 },
  });
  const sessions: string[] = [];
  for (let i = 0; i < 4; i++) sessions.push(await f.login('superuser'));
  const statuses = [];
  for (const Cookie of sessions) statuses.push((await send(f.url, '/tokens', { headers: { Cookie } })).status);
  t.same(statuses, [401, 200, 200, 200], 'the oldest session ended');
  const create = async (user: string) => {
    const { status, json } = await f.create(user);
    return status === 200 ? 'created' : `${status} ${json.detail}`;
  };
  const results = [];
  for (let i = 0; i < 4; i++) results.push(await create('billing'));
  t.same(results, ['created', 'created', 'created', '422 The user already has 3 tokens; revoke some first']);
  t.equal(await create('superuser'), 'created');
  t.match(await create('superuser'), /^422 The customer already has 5 tokens; revoke some first/, 'including the legacy key');
  t.equal(await create('other'), 'created', 'another customer has its own quota');
  const many = new URLSearchParams(Array.from({ length: 101 }, (_, i) => ['services[]', `S${i}`]));
  t.match((await f.create('other', many)).json, { detail: 'More than 100 services' });

  const body = new URLSearchParams({ user: 'user@example.com', password: 'correct horse battery staple' });
  const { headers } = await send(f.url, '/login', { body, headers: { 'User-Agent': 'é'.repeat(6_000) } });
  const Cookie = String(headers['set-cookie']).split(';')[0] ?? '';
  const list = await send(f.url, '/_latchkey/sessions', { headers: { Cookie } });
  const [{ user_agent: userAgent = '' } = {}] = list.json as { user_agent?: string }[];
  t.ok(userAgent.length > 100 && Buffer.byteLength(userAgent) <= 512, `${Buffer.byteLength(userAgent)} bytes of a User-Agent`);
}); // prettier-ignore

const BACKUP = [
  { kind: 'revoked', value: 'digest-revoked' },
  { kind: 'customer', value: { id: 'C1', name: 'One' } },
  ...Array.from({ length: 1_200 }, (_, i) => ({ kind: 'user', value: userOf(`U${i}`), otpStep: -1 })),
  ...['kept', 'revoked'].map((id) => ({ kind: 'token', value: tokenOf(id), use: null })),
];

function userOf(id: string) {
  return { id, customerId: 'C1', login: id, name: '', role: 'user', passwordHash: null, otpSecret: null, locked: false, createdAt: 1, updatedAt: 1 };
} // prettier-ignore

function tokenOf(id: string) {
  return { id, digest: `digest-${id}`, kind: 'legacy_key', userId: 'U1', customerId: 'C7', name: '', scopes: [], services: [], serviceId: null, createdAt: 1, updatedAt: 1, expiresAt: null };
} // prettier-ignore

function writeBackup(file: string, records: readonly object[]): void {
  const head = { format: 'latchkey-backup', version: 1, created_at: '2026-01-02T03:04:05.678Z' };
  const text = [head, ...records].map((line) => `${JSON.stringify(line)}\n`).join('');
  const sha256 = createHash('sha256').update(text).digest('hex');
  writeFileSync(file, `${text}${JSON.stringify({ end: true, count: records.length, sha256 })}\n`);
}

t.test('a restore is validated first; an interrupted one is detected and starts over', async (t) => {
  const folder = temporaryFolder(t);
  const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' });
  const path = join(folder, 'data');
  const file = join(temporaryFolder(t), 'backup.jsonl');
  const restore = () => run(['store', 'restore', file, '--config', config]);

  writeBackup(file, [...BACKUP.slice(1), { kind: 'user', value: { ...userOf('last'), customerId: 'C9' }, otpStep: -1 }]);
  t.match(await restore(), { code: 1, stderr: /lacks the customer C9, to which the user last belongs; nothing was changed/ });
  t.match(await run(['user', 'list', '--config', config]), { code: 1, stderr: /no store yet/ });

  // What an interrupted restore of another backup left behind.
  const half = openLmdbStore(path);
  await half.maintenance.setRestoring(true);
  await half.directory.change({ customers: [{ id: 'C0', name: 'Left' }], users: [{ ...userOf('left'), customerId: 'C0', passwordHash: null }] }, 1);
  await half.tokens.addRevokedDigests(['digest-revoked']);
  await half.maintenance.close();
  const served = await run(['serve', '--config', config]);
  t.match(served, { code: 1 });
  t.match(served.stderr + served.stdout, /interrupted; run "latchkey store restore"/);

  writeBackup(file, BACKUP.slice(1));
  const { code, stdout, stderr } = await restore();
  t.match({ code, stdout }, { code: 0, stdout: `${BACKUP.length - 2} records restored\n` });
  t.match(stderr, /1 legacy key stays revoked/);
  t.match(stderr, /warning: the store will be as it was at 2026-01-02T03:04:05\.678Z\. Tokens that were revoked since then work again/);
  const store = openLmdbStore(path);
  t.equal(await store.directory.getCustomer('C0'), undefined, 'nothing of the other backup is left');
  t.equal((await store.directory.listUsers('C1')).length, 1_200);
  t.equal((await store.tokens.find('digest-kept'))?.owner.customerId, 'C1', 'regardless of the customer in an older backup');
  t.equal(await store.tokens.find('digest-revoked'), undefined);
  await store.maintenance.close();
  t.match(await restore(), { code: 1, stderr: /not empty/ });
  const server = await start(t, config);
  await server.stop();
}); // prettier-ignore
