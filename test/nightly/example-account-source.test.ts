import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Secret, TOTP } from 'otpauth';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { type Clock, makeClock } from '../helpers/clock.js';
import { client, PASSWORD } from '../helpers/fixture.js';
import { send, serveHttp, startUpstream } from '../helpers/http.js';
import { run, type Running, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { matchLog, until } from '../helpers/until.js';
import { talk } from '../helpers/wire.mjs';

const EXAMPLE = 'examples/account-source';

/** Starts a server that uses an account source, with the example's settings except those given. */
async function guard(
  t: Test,
  url: string,
  source: object = {},
): Promise<Running & { configFile: string; clock: Clock }> {
  const example = parse(readFileSync(join(EXAMPLE, 'latchkey.yaml'), 'utf8'));
  const upstream = await startUpstream(t);
  const folder = temporaryFolder(t);
  const clock = makeClock(folder);
  const configFile = writeConfig(folder, {
    ...example,
    listen: { ...example.listen, port: 0 },
    upstream: upstream.url,
    login: { max_failures: 3 },
    directory: { http: { ...example.directory.http, url, ...source } },
  });
  return { ...(await start(t, configFile, { env: clock.env })), configFile, clock };
}

const login = (url: string, user: string, password = PASSWORD, headers: Record<string, string> = {}) =>
  send(url, '/login', { body: new URLSearchParams({ user: `${user}@example.com`, password }), headers });

t.test('the example works as it is', async (t) => {
  const child = spawn(process.execPath, [join(EXAMPLE, 'accounts.mjs')], { env: { ...process.env, PORT: '0' } });
  t.teardown(() => child.kill());
  // A busy machine may need more than two seconds for a hash.
  const { url } = await guard(t, await urlOf(child), { timeout: '30s' });
  const reply = await login(url, 'ADA');
  t.equal(reply.status, 200);
  t.same(reply.json, {
    user: { id: 'U1', name: 'Ada', login: 'ADA@example.com', role: 'superuser', customer_id: 'C1' },
    customer: { id: 'C1', name: 'C1' },
  });
  t.match((await login(url, 'ada', 'wrong')).json, { code: 'invalid_grant' });
  t.equal((await login(url, 'nobody')).text, (await login(url, 'ada', 'wrong')).text, 'an unknown user looks like a wrong password');

  const code = new TOTP({ secret: Secret.fromUTF8('12345678901234567890') }).generate();
  t.match((await login(url, 'bob')).json, { msg: '2fa.verify', detail: 'Invalid one-time password' });
  t.match((await login(url, 'bob', PASSWORD, { 'Service-OTP': '000000' })).json, { code: '2fa.verify' });
  t.equal((await login(url, 'bob', PASSWORD, { 'Service-OTP': code })).status, 200);
  t.match((await login(url, 'bob', PASSWORD, { 'Service-OTP': code })).json, { code: '2fa.verify' }, 'once');

  const key = await client(url).token('ada');
  const called = await send(url, '/service/S1', { headers: { 'Service-Key': key } });
  t.match(called.json.headers, { 'x-auth-user-id': 'U1', 'x-auth-login': 'ADA@example.com', 'x-auth-role': 'superuser' });
  child.kill();
  await new Promise((gone) => child.once('close', gone));
  const down = await login(url, 'ada');
  t.equal(down.status, 503);
  t.equal(down.headers['retry-after'], '1');
  t.same(down.json, { msg: 'Service unavailable', detail: 'The account source is unavailable' });
  const body = new URLSearchParams({ username: 'ada@example.com', password: PASSWORD });
  t.equal((await send(url, '/tokens', { body })).status, 503);
  t.equal((await send(url, '/service/S1', { headers: { 'Service-Key': key } })).status, 200, 'tokens stay valid');
}); // prettier-ignore

t.test('the example responds to any input', async (t) => {
  const child = spawn(process.execPath, [join(EXAMPLE, 'accounts.mjs')], { env: { ...process.env, PORT: '0' } });
  t.teardown(() => child.kill());
  const url = await urlOf(child);
  const ask = (body: string | Buffer, method = 'POST') => send(url, '/', { method, body });
  const question = (more: object) => JSON.stringify({ login: 'ada@example.com', password: PASSWORD, otp: null, ...more });
  const rows: [number, string | Buffer][] = [
    [200, question({})],
    [200, question({ otp: undefined })],
    [200, question({ otp: '', login: 'ADA@example.com' })],
    [401, question({ password: '' })],
    [401, question({ login: '' })],
    [401, question({ login: 'bob@example.com' })],
    ...[1, null, true, {}, [], ['ada@example.com'], 'a'.repeat(1_025)].flatMap((value): [number, string][] => [
      [400, question({ login: value })],
      [400, question({ password: value })],
      ...(value === null ? [] : [[400, question({ otp: value })] as [number, string]]),
    ]),
    ...['', '{', '{"login":1}', 'null', '1', '"a"', '[]', '{}', '['.repeat(9_000), 'login=ada&password=x', '\ufeff'].map((text): [number, string] => [400, text]),
    [400, Buffer.from(question({ login: '\u00ff' }), 'latin1')],
    [413, 'x'.repeat(16_385)],
    [413, question({ name: 'x'.repeat(1_000_000) })],
  ];
  for (const [status, body] of rows) t.equal((await ask(body)).status, status, body.toString().slice(0, 80));
  for (const method of ['GET', 'PUT', 'DELETE']) t.equal((await ask('', method)).status, 405, method);
  t.equal((await ask(question({}))).status, 200, 'still running');
  const startedAt = Date.now();
  const { bytes } = await talk(Number(new URL(url).port), [Buffer.from('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{')], { quietMs: 20_000 });
  t.match(bytes.toString(), /^HTTP\/1\.1 408 /, 'a body that never arrives');
  t.ok(Date.now() - startedAt < 15_000, 'times out');
}); // prettier-ignore

t.test('the example takes as much work for an unknown login', async (t) => {
  const program = readFileSync(join(EXAMPLE, 'accounts.mjs'), 'utf8');
  // Counts hashes instead of measuring time, which means little on a busy machine.
  const counting = program
    .replace('const derive = promisify(scrypt);', 'const derive = (...args) => (console.log("hashed", JSON.stringify(args[3])), promisify(scrypt)(...args));')
    .replace("password: await hash('correct horse battery staple'),\n    otpSecret", "password: await hash('correct horse battery staple', { N: 32_768, r: 8, p: 1 }),\n    otpSecret");
  const file = join(temporaryFolder(t), 'accounts.mjs');
  writeFileSync(file, counting);
  const child = spawn(process.execPath, [file], { env: { ...process.env, PORT: '0' } });
  t.teardown(() => child.kill());
  let out = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  const url = await urlOf(child);
  const workFor = async (user: string) => {
    out = '';
    await send(url, '/', { json: { login: `${user}@example.com`, password: 'wrong', otp: null } });
    await until(() => out.endsWith('\n'), 'it prints its work');
    return out;
  };
  const dearest = 'hashed {"N":32768,"r":8,"p":1,"maxmem":67108864}\n';
  t.equal(await workFor('bob'), dearest, 'one hash for a known user');
  t.equal(await workFor('nobody'), dearest, 'the same for an unknown user, at the highest cost');
}); // prettier-ignore

t.test('which responses of a source are accepted', async (t) => {
  const account = { id: 'U1', customer_id: 'C1', name: 'Ada', role: 'engineer', locked: false, two_factor: false };
  const source = await scripted(t);
  const { url, configFile, stdout } = await guard(t, source.url);
  const answers = async (status: number, body: unknown, headers: Record<string, string> = {}) => {
    source.answer(status, body);
    const reply = await login(url, 'ada', PASSWORD, headers);
    return [reply.status, reply.json?.code ?? reply.json?.user?.role ?? reply.json?.detail];
  };
  const otp = { 'Service-OTP': '123456' };
  const down = [503, 'The account source is unavailable'];
  t.same(await answers(200, account), [200, 'engineer']);
  t.same(source.asked.at(-1), { login: 'ada@example.com', password: PASSWORD, otp: null });
  t.same(await answers(200, { id: 'U1', customer_id: 'C1', role: 'engineer' }), [200, 'engineer'], 'the other members are optional');
  t.same(await answers(200, { ...account, id: 42 }), [200, 'engineer'], 'a number as id');
  t.same(await answers(200, { ...account, locked: true }), [400, 'account_locked']);
  t.same(await answers(200, { ...account, two_factor: true }), [400, '2fa.verify'], 'without a code, none was checked');
  t.same(await answers(200, { ...account, two_factor: true }, otp), [200, 'engineer']);
  t.equal(source.asked.at(-1)?.otp, '123456');
  t.same(await answers(401, { code: '2fa.verify' }), [400, '2fa.verify']);
  t.same(await answers(200, account), [200, 'engineer'], 'a success resets the failures');
  for (const status of [401, 403, 404]) {
    t.same(await answers(status, {}), [401, 'invalid_grant'], `${status}`);
    await answers(200, account);
  }
  for (const [status, body] of [
    [500, account], [302, account], [204, ''], [400, {}], [200, 'not json'], [200, {}], [200, { ...account, id: '' }],
    [200, { ...account, id: 'a,b' }], [200, { ...account, role: null }], [200, { ...account, locked: 'no' }],
    [200, { ...account, two_factor: 'off' }], [200, [account]], [200, { ...account, name: 'x'.repeat(70_000) }],
  ] as const) {
    t.same(await answers(status, body), down, `${status} ${JSON.stringify(body).slice(0, 60)}`);
  }
  source.hang();
  const startedAt = Date.now();
  t.same(await answers(200, account).then((reply) => reply), down, 'no answer');
  t.ok(Date.now() - startedAt < 10_000, 'within its timeout');
  source.resume();

  t.notMatch(stdout(), PASSWORD, 'no password in the log');
  await matchLog(t, { stdout }, /directory\.http: .*it responded with 500/, 'the log has the reason');

  t.test('what it reports about a user applies from then on', async (t) => {
    source.answer(200, account);
    const key = await client(url).token('ada');
    const status = async () => (await send(url, '/service/S1', { headers: { 'Service-Key': key } })).status;
    t.equal(await status(), 200);
    source.answer(200, { ...account, role: 'nothing' });
    await login(url, 'ada');
    t.equal(await status(), 403, 'another role');
    source.answer(200, { ...account, locked: true });
    await login(url, 'ada');
    t.equal(await status(), 401, 'a lock');
    source.answer(200, account);
    t.equal((await login(url, 'ada')).status, 200, 'it removes its own lock');
    t.equal(await status(), 200);
    t.equal((await run(['user', 'lock', 'U1', '--config', configFile])).code, 0);
    t.match((await login(url, 'ada')).json, { code: 'account_locked' }, "an operator's lock is kept");
    t.equal(await status(), 401);
    t.match(await run(['user', 'set-password', 'U1', '--config', configFile, '--password-file', '-'], { input: 'x' }), { code: 1, stderr: /checked by directory\.http/ });
    await run(['user', 'unlock', 'U1', '--config', configFile]);

    source.answer(200, { ...account, id: 'U9' });
    t.match((await login(url, 'ada')).json, { user: { id: 'U9', login: 'ada@example.com' } }, 'another user has the login now');
    t.equal((await send(url, '/service/S1', { headers: { 'Service-Key': key } })).json.headers['x-auth-user-id'], 'U1', 'tokens stay with their owner');
  });
}); // prettier-ignore

t.test('rejects a user id that belongs to another customer', async (t) => {
  const source = await scripted(t);
  const { url, configFile, stdout } = await guard(t, source.url);
  const account = { id: 'U1', customer_id: 'C1', role: 'engineer' };
  source.answer(200, account);
  const key = await client(url).token('ada');
  source.answer(200, { ...account, customer_id: 'C2', role: 'superuser' });
  for (const name of ['eve', 'ada']) t.equal((await login(url, name)).status, 503, name);
  const body = new URLSearchParams({ username: 'eve@example.com', password: PASSWORD });
  t.equal((await send(url, '/tokens', { body })).status, 503);
  await matchLog(t, { stdout }, /it returned customer C2 for user U1, who belongs to customer C1/, 'the log names the conflict');
  const { headers } = (await send(url, '/service/S1', { headers: { 'Service-Key': key } })).json;
  t.match(headers, { 'x-auth-user-id': 'U1', 'x-auth-customer-id': 'C1', 'x-auth-role': 'engineer' }, 'the token is unchanged');
  t.match(JSON.parse((await run(['user', 'show', 'U1', '--json', '--config', configFile])).stdout), { customer_id: 'C1', login: 'ada@example.com' });
  source.answer(200, { ...account, id: 'U2', customer_id: 'C2' });
  t.equal((await login(url, 'eve')).status, 200, 'other users of that customer can log in');
}); // prettier-ignore

t.test('spellings of a login name with spaces, case and width share one account', async (t) => {
  const source = await scripted(t);
  const { url, clock } = await guard(t, source.url);
  source.answer(401, {});
  // The wait after the third failure is a second, which a busy machine may take for one login.
  clock.stop();
  const forms = ['ada', ' ada', 'ADA', '\u3000ada', '\uff41da', '\u2003Ada', '\tada'];
  const statuses = [];
  for (const form of forms) statuses.push((await login(url, form, 'wrong')).status);
  t.same(statuses, [401, 401, 401, 429, 429, 429, 429]);
  t.same(source.asked.map((each) => each.login), ['ada@example.com', ' ada@example.com', 'ADA@example.com'], 'the source is asked with the exact spelling');
  source.answer(200, { id: 'U5', customer_id: 'C1', role: 'engineer' });
  t.match((await login(url, ' Bob')).json, { user: { login: 'Bob@example.com' } }, 'kept without the space');
  for (const login of [' ', '\u3000\t']) {
    const body = new URLSearchParams({ user: login, password: PASSWORD });
    t.match((await send(url, '/login', { body })).status, 400, 'an empty login name');
  }
}); // prettier-ignore

t.test('throttles guesses as for local passwords', async (t) => {
  const source = await scripted(t);
  const { url, clock } = await guard(t, source.url);
  source.answer(401, {});
  clock.stop();
  const statuses = [];
  for (let i = 0; i < 5; i++) statuses.push((await login(url, 'ada', 'wrong')).status);
  t.same(statuses, [401, 401, 401, 429, 429]);
  t.equal(source.asked.length, 3, 'the source is not asked meanwhile');
});

/** A source with scripted responses. */
async function scripted(t: Test) {
  let next: [number, unknown] = [500, {}];
  let hanging = false;
  const asked: { login: string; password: string; otp: string | null }[] = [];
  const { url } = await serveHttp(t, (req, res) => {
    let text = '';
    req.on('data', (chunk: Buffer) => (text += chunk.toString()));
    req.on('end', () => {
      asked.push(JSON.parse(text));
      if (hanging) return;
      const [status, body] = next;
      res.writeHead(status, { Location: '/elsewhere' }).end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  }); // prettier-ignore
  return {
    url,
    asked,
    answer: (status: number, body: unknown) => (next = [status, body]),
    hang: () => (hanging = true),
    resume: () => (hanging = false),
  };
}

async function urlOf(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      const [url] = /http:\S+/.exec(chunk.toString()) ?? [];
      if (url !== undefined) found(url);
    });
    child.once('close', () => failed(new Error('the example ended')));
  });
}
