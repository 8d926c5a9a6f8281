import { execFile } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { stringify } from 'yaml';
import { startUpstream } from '../helpers/http.js';
import { run, startCommand, temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';

const shell = promisify(execFile);

t.test('every printed command works as pasted, and a restart keeps the passwords', async (t) => {
  const data = join(temporaryFolder(t), 'a folder');
  const demo = await startCommand(t, ['demo', '--port', '0', '--data', data]);
  while (!demo.stdout().includes('Stop with Ctrl-C')) await new Promise((wait) => setTimeout(wait, 10));
  const lines = demo.stdout().split('\n').filter((line) => line.startsWith('curl ')); // prettier-ignore
  const answers: string[] = [];
  for (const line of lines) answers.push((await shell('bash', ['-c', line])).stdout);
  const [
    login = '',
    create = '',
    call = '',
    session = '',
    anonymous = '',
    list = '',
    revoke = '',
    after = '',
  ] = answers;
  t.equal(lines.length, 8);
  const [page = ''] = /http:\S+\/_latchkey\/$/m.exec(demo.stdout()) ?? [];
  t.match(await (await fetch(page)).text(), '<title>Latchkey</title>');
  t.equal((JSON.parse(login) as { user: { role: string } }).user.role, 'superuser');
  t.equal(create, '', 'the secret is written to a file');
  const seen = JSON.parse(call) as {
    method: string;
    path: string;
    headers: Record<string, string>;
    body: string;
  };
  t.match(seen, { method: 'GET', path: '/service/SVC1/version/1', body: '' });
  t.match(seen.headers, {
    'x-auth-role': 'superuser',
    'x-auth-credential': 'token',
    'x-auth-scope': 'global',
  });
  t.match((JSON.parse(session) as typeof seen).headers, { 'x-auth-credential': 'session' });
  t.match(anonymous, /^HTTP\/1\.1 401 /);
  t.match(JSON.parse(list), [{ name: 'demo', last_seen_at: /^20/ }]);
  t.match(revoke, /^HTTP\/1\.1 204 /);
  t.match(after, /^HTTP\/1\.1 401 /);
  const doctor = demo.stdout().split('\n').find((line) => line.includes(' doctor ')); // prettier-ignore
  t.match((await shell('bash', ['-c', doctor ?? 'false'])).stdout, / 0 serious, 0 warnings/);

  const file = join(data, 'directory.yaml');
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.equal(statSync(data).mode & 0o777, 0o700);
  const before = readFileSync(file, 'utf8');
  t.same(await demo.stop('SIGINT'), { code: 0, signal: null });
  const upstream = await startUpstream(t);
  const again = await startCommand(t, ['demo', '--port', '0', '--data', data, '--upstream', upstream.url]);
  while (!again.stdout().includes('Stop with Ctrl-C')) await new Promise((wait) => setTimeout(wait, 10));
  t.equal(readFileSync(file, 'utf8'), before);
  const port = new URL(again.url).port;
  const repeated = (lines[0] ?? '').replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${port}`);
  t.match((await shell('bash', ['-c', repeated])).stdout, /superuser/);

  const taken = await run(['demo', '--port', port, '--data', join(temporaryFolder(t), 'b')]);
  t.equal(taken.code, 1);
  t.equal(
    taken.stderr,
    `latchkey: port ${port} is already in use; choose another one with --port (demo) or listen.port (configuration); 0 picks a free one\n`,
  );
});

t.test('quotes values of an existing folder for the shell, the form and the terminal', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const data = join(folder, "it's $(touch ran) `touch ran`");
  mkdirSync(data, { mode: 0o700 });
  const here = join(folder, 'ran');
  const login = `o'"$(touch '${here}')\`touch ${here}\`;touch ${here}&user=a@example.com`;
  const password = `a'b"c\\ d&password=e+%41 $HOME $(touch ${here}) !! \u2028 \u001b[31m \u20ac`;
  const user = { id: 'U1', customer_id: 'C1', login, password, role: 'superuser', name: 'One' };
  const directory = { customers: [{ id: 'C1', name: 'One' }], users: [user] };
  writeFileSync(join(data, 'directory.yaml'), stringify(directory), { mode: 0o600 });
  const demo = await startCommand(t, ['demo', '--port', '0', '--data', data]);
  while (!demo.stdout().includes('Stop with Ctrl-C')) await new Promise((wait) => setTimeout(wait, 10));
  const lines = demo.stdout().split('\n').filter((line) => line.startsWith('curl '));
  t.equal(lines.length, 8);
  const answers: string[] = [];
  for (const line of lines) answers.push((await shell('bash', ['-c', line], { cwd: folder })).stdout);
  t.match(JSON.parse(answers[0] ?? ''), { user: { id: 'U1' } }, 'the login works');
  t.match(JSON.parse(answers[2] ?? ''), { headers: { 'x-auth-user-id': 'U1' } }, 'the token works');
  t.same(readdirSync(folder), [data.slice(folder.length + 1)], 'nothing was executed');
  for (const hidden of ['\u001b', '\u2028']) t.notOk(demo.stdout().includes(hidden));
}); // prettier-ignore

t.test('refuses a folder that others can access or that the demo cannot use', async (t) => {
  const folder = temporaryFolder(t);
  const refused = async (name: string, data: string, message: RegExp) => {
    const { code, stdout, stderr } = await run(['demo', '--port', '0', '--data', data]);
    t.equal(code, 1, name);
    t.match(stderr, message, name);
    t.match(stderr, /^latchkey: [^\n]* choose another folder with --data\n$/, name);
    t.equal(stdout, '', name);
  };
  const made = (name: string, mode: number) => {
    const data = join(folder, name);
    mkdirSync(data);
    chmodSync(data, mode);
    return data;
  };
  for (const mode of [0o755, 0o750, 0o770, 0o701, 0o702, 0o777])
    await refused(mode.toString(8), made(`m${mode.toString(8)}`, mode), new RegExp(`mode 0${mode.toString(8)}\\); chmod 700 it`));
  const withDirectory = (name: string, text: string, mode = 0o600) => {
    const data = made(name, 0o700);
    writeFileSync(join(data, 'directory.yaml'), text);
    chmodSync(join(data, 'directory.yaml'), mode);
    return data;
  };
  await refused('a directory file that others can read', withDirectory('open', 'customers: []\n', 0o644), /directory\.yaml \(mode 0644\); chmod 600 it/);
  await refused('no user with a password', withDirectory('empty', 'customers: []\n'), /has no user with a password/);
  const linked = made('linked', 0o700);
  symlinkSync('../open/directory.yaml', join(linked, 'directory.yaml'));
  await refused('a symbolic link', linked, /other users can use/);
  writeFileSync(join(folder, 'file'), '');
  await refused('a file', join(folder, 'file'), /cannot be created: file already exists \(EEXIST\); choose another folder/);
  if (process.getuid?.() === 0) {
    const foreign = made('foreign', 0o700);
    chownSync(foreign, 1, 1);
    await refused('a folder of another user', foreign, /belongs to another user/);
    const mixed = withDirectory('mixed', 'customers: []\n');
    chownSync(join(mixed, 'directory.yaml'), 1, 1);
    await refused('a file of another user', mixed, /directory\.yaml belongs to another user/);
  }
  const broken = await run(['demo', '--port', '0', '--data', withDirectory('broken', 'users: 5\n')]);
  t.match(broken, { code: 1, stderr: /directory\.yaml:1:8: users: expected/ });
}); // prettier-ignore
