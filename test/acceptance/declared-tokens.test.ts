import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { type directory, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run, start } from '../helpers/latchkey.js';
import { rememberSecret } from '../helpers/secrets.js';
import { until } from '../helpers/until.js';

interface Entry {
  id: string;
  user_id: string;
  name: string;
  secret_sha256: string;
  scope: string[];
  services?: string[];
  expires_at?: string;
  rate?: string;
  addresses?: string[];
  suspended?: boolean;
}

const { url, folder, configFile, create, login, server } = await startFixture(t, {
  audit: { to: './audit.jsonl' },
  tokens: { max_lifetime: '10d' },
});
const base = parse(readFileSync(join(folder, 'directory.yaml'), 'utf8')) as Awaited<
  ReturnType<typeof directory>
>;
const file = join(folder, 'other.yaml');

function apply(tokens: readonly Entry[], ...args: string[]) {
  writeFileSync(file, stringify({ ...base, tokens }, { aliasDuplicateObjects: false }), { mode: 0o600 });
  return run(['apply', '--config', configFile, '-f', file, ...args]);
}

async function generate(...args: string[]): Promise<{ secret: string; entry: Entry }> {
  const { stdout } = await run(['token', 'generate', '--user', 'engineer', '--json', ...args]);
  const { access_token: secret, entry } = JSON.parse(stdout) as { access_token: string; entry: Entry };
  rememberSecret(secret);
  return { secret, entry };
}

const call = (key: string, path = '/service/SVC1') => send(url, path, { headers: { 'Service-Key': key } });
const status = async (key: string) => (await call(key)).status;
const inDays = (days: number) => `${new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 19)}Z`;
const audited = (event: string, id: string) =>
  readFileSync(join(folder, 'audit.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { event: string; reason?: string; target?: { token_id?: string } })
    .filter((entry) => entry.event === event && entry.target?.token_id === id);

t.test('token generate prints the secret once, and an entry that declares its digest', async (t) => {
  const limits = [
    '--name',
    'ci job',
    '--scope',
    'purge_all purge_select',
    '--services',
    'SVC1,SVC2',
    '--rate',
    '600/1m',
    '--address',
    '10.0.0.0/8',
    '--address',
    '::1',
  ];
  const { code, stdout, stderr } = await run(['token', 'generate', '--user', 'engineer', ...limits, '--expires-at', '2030-01-31T12:00:00Z']); // prettier-ignore
  const [secret = '', empty, ...yaml] = stdout.split('\n');
  rememberSecret(secret);
  t.equal(code, 0);
  t.match(secret, /^lk[A-Za-z0-9]{38}$/);
  t.equal(empty, '');
  t.match(stderr, /shown only once/);
  t.notMatch(stderr, secret);
  const [entry] = (parse(yaml.join('\n')) as { tokens: Entry[] }).tokens;
  t.strictSame(entry, {
    id: entry?.id,
    user_id: 'engineer',
    name: 'ci job',
    secret_sha256: createHash('sha256').update(secret).digest('hex'),
    scope: ['purge_all', 'purge_select'],
    services: ['SVC1', 'SVC2'],
    expires_at: '2030-01-31T12:00:00Z',
    rate: '600/1m',
    addresses: ['10.0.0.0/8', '::1'],
  });
  for (const [args, said] of [
    [['--user', 'a b'], /--user: expected an id/],
    [['--user', 'U', '--scope', ' '], /--scope: expected at least one scope/],
    [['--user', 'U', '--services', ','], /--services .* is invalid\. Pass at least one/],
    [['--user', 'U', '--expires-at', 'soon'], /--expires-at: expected a time like/],
    [['--user', 'U', '--rate', '600'], /--rate: expected a rate like/],
    [['--user', 'U', '--address', '10.1.2.3/8'], /--address: expected an address or a range/],
    [['--user', 'U', '--name', 'a\u0007b'], /--name: expected 1 to 255 characters/],
    [['--user', 'U', '--name', ''], /--name: expected 1 to 255 characters/],
    [[], /--user/],
  ] as const)
    t.match(await run(['token', 'generate', ...args]), { code: 2, stdout: '', stderr: said });
});

t.test('a declared token works as declared and follows changes of its entry', async (t) => {
  const { secret, entry } = await generate('--name', 'ci', '--services', 'SVC1');
  const added = new RegExp(`^\\+ token ${entry.id}: "ci", of user engineer, scope global, services SVC1, expires \\S+\n1 diff`);
  t.match(await apply([entry], '--dry-run'), { code: 0, stdout: added });
  t.equal(await status(secret), 401, 'a dry run declares nothing');
  t.match(await apply([entry]), { code: 0, stdout: added, stderr: '' });
  t.match(await apply([entry]), { code: 0, stdout: 'nothing to change\n' });
  const reply = await call(secret);
  t.equal(reply.status, 200);
  t.match(reply.json.headers, { 'x-auth-user-id': 'engineer', 'x-auth-credential': 'token', 'x-auth-services': 'SVC1' });
  t.equal((await call(secret, '/service/SVC2')).status, 403, 'limited to its service');
  const self = (await call(secret, '/tokens/self')).json;
  const lifetime = Date.parse(self.expires_at) - Date.parse(self.created_at);
  t.equal(lifetime, 10 * 86_400_000, 'without an expiry, it gets the longest allowed lifetime');
  t.strictSame(Object.keys(self).toSorted(), Object.keys((await call((await create('engineer')).json.access_token, '/tokens/self')).json).toSorted(), 'shown like any other token');
  t.equal(audited('token.created', entry.id).length, 1);

  const changed = { ...entry, name: 'CI', scope: ['purge_all'], services: ['SVC2'], expires_at: inDays(3) };
  t.match(await apply([changed]), { code: 0, stdout: /^~ token \S+: name "ci" -> "CI", scope global -> scope purge_all, services SVC1 -> services SVC2, expires \S+ -> expires \S+\n/ });
  t.equal(await status(secret), 403, 'from the next request');
  t.match((await call(secret, '/tokens/self')).json, { created_at: self.created_at, name: 'CI', services: ['SVC2'], ip: '127.0.0.1' });
  t.match(await apply([{ ...changed, expires_at: inDays(11) }]), { code: 1, stderr: /tokens\.0\.expires_at: is more than 864000 seconds away/ });
  t.match(await apply([{ ...changed, scope: ['purge'] }]), { code: 1, stderr: /tokens\.0\.scope\.0: no scope has this name \(did you mean "purge_select"\?\)/ });

  const other = await generate();
  const swapped = { ...changed, secret_sha256: other.entry.secret_sha256 };
  t.match(await apply([swapped]), { code: 0, stdout: /^~ token \S+: secret\n/ });
  t.equal(await status(secret), 401, 'the previous secret is revoked');
  t.equal((await call(other.secret, '/tokens/self')).status, 200);
  const back = await apply([changed]);
  t.match(back, { code: 0, stdout: /^- token \S+: "CI"\n/, stderr: new RegExp(`the token ${entry.id} was revoked and stays revoked`) });
  t.equal(await status(secret), 401);
  t.equal(await status(other.secret), 401, 'a token missing from the file is revoked');
}); // prettier-ignore

t.test('limits of a declared token can only be changed in its entry', async (t) => {
  const { secret, entry } = await generate();
  const limited = { ...entry, rate: '50/1m', addresses: ['10.0.0.0/8'] };
  t.match(await apply([limited]), { code: 0, stdout: /^\+ token .*, rate 50\/1m, addresses 10\.0\.0\.0\/8\n/ });
  t.match(await call(secret), { status: 403, json: { detail: /not accepted from the address 127\.0\.0\.1/ } });
  t.match(await apply([limited]), { code: 0, stdout: 'nothing to change\n' });
  const headers = { Cookie: await login('superuser') };
  const changed = await send(url, `/tokens/${entry.id}`, { method: 'PATCH', headers, json: { addresses: null } });
  t.match(changed, { status: 422, json: { detail: /declared in the directory file/ } });
  t.match(await run(['token', 'suspend', entry.id, '--config', configFile]), { code: 1, stderr: /declared in the directory file/ });
  t.equal(await status(secret), 403, 'unchanged');
  t.match(await apply([{ ...limited, suspended: true }]), { code: 0, stdout: /^~ token \S+: none -> suspended\n/ });
  t.same((await call(secret)).json, { msg: 'Provided credentials are missing or invalid' });
  t.match((await send(url, `/tokens/${entry.id}`, { headers })).json, { suspended: true, rate: '50/1m' });
  t.match(await run(['token', 'resume', entry.id, '--config', configFile]), { code: 1, stderr: /declared in the directory file/ });
  t.match(await apply([limited]), { code: 0, stdout: /^~ token \S+: suspended -> none\n/ });
  t.equal(await status(secret), 403, 'resumed, with its address limit');
  const born = (await generate()).entry;
  t.match(await apply([limited, { ...born, suspended: true }]), { code: 0, stdout: /^\+ token .*, suspended\n/ });
  t.match(await apply([limited]), { code: 0 });
  t.match(await apply([{ ...entry, rate: '50/1m' }]), { code: 0, stdout: /^~ token \S+: addresses 10\.0\.0\.0\/8 -> none\n/ });
  t.match((await call(secret, '/tokens/self')).json, { rate: '50/1m', addresses: undefined });
  t.match(await apply([{ ...entry, rate: 'fast', addresses: [] }]), { code: 1, stderr: /tokens\.0\.rate: expected a rate[^]*tokens\.0\.addresses: expected an address/ });
  t.match(await apply([]), { code: 0 });
}); // prettier-ignore

t.test('a revoked token never becomes valid again, however it was revoked', async (t) => {
  const [byHolder, byCommand, bySession, byFile] = await Promise.all([generate(), generate(), generate(), generate()]);
  const all = [byHolder, byCommand, bySession, byFile];
  const entries = all.map(({ entry }) => entry);
  t.match(await apply(entries), { code: 0, stdout: /4 differences, applied/ });
  for (const { secret } of all) t.equal(await status(secret), 200);

  t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': byHolder.secret } })).status, 204);
  t.match(await run(['token', 'revoke', byCommand.entry.id, '--config', configFile]), { code: 0 });
  const headers = { Cookie: await login('superuser') };
  t.equal((await send(url, `/tokens/${bySession.entry.id}`, { method: 'DELETE', headers })).status, 204);
  t.match(await apply(entries.slice(0, 3)), { code: 0, stdout: /^- token \S+: ""\n1 difference, applied/ });
  t.match(audited('token.revoked', byFile.entry.id), [{ reason: 'not_in_directory' }]);

  const again = await apply(entries);
  t.match(again, { code: 0, stdout: 'nothing to change\n' });
  for (const { entry } of all) t.match(again.stderr, `the token ${entry.id} was revoked and stays revoked`);
  const fresh = await generate();
  const renewed = entries.map((entry) => ({ ...entry, secret_sha256: fresh.entry.secret_sha256 }));
  for (const each of renewed) t.match(await apply([each]), { code: 0, stdout: 'nothing to change\n' }, 'not with another secret');
  const renamed = entries.map((entry, i) => ({ ...entry, id: `other${i}` }));
  t.match(await apply(renamed), { code: 0, stdout: 'nothing to change\n' }, 'not under another id');
  for (const { secret } of [...all, fresh]) t.equal(await status(secret), 401);

  const backup = join(folder, 'tokens.backup');
  t.match(await run(['store', 'backup', backup, '--config', configFile]), { code: 0 });
  t.match(readFileSync(backup, 'utf8'), `"revoked","value":"id:${byHolder.entry.id}"`, 'a backup includes the revocation');
}); // prettier-ignore

t.test('applies all tokens or none', async (t) => {
  const { secret, entry } = await generate();
  const plain = (await create('engineer')).json;
  const faulty: Entry[][] = [
    [entry, { ...entry, id: 'second' }],
    [entry, { ...(await generate()).entry, user_id: 'nobody' }],
    [entry, { ...(await generate()).entry, id: plain.id as string }],
    [entry, { ...(await generate()).entry, secret_sha256: createHash('sha256').update(plain.access_token as string).digest('hex') }],
  ];
  for (const tokens of faulty) {
    t.match(await apply(tokens), { code: 1, stdout: '', stderr: /given twice|no user has this id|belongs to another token/ });
    t.equal(await status(secret), 401, 'nothing is applied');
  }
  t.equal(await status(plain.access_token as string), 200);
}); // prettier-ignore

t.test('deletes a user together with its declared tokens', async (t) => {
  const { secret, entry } = await generate();
  const users = [...base.users, { ...(base.users[0] as object), id: 'service', login: 'service@example.com' }];
  const declared = { ...base, users, tokens: [{ ...entry, user_id: 'service' }] };
  const applied = async (content: object) => {
    writeFileSync(file, stringify(content), { mode: 0o600 });
    return run(['apply', '--config', configFile, '-f', file]);
  };
  t.match(await applied(declared), { code: 0 });
  t.equal(await status(secret), 200);
  t.match(await applied(base), { code: 0, stdout: /^- token \S+: ""\n- user service: service@example.com\n2 differences/ });
  t.equal(await status(secret), 401);
  t.match(await run(['user', 'show', 'service', '--config', configFile]), { code: 1 });
}); // prettier-ignore

t.test('a server applies declared tokens at start-up and on reload, and reports revoked ones', async (t) => {
  const { secret, entry } = await generate('--name', 'deploy');
  const own = join(folder, 'directory.yaml');
  writeFileSync(own, stringify({ ...base, tokens: [entry] }), { mode: 0o600 });
  await until(async () => (await status(secret)) === 200, 'the changed file is applied');
  t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': secret } })).status, 204);
  t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
  const warned = new RegExp(`"token_ids":\\["${entry.id}"\\],"msg":"declared tokens already revoked; not applied"`);
  await until(() => warned.test(server.stdout()), 'the warning');
  t.equal(await status(secret), 401);
  await server.stop();
  const second = await start(t, configFile);
  t.equal((await send(second.url, '/service/SVC1', { headers: { 'Service-Key': secret } })).status, 401);
}); // prettier-ignore
