import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Secret, TOTP } from 'otpauth';
import t from 'tap';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { INSTALLED, run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { programOf } from '../loader/program.mjs';

const { url, configFile, create, login, token } = await startFixture(t);
const latchkey = (...args: string[]) => run([...args, '--config', configFile]);
const json = async (...args: string[]) => JSON.parse((await latchkey(...args, '--json')).stdout);
const status = async (headers: Record<string, string>) =>
  (await send(url, '/service/SVC1', { headers })).status;
const tryLogin = (user: string, password: string, headers: Record<string, string> = {}) =>
  send(url, '/login', {
    body: new URLSearchParams({ user: `${user}@example.com`, password }),
    headers,
  });

t.test('users: list and show, as text and as JSON', async (t) => {
  const { stdout, stderr } = await latchkey('user', 'list');
  const [heading = '', ...rows] = stdout.trimEnd().split('\n');
  t.equal(stderr, '');
  t.match(heading, /^LOGIN +ID +NAME +ROLE +CUSTOMER +TWO FACTOR +STATE$/);
  t.equal(rows.length, 8, 'seven users and the owner of the legacy keys');
  const column = heading.indexOf('ROLE');
  t.ok(
    rows.every((row) => row[column - 1] === ' ' && row[column] !== ' '),
    'columns are aligned',
  );
  t.match(stdout, /locked@example.com .* locked$/m);
  t.match(await json('user', 'show', 'ENGINEER@example.com'), { id: 'engineer', role: 'engineer', locked: false, two_factor: false }); // prettier-ignore
  t.notMatch(JSON.stringify(await json('user', 'list')), /argon2id|otp_secret/, 'no hash, no secret');
  t.match(await latchkey('user', 'show', 'nobody'), { code: 1, stderr: /^latchkey: no user has the login or id nobody/ }); // prettier-ignore
});

t.test('lock takes effect at the next request, and so does unlock', async (t) => {
  const headers = { 'Service-Key': await token('engineer') };
  const cookie = { Cookie: await login('engineer') };
  t.match(await latchkey('user', 'lock', 'engineer@example.com'), {
    code: 0,
    stdout: 'engineer@example.com: done\n',
    stderr: '',
  });
  t.same([await status(headers), await status(cookie)], [401, 401]);
  t.match((await tryLogin('engineer', PASSWORD)).json, { code: 'account_locked' });
  t.match(await latchkey('apply'), { stdout: 'nothing to change\n' }, 'the directory file does not unlock');
  t.same([await status(headers), await status(cookie)], [401, 401]);
  t.match(await latchkey('user', 'unlock', 'engineer'), {
    code: 0,
    stderr: /directory\.yaml declares this user; change it there too/,
  });
  t.equal((await json('user', 'show', 'engineer')).locked, false);
  t.equal(await status(headers), 200);
  t.equal(await status(cookie), 401, 'its sessions have ended');
});

t.test('set-password ends sessions; refuses short passwords and a missing terminal', async (t) => {
  const cookie = { Cookie: await login('user') };
  const file = join(temporaryFolder(t), 'password');
  writeFileSync(file, 'a new and longer password\n');
  t.match(await latchkey('user', 'set-password', 'user', '--password-file', file), { code: 0 });
  t.equal(await status(cookie), 401);
  t.equal((await tryLogin('user', PASSWORD)).status, 401);
  t.equal((await tryLogin('user', 'a new and longer password')).status, 200);
  const short = await run(
    ['user', 'set-password', 'user', '--config', configFile, '--password-file', '-'],
    { input: 'short' },
  ); // prettier-ignore
  t.match(short, { code: 1, stderr: /shorter than 15/ });
  t.match(await latchkey('user', 'set-password', 'user'), { code: 1, stderr: /--password-file FILE/ });
  t.match(await latchkey('user', 'set-password', 'global-api-token+C1', '--password-file', file), {
    code: 1,
    stderr: /owns legacy keys and cannot log in/,
  });
});

t.test('refuses new passwords that no login can send', async (t) => {
  const file = join(temporaryFolder(t), 'password');
  const long = 'correct horse battery staple';
  for (const [content, stderr] of [
    ['x'.repeat(1_025), /the password is longer than 1024 bytes/],
    ['\u00e9'.repeat(513), /the password is longer than 1024 bytes/],
    [Buffer.from(`${long}\xe9`, 'latin1'), /the password is not UTF-8 text; save the file as UTF-8/],
    [`\ufeff${long}\n`, /the password begins with a byte order mark; save the file without one/],
    [`${long}\0`, /the password contains a line break or a null byte/],
    [`${long}\n${long}\n`, /the password contains a line break or a null byte/],
    [`${long}\n\n`, /the password contains a line break or a null byte/],
  ] as const) {
    writeFileSync(file, content);
    for (const args of [['hash-password'], ['user', 'set-password', 'user', '--config', configFile]])
      t.match(await run([...args, '--password-file', file]), { code: 1, stdout: '', stderr }, args.join(' '));
  }
  writeFileSync(file, `${'x'.repeat(1_024)}\r\n`);
  t.match(await run(['hash-password', '--password-file', file]), { code: 0 });
});

t.test('takes both lines of a password that are pasted at once', async (t) => {
  const line = [process.execPath, INSTALLED, 'hash-password'].join(' ');
  const child = spawn('script', ['-qec', line, '/dev/null'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => {
    if (output === '') child.stdin.write('correct horse battery staple\ncorrect horse battery staple\n');
    output += chunk.toString();
  });
  const [code] = (await once(child, 'close')) as [number];
  t.equal(code, 0, output);
  t.match(output, /\$argon2id\$/);
  t.notMatch(output, /horse/);
});

t.test('enable-otp shows the secret once, and logins then require its codes', async (t) => {
  const { otp_secret: secret, uri } = await json('user', 'enable-otp', 'billing');
  t.equal(Secret.fromBase32(secret).bytes.length, 20, '160 bits');
  t.match(uri, `otpauth://totp/`);
  t.match((await tryLogin('billing', PASSWORD)).json, { code: '2fa.verify' });
  const code = new TOTP({ secret: Secret.fromBase32(secret) }).generate();
  t.equal((await tryLogin('billing', PASSWORD, { 'Service-OTP': code })).status, 200);
  t.notMatch(JSON.stringify(await json('user', 'show', 'billing')), secret);
});

t.test('tokens: create, list, show, revoke', async (t) => {
  const created = await latchkey('token', 'create', '--user', 'superuser', '--name', 'deploy', '--scope', 'purge_all purge_select', '--services', 'SVC1,SVC2', '--expires-at', '2099-01-01T00:00:00Z'); // prettier-ignore
  const secret = created.stdout.trim();
  t.match(secret, /^lk[0-9A-Za-z]{38}$/, 'standard output is only the secret');
  const [, id = ''] = /^token (\w{22}) of superuser@example\.com/.exec(created.stderr) ?? [];
  const purge = () =>
    send(url, '/service/SVC2/purge_all', { method: 'POST', headers: { 'Service-Key': secret } });
  t.equal((await purge()).status, 200, 'valid at once');
  await new Promise((written) => setTimeout(written, 1_500));

  const shown = await json('token', 'show', id);
  t.match(shown, { id, name: 'deploy', scopes: ['purge_all', 'purge_select'], services: ['SVC1', 'SVC2'], service_id: 'SVC2', expires_at: '2099-01-01T00:00:00+00:00', ip: '127.0.0.1' }); // prettier-ignore
  const { stdout } = await latchkey('token', 'list', '--user', 'superuser@example.com');
  t.match(stdout, /^ID +NAME +LOGIN +SCOPE +SERVICES +CREATED +LAST USED +EXPIRES\n/);
  t.match(stdout, new RegExp(`^${id}  deploy .*purge_all purge_select  SVC1,SVC2  just now +just now +in 7\\d years$`, 'm')); // prettier-ignore
  t.notMatch(stdout + JSON.stringify(await json('token', 'list')), secret);
  t.match(await latchkey('token', 'show', id), {
    stdout: /expires at +in 7\d years {2}2099-01-01T00:00:00\+00:00/,
  });

  const half = await latchkey('token', 'revoke', id, 'nope');
  t.match(half, { code: 1, stderr: 'latchkey: there is no token nope; nothing was revoked\n' });
  t.equal((await purge()).status, 200);
  t.match(await latchkey('token', 'revoke', id), { code: 0, stdout: `${id}: revoked\n` });
  t.equal((await purge()).status, 401, 'refused at the next request');

  for (const [args, message] of [
    [['--scope', 'everything'], /The scope "everything" is not valid/],
    [['--name', ''], /The name must be 1 to 255 characters/],
    [['--services', 'SVC9'], /The service "SVC9" is unknown/],
    [['--expires-at', 'tomorrow'], /expires_at must be an ISO 8601 date-time/],
  ] as const) {
    const { code, stderr, stdout } = await latchkey('token', 'create', '--user', 'superuser', ...args);
    t.same([code, stdout], [1, '']);
    t.match(stderr, message);
  }
  t.match(await latchkey('token', 'create', '--user', 'locked'), {
    code: 1,
    stdout: '',
    stderr: 'latchkey: locked@example.com is locked; run "latchkey user unlock locked@example.com" first\n',
  });
  for (const services of ['', ',', ' '])
    t.match(
      await latchkey('token', 'create', '--user', 'superuser', '--services', services),
      {
        code: 2,
        stdout: '',
        stderr: /--services .* is invalid\. Pass at least one, or omit the option/,
      },
      `--services "${services}"`,
    );
  for (const args of [['token', 'revoke'], ['token', 'revoke', 'x', '--user', 'y'], ['session', 'revoke'], ['token', 'create'], ['user', 'nothing']]) {
    t.equal((await latchkey(...args)).code, 2, args.join(' '));
  } // prettier-ignore
});

t.test('delete refuses a user with active tokens and lists them', async (t) => {
  const { id, access_token: key } = (await create('engineer')).json;
  const refused = await latchkey('user', 'delete', 'engineer');
  t.equal(refused.code, 1);
  t.match(refused.stderr, new RegExp(`engineer still has active tokens .*${id}`));
  t.equal(await status({ 'Service-Key': key }), 200);
  t.ok((await json('token', 'revoke', '--user', 'engineer')).revoked.includes(id));
  t.match(await latchkey('user', 'delete', 'engineer'), {
    code: 0,
    stdout: 'engineer@example.com: deleted\n',
  });
  t.equal((await tryLogin('engineer', PASSWORD)).status, 401);
  t.match(await latchkey('user', 'delete', 'global-api-token+C1'), { code: 1, stderr: /active tokens/ });
});

t.test('sessions: list and revoke', async (t) => {
  const first = { Cookie: await login('superuser') };
  const second = { Cookie: await login('superuser') };
  const sessions = await json('session', 'list', '--user', 'superuser@example.com');
  t.equal(sessions.length, 2);
  t.match(sessions[0], { login: 'superuser@example.com', customer_id: 'C1', ip: '127.0.0.1' });
  t.notMatch(JSON.stringify(sessions), /service\.session|digest/);
  t.match(await latchkey('session', 'list'), {
    stdout: /^ID +LOGIN +PROVIDER +CREATED +LAST SEEN +ENDS +IP\n.*in 11 hours/,
  });
  t.match(await latchkey('session', 'revoke', 'nope', sessions[0].id), {
    code: 1,
    stderr: /no session nope; nothing/,
  });
  t.same([await status(first), await status(second)], [200, 200]);
  await latchkey('session', 'revoke', sessions[0].id);
  t.equal([await status(first), await status(second)].filter((each) => each === 401).length, 1);
  t.equal((await json('session', 'revoke', '--user', 'superuser')).revoked.length, 1);
  t.same([await status(first), await status(second)], [401, 401]);
  t.match(await latchkey('session', 'list', '--user', 'superuser'), { stdout: 'no sessions\n' });
});

t.test('without a store, commands say how to create one and create none', async (t) => {
  const folder = temporaryFolder(t);
  const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' });
  const expected = {
    code: 1,
    stderr: /data contains no store yet; start the server or run "latchkey apply"/,
  };
  t.match(await run(['user', 'list', '--config', config]), expected);
  t.match(await run(['user', 'list', '--config', config]), expected, 'the first attempt created none');
  t.match(await run(['explain', '--config', config, '--method', 'GET', '--path', '/', '--anonymous']), {
    code: 0,
    stdout: /401 unauthenticated/,
  });
});

/** The ids of a user who owns nothing. */
const OTHER = 65_532;
const isRoot = process.getuid?.() === 0;

/**
 * Runs a command as another user, if this one may. That user need not be able to read the program,
 * which is loaded before.
 */
function runAsOther(...args: string[]) {
  const program = programOf();
  const become = isRoot ? `process.setgroups([]); process.setgid(${OTHER}); process.setuid(${OTHER});` : '';
  const script = `
    import fs from 'node:fs';
    import { createRequire, syncBuiltinESMExports } from 'node:module';
    import { evaluate, load } from ${JSON.stringify(pathToFileURL(resolve('bin/program.js')).href)};
    const require = createRequire(${JSON.stringify(program)});
    for (const native of ['lmdb', '@node-rs/argon2']) require(native);
    const { readFileSync } = fs;
    const manifest = readFileSync(${JSON.stringify(resolve('package.json'))}, 'utf8');
    fs.readFileSync = (file, ...rest) => String(file).endsWith('/package.json') ? manifest : readFileSync(file, ...rest);
    syncBuiltinESMExports();
    const files = ['./latchkey.cjs', './schemas.cjs'].map((id) => [id, load(require.resolve(id), 'command').evaluate]);
    const { run } = evaluate(
      (id) => new Map(files).get(id),
      require,
      [process, globalThis, setTimeout, setInterval, setImmediate, clearTimeout, clearInterval],
    );
    ${become}
    process.argv.splice(1, 0, 'latchkey');
    await run();`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script, '--', ...args], { encoding: 'utf8', cwd: '/' });
  return { code: status, stderr };
} // prettier-ignore

t.test('a store of another user: permission denied, and what to do', async (t) => {
  const folder = temporaryFolder(t);
  const data = join(folder, 'data');
  const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' });
  writeFileSync(join(folder, 'directory.yaml'), 'customers: []\n');
  t.match(await run(['apply', '--config', config, '-f', join(folder, 'directory.yaml')]), { code: 0 });
  chmodSync(folder, 0o755);
  chmodSync(data, isRoot ? 0o700 : 0);
  const asOther = (...args: string[]) => runAsOther(...args, '--config', config);
  const stderr = new RegExp(`${data} cannot be opened as a store: permission denied \\(EACCES\\); run the command as the user that runs Latchkey, let that user read and write ${data}`); // prettier-ignore
  for (const args of [
    ['user', 'list'],
    ['check', '--online'],
    ['store', 'backup', 'b.jsonl'],
  ])
    t.match(asOther(...args), { code: 1, stderr }, args.join(' '));
  chmodSync(data, 0o700);
  writeFileSync(join(folder, 'afile'), '');
  const impossible = writeConfig(folder, { upstream: 'http://127.0.0.1:1', store: { type: 'lmdb', path: './afile/x' } }); // prettier-ignore
  t.match(await run(['check', '--online', '--config', impossible]), {
    code: 1,
    stderr: /store: \S+afile\/x cannot be opened as a store: not a directory \(ENOTDIR\)/,
  });
});

t.test('a file of the store that this user may not use: which one, and what to do', (t) => {
  const folder = temporaryFolder(t);
  const data = join(folder, 'data');
  const config = writeConfig(folder, { upstream: 'http://127.0.0.1:1' });
  writeFileSync(join(folder, 'directory.yaml'), 'customers: []\n');
  chmodSync(folder, 0o755);
  const asOther = (...args: string[]) => runAsOther(...args, '--config', config);
  mkdirSync(data);
  if (isRoot) chownSync(data, OTHER, OTHER);
  t.match(asOther('apply', '-f', join(folder, 'directory.yaml')), { code: 0 });
  for (const name of EVERY_CASE ? ['data.mdb', 'lock.mdb', 'opening.mdb', 'opening.mdb-lock'] : ['lock.mdb']) {
    const file = join(data, name);
    chmodSync(file, 0o400);
    t.match(asOther('user', 'list'), { code: 1, stderr: `let that user read and write ${file} (chown, chmod)` }, name);
    chmodSync(file, 0o600);
    if (!isRoot) continue;
    chownSync(file, 0, 0);
    t.match(asOther('user', 'list'), { code: 1, stderr: `let that user read and write ${file} (chown, chmod)` }, name);
    chownSync(file, OTHER, OTHER);
  }
  for (const name of EVERY_CASE ? ['lock.mdb', 'opening.mdb-lock'] : ['lock.mdb']) {
    renameSync(join(data, name), join(folder, name));
    chmodSync(data, 0o500);
    t.match(asOther('user', 'list'), { code: 1, stderr: `let that user read and write ${data} (chown, chmod)` }, `${name} cannot be created`);
    chmodSync(data, 0o700);
    renameSync(join(folder, name), join(data, name));
  }
  t.match(asOther('user', 'list'), { code: 0 });
  t.end();
}); // prettier-ignore

t.test('no command prints control characters of names to a terminal', async (t) => {
  const hostile = '\u001b[2J\u202e\u2028a@example.com';
  const shown = '\\u001b[2J\\u202e\\u2028a@example.com';
  const user = { id: 'U1', customer_id: 'C1', login: hostile, name: hostile, role: 'user' };
  const directory = { customers: [{ id: 'C1', name: hostile }], users: [user] };
  const config = writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' }, directory);
  await run(['apply', '--config', config]);
  const commands = [['list'], ['show', 'U1'], ['lock', 'U1'], ['unlock', 'U1'], ['show', hostile], ['set-password', 'U1', '--password-file', '-'], ['delete', 'U1'], ['show', hostile]];
  for (const command of commands) {
    const input = command.includes('--password-file') ? PASSWORD : '';
    const { stdout, stderr } = await run(['user', ...command, '--config', config], { input });
    t.ok(`${stdout}${stderr}`.includes(shown), `${command[0]} shows it`);
    for (const hidden of ['\u001b', '\u202e', '\u2028']) t.notOk(`${stdout}${stderr}`.includes(hidden), `${command[0]} prints none`);
  }
  writeFileSync(config, `upstreams: { "${hostile.replace('\u001b', '\\e')}": 5 }\n`);
  for (const command of ['check', 'serve']) t.notOk((await run([command, '--config', config])).stderr.includes('\u202e'), command);
}); // prettier-ignore
