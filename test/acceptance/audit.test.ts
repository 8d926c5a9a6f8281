import { chownSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeClock } from '../helpers/clock.js';
import { LEGACY_KEY, otpAt, PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { run, temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

interface Entry {
  readonly event: string;
  readonly outcome: string;
  readonly [field: string]: unknown;
}

const entriesOf = (file: string) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Entry);

const form = (user: string, password: string) =>
  new URLSearchParams({ user: `${user}@example.com`, password });

t.test('records each event once, with actor, target, address and rule', async (t) => {
  const clock = makeClock(temporaryFolder(t));
  const { url, server, folder, configFile, create, login } = await startFixture(t, {
    audit: { to: './audit.jsonl' },
    login: { max_failures: 3 },
  }, { env: clock.env });
  const file = join(folder, 'audit.jsonl');
  let seen = entriesOf(file).length;
  /** The entries added by a piece of work. */
  const added = async (work: () => Promise<unknown>) => {
    await work();
    const entries = entriesOf(file).slice(seen);
    seen += entries.length;
    return entries;
  };
  t.match(entriesOf(file)[0], {
    event: 'directory.applied',
    target: { added: 12, updated: 0, removed: 0 },
    actor: { file: join(folder, 'directory.yaml') },
  });
  t.match(entriesOf(file).at(-1), { event: 'server.started', outcome: 'success' });
  t.equal(statSync(file).mode & 0o777, 0o600);

  const target = { user_id: 'superuser', customer_id: 'C1' };
  const request = { address: '127.0.0.1', address_from: 'socket', method: 'POST', request_id: /^\S{10,}$/ };
  let cookie = '';
  t.match(await added(async () => (cookie = await login('superuser'))), [
    { event: 'login.succeeded', outcome: 'success', actor: null, target, ...request, route: '/login' },
    { event: 'session.started', outcome: 'success', target: { ...target, session_id: String } },
  ]);
  const made = (await create('superuser', { scope: 'purge_all', 'services[]': 'SVC1' })).json;
  t.match(await added(async () => undefined), [
    { event: 'login.succeeded', target, route: '/tokens' },
    { event: 'token.created', target: { ...target, token_id: made.id, scopes: ['purge_all'], services: ['SVC1'], expires_at: null } },
  ]);
  const headers = { 'Service-Key': made.access_token as string };
  t.match(await added(() => send(url, '/secret?key=1', { headers })), [
    {
      event: 'access.denied',
      outcome: 'denied',
      reason: 'scope',
      actor: { user_id: 'superuser', credential: 'token', token_id: made.id },
      method: 'GET',
      action: 'api:read',
      policy: /^[0-9a-f]{12}$/,
    },
  ]);
  t.match(await added(() => send(url, `/tokens/${made.id}`, { method: 'DELETE', headers: { Cookie: cookie } })), [
    { event: 'token.revoked', target: { token_id: made.id }, actor: { credential: 'session', session_id: String } },
  ]);
  t.match(await added(() => send(url, '/login', { body: form('superuser', PASSWORD), headers: { Cookie: cookie } })), [
    { event: 'login.succeeded' },
    { event: 'session.started' },
    { event: 'session.ended', reason: 'new_login', target },
  ]);
  const other = await login('billing');
  await added(async () => undefined);
  t.match(await added(() => send(url, '/logout', { method: 'POST', headers: { Cookie: other } })), [
    { event: 'session.ended', reason: 'logout', target: { user_id: 'billing' } },
  ]);

  const code = otpAt(Date.now());
  const withCode = (otp?: string) =>
    send(url, '/login', { body: form('twofactor', PASSWORD), headers: otp === undefined ? {} : { 'Service-OTP': otp } });
  t.match(await added(() => withCode()), [{ event: 'otp.refused', reason: 'missing', target: { user_id: 'twofactor' } }]);
  t.match(await added(() => withCode(code)), [{ event: 'login.succeeded' }, { event: 'otp.accepted' }, { event: 'session.started' }]);
  t.match(await added(() => withCode(code)), [{ event: 'otp.refused', reason: 'used' }]);
  t.match(await added(() => withCode('000000')), [{ event: 'otp.refused', reason: 'wrong' }]);
  t.match(await added(() => send(url, '/login', { body: form('locked', PASSWORD) })), [{ event: 'login.failed', reason: 'locked' }]);
  t.match(await added(() => send(url, '/login', { body: form('nobody', 'x') })), [
    { event: 'login.failed', reason: 'unknown_login', target: { user_id: null } },
  ]);
  const wrong = () => send(url, '/login', { body: form('engineer', 'wrong password') });
  t.match(await added(wrong), [{ event: 'login.failed', reason: 'wrong_password', target: { user_id: 'engineer' } }]);
  // The wait after the third failure is a second, which a busy machine may take for one login.
  clock.stop();
  await wrong();
  await wrong();
  await added(async () => undefined);
  t.match(entriesOf(file).at(-1), { event: 'login.locked_out', target: { user_id: 'engineer' }, retry_after: Number });
  t.match(await added(wrong), [{ event: 'login.throttled', outcome: 'denied', retry_after: Number }]);
  clock.set('+0s');

  t.match(await added(() => send(server.admin, '/-/reload', { method: 'POST' })), [
    { event: 'config.reloaded', reason: 'POST /-/reload', actor: { file: configFile } },
  ]);
  const operator = { operator: String, uid: process.getuid?.() };
  const cli = (...args: string[]) => run([...args, '--config', configFile]);
  t.match(await added(() => cli('user', 'lock', 'billing@example.com')), [
    { event: 'user.changed', reason: 'locked', actor: operator, target: { user_id: 'billing' } },
  ]);
  const [madeByOperator] = await added(() => cli('token', 'create', '--user', 'superuser@example.com'));
  t.match(madeByOperator, { event: 'token.created', actor: operator });
  const { token_id } = (madeByOperator as Entry)['target'] as { token_id: string };
  t.match(await added(() => cli('token', 'revoke', token_id)), [{ event: 'token.revoked', target: { token_id } }]);
  t.match(await added(() => cli('session', 'revoke', '--user', 'superuser@example.com')), [
    { event: 'session.ended', reason: 'operator' },
  ]);
  await server.stop();
  t.match(entriesOf(file).at(-1), { event: 'server.stopped' });
  for (const entry of entriesOf(file)) {
    t.match(entry, { time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, node: String, pid: Number, outcome: /^(success|failure|denied)$/ });
  }
  t.notMatch(readFileSync(file, 'utf8'), new RegExp(`${LEGACY_KEY}|nobody@|wrong password|/secret\\?`), 'nothing that was typed');
}); // prettier-ignore

t.test(
  'writes entries to standard output without a file, and lets two workers share a file',
  nightly,
  async (t) => {
    const plain = await startFixture(t);
    await plain.login('superuser');
    const line = /"event":"login.succeeded".*"msg":"audit"/;
    await until(() => line.test(plain.server.stdout()), 'entry on standard output');
    const none = await startFixture(t, { audit: { to: null } });
    await none.login('superuser');
    t.notMatch(none.server.stdout(), 'login.succeeded');
    const shared = await startFixture(t, { workers: 2, audit: { to: './audit.jsonl' } });
    await Promise.all(Array.from({ length: 20 }, () => shared.create('superuser')));
    const entries = entriesOf(join(shared.folder, 'audit.jsonl'));
    t.equal(entries.filter(({ event }) => event === 'token.created').length, 20);
    t.equal(new Set(entries.map(({ pid }) => pid)).size > 2, true, 'written by both workers and the primary');
  },
);

t.test('every process opens a new file when it was moved away', async (t) => {
  const { folder, login } = await startFixture(t, { workers: 2, audit: { to: './audit.jsonl' } });
  const file = join(folder, 'audit.jsonl');
  renameSync(file, `${file}.1`);
  const before = entriesOf(`${file}.1`).length;
  for (let i = 0; i < 4; i++) await login('billing');
  t.equal(entriesOf(file).filter(({ event }) => event === 'session.started').length, 4);
  t.equal(entriesOf(`${file}.1`).length, before);
}); // prettier-ignore

t.test('required: changes nothing while the entry cannot be written', async (t) => {
  const { server, url, folder, create, login, token, upstream } = await startFixture(t, {
    audit: { to: './audit.jsonl', required: true },
  });
  const key = { 'Service-Key': await token('superuser') };
  const session = { Cookie: await login('superuser') };
  const before = (await send(url, '/tokens', { headers: session })).json.length;
  // A link is never written through, so entries fail as on a full disk.
  const file = join(folder, 'audit.jsonl');
  renameSync(file, `${file}.1`);
  const { symlinkSync, unlinkSync } = await import('node:fs');
  symlinkSync('/dev/full', file);
  await send(server.admin, '/-/reload', { method: 'POST' });
  const refused = { status: 503, headers: { 'retry-after': '1' }, json: { detail: /audit log/ } };
  t.match(await create('superuser'), refused);
  t.match(await send(url, '/tokens/self', { method: 'DELETE', headers: key }), refused);
  t.match(await send(url, '/logout', { method: 'POST', headers: session }), refused);
  t.equal((await send(url, '/x', { headers: key })).status, 200, 'requests are still served');
  t.equal((await send(url, '/tokens', { headers: session })).json.length, before, 'nothing was created');
  t.match((await send(server.admin, '/metrics')).text, /^latchkey_audit_failures_total [1-9]/m);
  unlinkSync(file);
  await send(server.admin, '/-/reload', { method: 'POST' });
  await until(async () => (await create('superuser')).status === 200, 'recovers without a restart');
  t.ok(upstream.received.length > 0);
});

t.test('required: a command says in one line what it did without an entry', async (t) => {
  const { configFile, folder, token } = await startFixture(t, {
    audit: { to: './audit.jsonl', required: true },
  });
  await token('superuser');
  const full = join(folder, 'full.yaml');
  writeFileSync(full, readFileSync(configFile, 'utf8').replace('./audit.jsonl', '/dev/full'));
  const superuser = 'superuser@example.com';
  const tokens = async () => {
    const { stdout } = await run(['token', 'list', '--user', superuser, '--json', '--config', configFile]);
    return (JSON.parse(stdout) as { id: string }[]).map(({ id }) => id);
  };
  const [first = ''] = await tokens();
  const lost =
    'token (\\w{22}) was created, but its secret is lost; revoke it with "latchkey token revoke \\1"';
  for (const [args, done] of [
    [['token', 'create', '--user', superuser], lost],
    [['token', 'rotate', first], lost],
    [['user', 'lock', superuser, '--json'], 'the change was made, but the audit log lacks it'],
  ] as const) {
    const { code, stdout, stderr } = await run([...args, '--config', full]);
    t.same([code, stdout], [1, '']);
    t.match(stderr, new RegExp(`^latchkey: the audit log cannot be written: ENOSPC.*; ${done}\n$`));
    const [, id] = /token (\w{22})/.exec(stderr) ?? [];
    if (id !== undefined) t.ok((await tokens()).includes(id));
  }
});

t.test('required without a file, and a file that cannot be opened, are errors', async (t) => {
  const { configFile, folder } = await startFixture(t, { audit: { to: null } });
  const text = readFileSync(configFile, 'utf8').replace('to: null', 'to: stdout\n  required: true');
  const broken = join(folder, 'broken.yaml');
  writeFileSync(broken, text);
  t.match(await run(['check', '--config', broken]), { code: 1, stderr: /audit.required needs a file/ });
  writeFileSync(broken, text.replace('to: stdout', 'to: ./no/such/folder/audit.jsonl'));
  const reply = await run(['user', 'lock', 'billing@example.com', '--config', broken]);
  t.match(reply, { code: 1, stderr: /audit\.to: the folder of this file does not exist/ });
});

t.test(
  'a file that a command of root creates belongs to the owner of its folder',
  { skip: process.getuid?.() !== 0 && 'only root can own files of others' },
  async (t) => {
    const { configFile, folder } = await startFixture(t, { audit: { to: './audit.jsonl' } });
    rmSync(join(folder, 'audit.jsonl'));
    chownSync(folder, 65_534, 65_534);
    t.equal((await run(['user', 'lock', 'user@example.com', '--config', configFile])).code, 0);
    const { uid, gid, mode } = statSync(join(folder, 'audit.jsonl'));
    t.same([uid, gid, mode & 0o777], [65_534, 65_534, 0o600]);
  },
);

t.test('a server that cannot record its stop still drains and exits with 0', async (t) => {
  const { server, folder } = await startFixture(t, { audit: { to: './audit.jsonl', required: true } });
  rmSync(join(folder, 'audit.jsonl'));
  symlinkSync('/dev/full', join(folder, 'audit.jsonl'));
  const { status, text } = await send(server.admin, '/-/reload', { method: 'POST' });
  t.equal(status, 200, text);
  t.match(await server.stop(), { code: 0 });
  t.match(server.stdout(), '"msg":"stopped"');
  t.match(server.stdout(), '"msg":"audit log not written"');
});
