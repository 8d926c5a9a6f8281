import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { client, type directory, LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { matchLog } from '../helpers/until.js';

type Declared = Awaited<ReturnType<typeof directory>>;

const { url, folder, configFile, create, login } = await startFixture(t);
const base = parse(readFileSync(join(folder, 'directory.yaml'), 'utf8')) as Declared;
const file = join(folder, 'other.yaml');

/** Applies the fixture's directory with some sections replaced. */
function apply(parts: Partial<Declared> | string, ...args: string[]) {
  writeFileSync(file, typeof parts === 'string' ? parts : stringify({ ...base, ...parts }), { mode: 0o600 });
  return run(['apply', '--config', configFile, '-f', file, ...args]);
}

const withoutUser = (id: string) => ({ users: base.users.filter((user) => user.id !== id) });
const call = (key: string) => send(url, '/service/SVC1', { headers: { 'Service-Key': key } });

t.test('a dry run shows the differences and changes nothing; a second apply finds nothing', async (t) => {
  const parts = {
    customers: [{ id: 'C1', name: 'One!' }, base.customers[1], { id: 'C3', name: 'Three' }],
    services: [{ id: 'SVC1', customer_id: 'C1', name: 'web' }],
    users: base.users.map((user) => (user.id === 'user' ? { ...user, role: 'billing', name: 'U', locked: true } : user)),
  } as Partial<Declared>; // prettier-ignore
  const lines = [
    '~ customer C1: name "One" -> "One!"',
    '+ customer C3: "Three"',
    '~ service SVC1: name "www" -> "web"',
    '~ user user: name user -> U, role user -> billing, locked',
    '- service SVC2: shop',
  ];
  const dry = await apply(parts, '--dry-run');
  t.same(dry, {
    code: 0,
    stdout: `${lines.join('\n')}\n5 differences, not applied (--dry-run)\n`,
    stderr: '',
  });
  t.match(await run(['user', 'show', 'user', '--config', configFile, '--json']), {
    stdout: /"role": "user"/,
  });
  t.same(await apply(parts), {
    code: 0,
    stdout: `${lines.join('\n')}\n5 differences, applied\n`,
    stderr: '',
  });
  t.match(await run(['user', 'show', 'user', '--config', configFile, '--json']), {
    stdout: /"role": "billing"/,
  });
  t.same(await apply(parts), { code: 0, stdout: 'nothing to change\n', stderr: '' });
  t.match(await apply({}), { code: 0, stdout: /4 differences, applied|5 differences, applied/ });
});

const PENDING = 'locked, deletion pending until its active tokens end';
const shown = async (id: string) =>
  JSON.parse((await run(['user', 'show', id, '--config', configFile, '--json'])).stdout);

t.test('locks a user with active tokens and applies everything else', async (t) => {
  const { id, access_token: token } = (await create('engineer')).json;
  const session = await login('engineer');
  const users = base.users
    .filter((user) => user.id !== 'engineer')
    .map((user) => (user.id === 'user' ? { ...user, locked: true } : user));
  const lines = ['~ user user: locked', `~ user engineer: ${PENDING}`];
  const applied = await apply({ users });
  t.same(applied, { code: 0, stdout: `${lines.join('\n')}\n2 differences, applied\n`, stderr: '' });
  t.equal((await call(token)).status, 401, 'the token is refused');
  t.equal((await send(url, '/service/SVC1', { headers: { Cookie: session } })).status, 401, 'a session too');
  t.match(await shown('engineer'), { locked: true, deletion_pending: true, active_tokens: [id] });
  t.match(await shown('user'), { locked: true, deletion_pending: false }, 'the rest was applied');
  t.same(await apply({ users }), { code: 0, stdout: 'nothing to change\n', stderr: '' });
  t.match(await run(['user', 'list', '--config', configFile]), {
    stdout: /engineer@example.com .*deletion pending/,
  });
  t.match(await run(['token', 'create', '--user', 'engineer', '--config', configFile]), {
    code: 1,
    stdout: '',
    stderr: /engineer@example\.com is to be deleted .*; declare the user in the directory file again first\n/,
  });
  const refused = await run(['user', 'delete', 'engineer', '--config', configFile]);
  t.match(refused, { code: 1, stderr: new RegExp(`the user engineer still has active tokens .${id}.`) });

  t.match(await apply({}), { code: 0, stdout: /~ user engineer: unlocked, not to be deleted\n/ });
  t.equal((await call(token)).status, 200, 'a user who is declared again has valid tokens again');

  t.match(await apply(withoutUser('engineer')), { code: 0 });
  await run(['token', 'revoke', id, '--config', configFile]);
  const deleted = '- user engineer: engineer@example.com\n1 difference, applied\n';
  t.match(await apply(withoutUser('engineer')), { code: 0, stdout: deleted });
  await apply({});
});

t.test('gives a login to another user while its first owner awaits deletion', nightly, async (t) => {
  const { id } = (await create('billing')).json;
  const users = base.users.map((user) => (user.id === 'billing' ? { ...user, id: 'successor' } : user));
  t.match(await apply({ users }), {
    code: 0,
    stdout: /login billing@example.com -> deletion-pending\+billing/,
  });
  t.match(await shown('billing@example.com'), { id: 'successor', locked: false });
  t.match(await shown('billing'), { login: 'deletion-pending+billing', active_tokens: [id] });
  const back = await apply({});
  t.match(back, { code: 0, stdout: /login deletion-pending\+billing -> billing@example.com/ });
  await run(['token', 'revoke', id, '--config', configFile]);
});

t.test('keeps a customer and its legacy keys while one of its users awaits deletion', nightly, async (t) => {
  const { id } = (await create('other')).json;
  const keys = [...(base.legacy_keys ?? []), { customer_id: 'C2', key: 'key of two' }] as never;
  t.match(await apply({ legacy_keys: keys }), { code: 0 });
  const { legacy_keys: _, ...unmanaged } = base;
  const one = { ...unmanaged, customers: base.customers.slice(0, 1), ...withoutUser('other') };
  t.match(await apply(stringify(one)), { code: 0, stdout: /2 differences, applied/ });
  t.equal((await call('key of two')).status, 401, 'the keys of a removed customer are refused');
  t.match(await apply(stringify(one)), { code: 0, stdout: 'nothing to change\n' });
  t.match(await apply({ legacy_keys: keys }), { code: 0 });
  t.equal((await call('key of two')).status, 200, 'keys of a customer declared again are accepted');
  await run(['token', 'revoke', id, '--config', configFile]);
  t.match(await apply({ customers: one.customers, users: one.users }), {
    code: 0,
    stdout: /- customer C2: Two/,
  });
  await apply({});
});

t.test(
  'applies more users than fit in one write, with swapped logins; a second apply finds nothing',
  nightly,
  async (t) => {
    const many = Array.from({ length: 510 }, (_, i) => ({
      id: `many${i}`,
      customer_id: 'C2',
      login: `many${i}@example.com`,
      name: '',
      role: 'user',
    }));
    const keys = Array.from({ length: 510 }, (_, i) => ({ customer_id: 'C2', key: `many key ${i}` }));
    const whole = {
      users: [...base.users, ...many],
      legacy_keys: [...(base.legacy_keys ?? []), ...keys],
    } as never;
    t.match(await apply(whole), { code: 0, stdout: /511 differences, applied/ });
    t.match(await apply(whole), { code: 0, stdout: 'nothing to change\n' });
    const turned = many.map((user, i) => ({ ...user, login: `many${(i + 1) % many.length}@example.com` }));
    t.match(await apply({ ...(whole as object), users: [...base.users, ...turned] } as never), { code: 0 });
    t.match(await shown('many0@example.com'), { id: 'many509' });
    t.equal((await call('many key 509')).json.headers['x-auth-customer-id'], 'C2');
    t.match(await apply({}), { code: 0, stdout: /511 differences, applied/ });
  },
);

t.test('refuses logins that Latchkey reserves or that no store accepts as a key', async (t) => {
  for (const login of ['Global-API-Token+C9', 'deletion-pending+x', '\ufdfa'.repeat(60)]) {
    const users = [...base.users, { ...(base.users[0] as object), id: 'odd', login }] as never;
    t.match(await apply({ users }), { code: 1, stderr: /users\.7\.login: / }, login);
  }
});

t.test('refuses a password that no login can send', async (t) => {
  const users = [...base.users, { ...(base.users[0] as object), id: 'odd', login: 'odd@example.com', password_hash: null, password: 'x'.repeat(1_025) }] as never; // prettier-ignore
  t.match(await apply({ users }), { code: 1, stderr: /users\.7\.password: expected at most 1024 bytes/ });
});

t.test('a broken file changes nothing', async (t) => {
  for (const text of ['customers: [', 'customers: []\nuser: []', 'customers: [{ id: "!", name: x }]', '']) {
    const before = await run(['user', 'list', '--config', configFile, '--json']);
    const { code, stderr } = await apply(text === '' ? `${stringify(base)}users: []` : text);
    t.equal(code, 1, text);
    t.match(stderr, /^\S+other\.yaml:\d+:\d+: /, 'with line and column');
    t.same(await run(['user', 'list', '--config', configFile, '--json']), before);
  }
});

t.test('the help says what an interrupted run leaves', async (t) => {
  const { stdout } = await run(['apply', '--help']);
  t.match(stdout, /Up to 500 users or tokens change at once, or not at all; more\nchange in steps/);
});

t.test('refuses a file without any section, and removes everyone only on purpose', async (t) => {
  const removed = await startFixture(t);
  const applied = await run(['user', 'list', '--config', removed.configFile, '--json']);
  for (const text of ['', '# all moved\n', '{}', '~', '---\n']) {
    writeFileSync(join(removed.folder, 'directory.yaml'), text);
    const fault = /directory\.yaml:\d+:\d+: the file declares nothing, .*write "customers: \[\]"/;
    const name = JSON.stringify(text);
    for (const command of text === '' ? ['check', 'apply', 'serve'] : ['check', 'apply'])
      t.match(
        await run([command, '--config', removed.configFile]),
        { code: 1, stderr: fault },
        `${command} ${name}`,
      );
    const reloaded = await send(removed.server.admin, '/-/reload', { method: 'POST' });
    t.equal(reloaded.status, 422, `reload ${name}`);
    t.match(reloaded.json.faults[0], fault);
    t.same(await run(['user', 'list', '--config', removed.configFile, '--json']), applied);
  }
  // It would apply the changed file itself.
  await removed.server.stop();
  writeFileSync(join(removed.folder, 'directory.yaml'), 'customers: []\n');
  t.match(await run(['apply', '--config', removed.configFile]), { code: 0, stdout: /^- user superuser: /m });
});

t.test('legacy keys of any form, plain or as a digest, are added, removed and stay revoked', async (t) => {
  const odd = ['with space', 'ünïcödé-❤', '"quoted"\\', 'x', 'a'.repeat(1024), 'lk-not-a-token'];
  const hashed = 'only-its-digest';
  const key_sha256 = createHash('sha256').update(hashed).digest('hex').toUpperCase();
  const keys = [
    ...odd.map((key) => ({ customer_id: 'C1', key })),
    { customer_id: 'C2', key_sha256 },
  ] as never;
  t.match(await apply({ legacy_keys: keys }), {
    code: 0,
    stdout:
      '+ legacy keys of customer C1: 6 keys\n+ legacy keys of customer C2: 1 key\n- legacy keys of customer C1: 1 key\n3 differences, applied\n',
  });
  for (const key of [...odd, hashed]) {
    const reply = await call(Buffer.from(key, 'utf8').toString('latin1'));
    t.equal(reply.status, 200, key.slice(0, 20));
    t.equal(reply.json.headers['x-auth-credential'], 'legacy_key');
  }
  t.equal((await call(LEGACY_KEY)).status, 401, 'a key that is no longer listed is refused');
  t.equal((await call(key_sha256)).status, 401, 'the digest is not a key');
  const self = await send(url, '/tokens/self', { headers: { 'Service-Key': 'x' } });
  t.match(self.json, { name: 'Global API Token', scope: 'global', services: [], expires_at: null });

  t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': 'x' } })).status, 204); // prettier-ignore
  t.equal((await call('x')).status, 401, 'revoked like any token');
  t.match(await apply({ legacy_keys: keys }), { stdout: 'nothing to change\n' }, 'it does not come back');
  t.equal((await call('x')).status, 401);

  const { legacy_keys: _, ...unmanaged } = base;
  t.match(
    await apply(stringify(unmanaged)),
    { stdout: 'nothing to change\n' },
    'without the section, keys are kept',
  );
  t.equal((await call('with space')).status, 200);
  const moved = [{ customer_id: 'C2', key: 'with space' }] as never;
  t.match(await apply({ legacy_keys: moved }), { code: 0 });
  t.equal((await call('with space')).json.headers['x-auth-customer-id'], 'C2', 'a key moves to another customer'); // prettier-ignore
  const suspend = { headers: { Cookie: await login('other') }, method: 'PATCH', json: { suspended: true } };
  const { id } = (await send(url, '/tokens/self', { headers: { 'Service-Key': 'with space' } })).json;
  t.equal((await send(url, `/tokens/${id}`, suspend)).status, 200);
  t.match(await apply({ legacy_keys: [{ customer_id: 'C1', key: 'with space' }] as never }), { code: 0 });
  t.equal((await call('with space')).status, 401, 'a suspended key stays suspended when it moves');
  t.match(await apply({ legacy_keys: moved }), { code: 0 });
  t.match(
    await apply({
      customers: base.customers.slice(0, 1),
      ...withoutUser('other'),
      legacy_keys: moved,
    }),
    { code: 1, stderr: /legacy_keys\.0\.customer_id: no customer has this id/ },
  );
  t.match(await apply({}), { code: 0 });
  t.equal((await call(LEGACY_KEY)).status, 200, 'a key that is listed again is accepted');
});

t.test('imports thousands of keys', nightly, async (t) => {
  const big = temporaryFolder(t);
  const keys = Array.from({ length: 3_000 }, () => randomBytes(16).toString('hex'));
  const lines = keys.map((key, i) =>
    i % 2 === 0
      ? `  - { customer_id: C1, key: "${key}" }`
      : `  - { customer_id: C1, key_sha256: "${createHash('sha256').update(key).digest('hex')}" }`,
  );
  writeFileSync(
    join(big, 'directory.yaml'),
    `customers: [{ id: C1, name: One }]\nlegacy_keys:\n${lines.join('\n')}\n`,
    { mode: 0o600 },
  );
  const config = writeConfig(big, {
    upstream: 'http://127.0.0.1:1',
    directory: { file: './directory.yaml' },
  });
  const { code, stdout, stderr } = await run(['apply', '--config', config]);
  t.same({ code, stderr }, { code: 0, stderr: '' }, 'no progress output in a pipe');
  t.match(stdout, /3000 keys/);
  for (const key of [keys[0], keys[2_999]]) {
    const { stdout } = await run(['explain', '--config', config, '--method', 'GET', '--path', '/x', '--key', key as string]); // prettier-ignore
    t.match(stdout, /legacy_key .* forwarded/s);
  }
});

t.test('locks a removed user who has active tokens at start-up', async (t) => {
  await client(url).create('billing');
  writeFileSync(join(folder, 'directory.yaml'), stringify({ ...base, ...withoutUser('billing') }), {
    mode: 0o600,
  });
  const second = await start(t, configFile);
  await matchLog(t, second, /"users":\["billing"\],"msg":"users removed from the directory locked/);
  t.match((await send(second.admin, '/metrics')).text, /^latchkey_users_pending_deletion 1$/m);
  t.match(await shown('billing'), { deletion_pending: true });
});
