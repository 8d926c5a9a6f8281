import { createHash, randomBytes } from 'node:crypto';
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { client, type directory, LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';

type Declared = Awaited<ReturnType<typeof directory>>;

const { url, folder, configFile, create, login } = await startFixture(t);
const base = parse(readFileSync(join(folder, 'directory.yaml'), 'utf8')) as Declared;
const file = join(folder, 'other.yaml');

/** Applies the fixture's directory with some parts replaced. */
function apply(parts: Partial<Declared> | string, ...args: string[]) {
  writeFileSync(file, typeof parts === 'string' ? parts : stringify({ ...base, ...parts }), { mode: 0o600 });
  return run(['apply', '--config', configFile, '-f', file, ...args]);
}

const withoutUser = (id: string) => ({ users: base.users.filter((user) => user.id !== id) });
const call = (key: string) => send(url, '/service/SVC1', { headers: { 'Service-Key': key } });

t.test(
  'a dry run shows the differences and changes nothing; applying twice changes nothing more',
  async (t) => {
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
  },
);

t.test('a user with active tokens stays, and so does everything else', async (t) => {
  const first = (await create('engineer')).json;
  const second = (await create('engineer')).json;
  const third = (await create('billing')).json;
  const users = base.users
    .filter((user) => user.id !== 'engineer' && user.id !== 'billing')
    .map((user) => ({ ...user, name: `${user.name}!` }));
  const refused = await apply({ users });
  t.equal(refused.code, 1);
  t.equal(refused.stdout, '');
  t.equal(refused.stderr.trim().split('\n').length, 1, 'one line');
  for (const { id } of [first, second, third]) t.match(refused.stderr, id);
  for (const user of ['engineer', 'billing']) t.match(refused.stderr, `${user} still has active tokens`);
  t.match(refused.stderr, /nothing was changed$/m);
  const shown = await run(['user', 'show', 'user', '--config', configFile, '--json']);
  t.equal(JSON.parse(shown.stdout).name, 'user', 'the rest of the file was not applied either');
  t.equal((await call(first.access_token)).status, 200);

  await run(['token', 'revoke', first.id, second.id, '--config', configFile]);
  const session = await login('engineer');
  t.match(await apply(withoutUser('engineer')), { code: 0, stdout: '- user engineer: engineer@example.com\n1 difference, applied\n' }); // prettier-ignore
  const gone = await send(url, '/service/SVC1', { headers: { Cookie: session } });
  t.equal(gone.status, 401, 'a removed user is gone at the next request');
  await apply({});
});

t.test('a broken file changes nothing', async (t) => {
  for (const text of ['customers: [', 'customers: []\nuser: []', 'customers: [{ id: "!", name: x }]', '']) {
    const before = await run(['user', 'list', '--config', configFile, '--json']);
    const { code, stderr } = await apply(text === '' ? `${stringify(base)}users: []` : text);
    t.equal(code, 1, text);
    t.match(stderr, /^\S+other\.yaml:\d+:\d+: /, 'with its place');
    t.same(await run(['user', 'list', '--config', configFile, '--json']), before);
  }
});

t.test('legacy keys: any form, plain or as a digest; they come, go and stay revoked', async (t) => {
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
  t.equal((await call(LEGACY_KEY)).status, 401, 'one that is not listed any more is gone');
  t.equal((await call(key_sha256)).status, 401, 'the digest is not the key');
  const self = await send(url, '/tokens/self', { headers: { 'Service-Key': 'x' } });
  t.match(self.json, { name: 'Global API Token', scope: 'global', services: [], expires_at: null });

  t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': 'x' } })).status, 204); // prettier-ignore
  t.equal((await call('x')).status, 401, 'revoked like any token');
  t.match(await apply({ legacy_keys: keys }), { stdout: 'nothing to change\n' }, 'and it does not come back');
  t.equal((await call('x')).status, 401);

  const { legacy_keys: _, ...unmanaged } = base;
  t.match(
    await apply(stringify(unmanaged)),
    { stdout: 'nothing to change\n' },
    'without the section they stay',
  );
  t.equal((await call('with space')).status, 200);
  const moved = [{ customer_id: 'C2', key: 'with space' }] as never;
  t.match(await apply({ legacy_keys: moved }), { code: 0 });
  t.equal((await call('with space')).json.headers['x-auth-customer-id'], 'C2', 'a key moves to another customer'); // prettier-ignore
  t.match(
    await apply({
      customers: base.customers.slice(0, 1),
      ...withoutUser('other'),
      legacy_keys: moved,
    }),
    { code: 1, stderr: /legacy_keys\.0\.customer_id: no customer is "C2"/ },
  );
  t.match(await apply({}), { code: 0 });
  t.equal((await call(LEGACY_KEY)).status, 200, 'one that is listed again is back');
});

t.test('30,000 keys are imported in a few seconds', async (t) => {
  const big = temporaryFolder(t);
  const keys = Array.from({ length: 30_000 }, () => randomBytes(16).toString('hex'));
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
  const startedAt = performance.now();
  const { code, stdout, stderr } = await run(['apply', '--config', config]);
  const seconds = (performance.now() - startedAt) / 1000;
  t.same({ code, stderr }, { code: 0, stderr: '' }, 'no progress is shown in a pipe');
  t.match(stdout, /30000 keys/);
  t.ok(seconds < 60, `${seconds.toFixed(1)} s`);
  for (const key of [keys[0], keys[29_999]]) {
    const { stdout } = await run(['explain', '--config', config, '--method', 'GET', '--path', '/x', '--key', key as string]); // prettier-ignore
    t.match(stdout, /legacy_key .* forwarded/s);
  }
});

t.test('on a terminal it shows what it is at', async (t) => {
  writeFileSync(file, stringify(base), { mode: 0o600 });
  const line = `${process.execPath} dist/cli.js apply --config ${configFile} -f ${file} --dry-run`;
  const child = spawn('script', ['-qec', line, '/dev/null'], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await new Promise((done) => child.once('close', done));
  t.match(output, /reading .*other\.yaml.*comparing with the store.*nothing to change/s);
});

t.test('a refused start names the tokens, and nothing is changed', async (t) => {
  const { id } = (await client(url).create('billing')).json;
  writeFileSync(join(folder, 'directory.yaml'), stringify({ ...base, ...withoutUser('billing') }), {
    mode: 0o600,
  });
  const { code, stderr } = await run(['serve', '--config', configFile]);
  t.equal(code, 1);
  t.match(stderr, new RegExp(`^latchkey: .*directory\\.yaml: the user billing still has active tokens .*${id}.*nothing was changed\\n$`)); // prettier-ignore
});
