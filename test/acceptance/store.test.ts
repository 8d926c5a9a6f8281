import { readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { client, directory, LEGACY_KEY, otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { startPostgres } from '../helpers/postgres.js';
import { startRedis } from '../helpers/redis.js';

const redis = await startRedis(t);
const identity = {
  assertion: { enabled: true, issuer: 'https://auth.example.com', audience: 'example-api' },
};
const source = await startFixture(t, { identity });
const upstream = source.upstream.url;
const toRedis = (prefix: string) => ({
  type: 'redis',
  url: redis.url,
  prefix,
  sealing_key: 'c3'.repeat(32),
});
const config = (store?: object) =>
  writeConfig(temporaryFolder(t), { upstream, identity, ...(store === undefined ? {} : { store }) });

const limited = await source.token('superuser', new URLSearchParams('services[]=SVC1&name=kept'));
const expired = (await source.create('user', { expires_at: '2099-01-01T00:00:00Z' })).json;
const Cookie = await source.login('superuser');
const kids = async (url: string) =>
  ((await send(url, '/.well-known/jwks.json')).json.keys as { kid: string }[]).map(({ kid }) => kid);
const signing = await kids(source.url);
const code = otpAt(Date.now());
const loginWithCode = (url: string) =>
  send(url, '/login', {
    body: new URLSearchParams({ user: 'twofactor@example.com', password: PASSWORD }),
    headers: { 'Service-OTP': code },
  });
await loginWithCode(source.url);
await send(source.url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': LEGACY_KEY } });
await new Promise((written) => setTimeout(written, 1_300));

/** What must hold on every store that the records were copied to. */
async function holds(t: Test, configFile: string) {
  const server = await start(t, configFile);
  const get = (headers: Record<string, string>, path = '/service/SVC1') =>
    send(server.url, path, { headers });
  t.equal((await get({ 'Service-Key': limited })).json.headers['x-auth-services'], 'SVC1');
  t.equal((await get({ 'Service-Key': limited }, '/service/SVC2')).status, 403);
  t.equal((await get({ Cookie })).status, 200, 'the session is valid');
  t.match((await get({ Cookie }, `/tokens/${expired.id}`)).json, {
    id: expired.id,
    scope: 'global',
    expires_at: '2099-01-01T00:00:00+00:00',
  });
  t.match((await loginWithCode(server.url)).json, { code: '2fa.verify' }, 'a used code stays used');
  t.equal((await get({ 'Service-Key': LEGACY_KEY })).status, 401, 'a revoked legacy key stays revoked');
  t.equal((await send(server.url, '/login', { body: new URLSearchParams({ user: 'locked@example.com', password: PASSWORD }) })).json.code, 'account_locked'); // prettier-ignore
  t.ok(await client(server.url).token('engineer'));
  t.same(await kids(server.url), signing, 'the same signing keys');
  await server.stop();
}

t.test('copies from LMDB to Redis and back while both are in use', async (t) => {
  const there = config(toRedis('copy:'));
  const copied = await run(['store', 'copy', '--from', source.configFile, '--to', there]);
  t.match(copied, { code: 0, stdout: /^\d+ records copied, both stores are identical\n$/, stderr: '' });
  const again = await run(['store', 'copy', '--from', source.configFile, '--to', there]);
  t.match(again, { code: 0 }, 'a second copy changes nothing');
  await holds(t, there);

  const third = await run(['store', 'copy', '--from', source.configFile, '--to', there]);
  t.match(third, { code: 0 }, 'what only the target has is removed');
  const listed = await run(['token', 'list', '--json', '--config', there]);
  t.strictSame(
    JSON.parse(listed.stdout),
    JSON.parse((await run(['token', 'list', '--json', '--config', source.configFile])).stdout),
  );
  const server = await start(t, there);
  const refused = await run(['store', 'copy', '--from', source.configFile, '--to', there]);
  t.match(refused, {
    code: 1,
    stderr: /:\d+ \(pid \d+\) serves the target store; stop it, .*; nothing was changed/,
  });
  await server.stop();
  const back = config();
  t.match(await run(['store', 'copy', '--from', there, '--to', back]), { code: 0 });
  await holds(t, back);
});

t.test(
  'copies from LMDB to PostgreSQL, restores a backup from there into Redis, and checks it',
  async (t) => {
    const { url } = await startPostgres(t);
    const there = config({ type: 'postgres', url, sealing_key: 'c3'.repeat(32) });
    const copied = await run(['store', 'copy', '--from', source.configFile, '--to', there]);
    t.match(copied, { code: 0, stdout: /^\d+ records copied, both stores are identical\n$/, stderr: '' });
    await holds(t, there);
    t.match(await run(['check', '--online', '--config', there]), { code: 0, stdout: /store: ok/ });
    const [file, last] = [join(temporaryFolder(t), 'backup.jsonl'), config(toRedis('after-postgres:'))];
    t.match(await run(['store', 'backup', file, '--config', there]), { code: 0 });
    t.match(await run(['store', 'restore', file, '--config', last]), { code: 0 });
    await holds(t, last);
  },
);

t.test('every command refuses a Redis store of a newer format, and a key of another program', async (t) => {
  const there = config(toRedis('newer:'));
  t.match(await run(['store', 'copy', '--from', source.configFile, '--to', there]), { code: 0 });
  const backup = join(temporaryFolder(t), 'backup.jsonl');
  const mark = '{newer:}meta';
  const known = redis.cli('GET', mark);
  const unknown = /the key \{newer:\}meta in Redis does not hold the format of a store; set store\.prefix/;
  for (const [value, stderr] of [
    ['{"format":99}', /the store in Redis has format 99, known: 2; update this Latchkey/],
    ['garbage', unknown],
    ['[]', unknown],
  ] as const) {
    redis.cli('SET', mark, value);
    const commands = [
      ['serve'],
      ['apply', '-f', join(source.folder, 'directory.yaml')],
      ['token', 'create', '--user', 'superuser', '--name', 'x'],
      ['token', 'revoke', expired.id],
      ['user', 'lock', 'superuser'],
      ['user', 'delete', 'superuser'],
      ['store', 'backup', backup],
      ['check', '--online'],
    ];
    for (const args of EVERY_CASE || value.startsWith('{') ? commands : commands.slice(0, 2))
      t.match(await run([...args, '--config', there]), { code: 1, stderr }, `${args.join(' ')}: ${value}`);
  }
  redis.cli('SET', mark, known);
  redis.cli('ACL', 'SETUSER', 'default', '-@write');
  const stderr = /: store: the Redis user lacks a permission/;
  t.match(await run(['check', '--online', '--config', there]), { code: 1, stderr }, 'it may only read');
  redis.cli('ACL', 'SETUSER', 'default', '+@all');
  redis.cli('DEL', mark);
  redis.cli('LPUSH', mark, 'x');
  t.match(await run(['user', 'list', '--config', there]), { code: 1, stderr: unknown }, 'a list');
  redis.cli('DEL', mark);
  redis.cli('SET', mark, known);
  t.match(await run(['user', 'show', 'superuser', '--config', there, '--json']), {
    code: 0,
    stdout: /"locked": ?false/,
  });
});

t.test('refuses to copy a store without customers: the options may be swapped', async (t) => {
  const empty = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' }, { customers: [] });
  t.match(await run(['apply', '--config', empty]), { code: 0 });
  const full = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' }, await directory());
  t.match(await run(['apply', '--config', full]), { code: 0 });
  const swapped = await run(['store', 'copy', '--from', empty, '--to', full]);
  t.match(swapped, { code: 1, stderr: /are --from and --to swapped\? Nothing was changed/ });
  t.match(await run(['user', 'show', 'engineer@example.com', '--config', full]), { code: 0 });
});

t.test('refuses to copy a store onto itself, also by another path', async (t) => {
  const link = join(temporaryFolder(t), 'link');
  symlinkSync(join(source.folder, 'data'), link);
  const there = config(toRedis('self:'));
  t.match(await run(['store', 'copy', '--from', source.configFile, '--to', there]), { code: 0 });
  const linked = config({ type: 'lmdb', path: link });
  const stderr = /^latchkey: --from and --to name the same store; nothing was changed$/m;
  for (const [from, to] of [
    [source.configFile, source.configFile],
    [source.configFile, linked],
    [there, there],
  ] as const)
    // prettier-ignore
    t.match(await run(['store', 'copy', '--from', from, '--to', to]), { code: 1, stdout: '', stderr }, to);
  t.match(
    await run(['user', 'list', '--config', linked]),
    { code: 0 },
    'it is not marked as partly restored',
  );
});

t.test('a backup is complete or absent, and restores into an empty store', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'backup.jsonl');
  t.match(await run(['store', 'backup', file, '--config', source.configFile]), {
    code: 0,
    stdout: /records\n$/,
  });
  t.equal(statSync(file).mode & 0o777, 0o600);
  const text = readFileSync(file, 'utf8');
  t.notMatch(text, new RegExp(`${limited}|${LEGACY_KEY}|JBSWY3DP|${PASSWORD}|${Cookie.split('=')[1]}`));

  const damaged = join(folder, 'damaged.jsonl');
  const lines = text.trimEnd().split('\n');
  for (const [name, content] of [
    ['truncated', lines.slice(0, -1).join('\n')],
    ['a missing record', [...lines.slice(0, 3), ...lines.slice(4)].join('\n')],
    ['a changed record', text.replace('"superuser"', '"billing"')],
    ['not JSON', text.replace('{', '[')],
    ['another version', text.replace(/"version":\d+/, '"version":99')],
    ['trailing data', `${text}{}\n`],
    ['empty', ''],
  ] as const) {
    writeFileSync(damaged, content);
    const into = config(toRedis(`damaged-${name.replaceAll(' ', '-')}:`));
    const { code, stderr } = await run(['store', 'restore', damaged, '--config', into]);
    t.equal(code, 1, name);
    t.match(stderr, /^latchkey: .*; nothing was changed\n$/);
    t.match(await run(['user', 'list', '--config', into]), { code: 1 }, 'there is no store');
  }
  t.match(await run(['store', 'restore', file, '--config', source.configFile]), {
    code: 1,
    stderr: /not empty/,
  });
  t.match(
    await run(['store', 'restore', file, '--config', config(toRedis('other-key:'))]),
    {
      code: 1,
      stderr:
        /the encrypted secret of .* cannot be decrypted; set store\.sealing_key to the key of the store that was backed up, then restore again\n$/,
    },
    'restoring sealed secrets needs their key',
  );

  const key = readFileSync(join(source.folder, 'data/sealing.key')).toString('hex');
  const into = config({ ...toRedis('restored:'), sealing_key: key });
  t.match(await run(['store', 'restore', file, '--config', into]), {
    code: 0,
    stdout: /records restored\n$/,
  });
  await holds(t, into);
});
