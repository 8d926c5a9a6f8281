import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { send, startUpstream } from '../helpers/http.js';
import { INSTALLED, run, start, temporaryFolder } from '../helpers/latchkey.js';

const PASSWORD = 'correct horse battery staple';
const FILES = ['directory.yaml', 'latchkey.yaml'];
const init = async (folder: string, password = PASSWORD, ...more: string[]) =>
  run(['init', folder, '--password-file', '-', ...more], { input: `${password}\n` });

t.test('init writes files that check accepts and serve serves', async (t) => {
  const folder = join(temporaryFolder(t), 'new', 'gateway');
  const file = join(folder, 'latchkey.yaml');
  const { code, stdout, stderr } = await init(folder);
  t.same([code, stderr], [0, '']);
  t.match(stdout, `latchkey serve --config ${file}`);
  t.same(readdirSync(folder).toSorted(), FILES);
  for (const name of FILES) {
    t.equal(statSync(join(folder, name)).mode & 0o777, 0o600, name);
    t.notMatch(readFileSync(join(folder, name), 'utf8'), PASSWORD, name);
  }
  t.match(await run(['check', '--config', file]), { code: 0, stdout: `${file}: ok\n`, stderr: '' });

  const { url: upstream, received } = await startUpstream(t);
  const text = readFileSync(file, 'utf8').replace('http://127.0.0.1:3000', upstream).replace('8080', '0');
  writeFileSync(file, `${text}admin: { port: 0 }\n`);
  const { url } = await start(t, file);
  const created = await send(url, '/tokens', {
    body: new URLSearchParams({ username: 'admin', password: PASSWORD }),
    method: 'POST',
  });
  const { access_token: token } = JSON.parse(created.text) as { access_token: string };
  for (const line of [
    'latchkey init --upstream http://127.0.0.1:3000',
    'latchkey serve',
    'TOKEN=$(latchkey token create --user admin)',
  ])
    t.match(readFileSync('README.md', 'utf8'), `\n${line}\n`);
  const printed = await run(['token', 'create', '--user', 'admin', '--config', file]);
  const headers = { 'Service-Key': printed.stdout.trim() };
  t.equal((await send(url, '/', { headers })).status, 200, 'standard output is the token alone');
  t.equal((await send(url, '/', { headers: { 'Service-Key': token } })).status, 200);
  t.equal(received.at(-1)?.headers['x-auth-role'], 'superuser');
});

t.test('init takes the address of the API, and refuses what is none', async (t) => {
  const folder = temporaryFolder(t);
  for (const wrong of ['127.0.0.1:3000', 'ftp://a', 'http://a:b@c', 'http://a/?b', '']) {
    const { code, stderr } = await init(folder, PASSWORD, '--upstream', wrong);
    t.equal(code, 1, wrong);
    t.match(stderr, /^latchkey: --upstream: expected the URL of your API, like http:/);
  }
  t.same(readdirSync(folder), []);
  for (const [i, url] of [
    'https://api.example:8443/v1/',
    'unix:///run/api,1.sock',
    'http://[::1]:1',
  ].entries()) {
    const file = join(folder, String(i), 'latchkey.yaml');
    t.equal((await init(join(folder, String(i)), PASSWORD, '--upstream', url)).code, 0);
    t.match(parse(readFileSync(file, 'utf8')), { upstream: url.replace(/(?<=v1)\/$/, '') });
    t.match(await run(['check', '--config', file]), { code: 0 }, url);
  }
});

t.test('init overwrites nothing', async (t) => {
  for (const name of FILES) {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, name), 'mine');
    const { code, stderr } = await init(folder);
    t.equal(code, 1, name);
    t.equal(stderr, `latchkey: ${join(folder, name)} already exists, and init never overwrites a file; choose another folder: latchkey init DIR\n`);
    t.same([readdirSync(folder), readFileSync(join(folder, name), 'utf8')], [[name], 'mine']);
  }
}); // prettier-ignore

t.test('init writes nothing without a good password, or where it cannot write', async (t) => {
  const folder = join(temporaryFolder(t), 'new');
  t.match(await init(folder, 'short'), { code: 1, stderr: /shorter than 15/ });
  t.match(await run(['init', folder]), { code: 1, stderr: /no terminal.*--password-file/ });
  t.notOk(existsSync(folder));
  writeFileSync(folder, 'a file');
  t.match(await init(join(folder, 'below')), { code: 1, stderr: /not a directory.*nothing was written/ });
});

t.test('init and demo leave nothing behind when the disk is full', async (t) => {
  const reference = temporaryFolder(t);
  await init(reference);
  const sizes = FILES.map((name) => statSync(join(reference, name)).size);
  // Room for no file, and for the first one only.
  for (const room of [16, Math.max(...sizes) - 1]) {
    const folder = temporaryFolder(t);
    const args = [`--fsize=${room}`, process.execPath, INSTALLED, 'init', folder, '--password-file', '-'];
    const { status, stderr } = spawnSync('prlimit', args, { encoding: 'utf8', input: PASSWORD });
    t.match({ status, stderr }, { status: 1, stderr: /EFBIG\); nothing was written\n$/ }, `${room} bytes`);
    t.same(readdirSync(folder), []);
  }
  const data = join(temporaryFolder(t), 'data');
  const demo = ['--fsize=16', process.execPath, INSTALLED, 'demo', '--port', '0', '--data', data];
  const { status, stderr } = spawnSync('prlimit', demo, { encoding: 'utf8', timeout: 60_000 });
  t.match(
    { status, stderr },
    { status: 1, stderr: /directory\.yaml cannot be written: .*\(EFBIG\); choose/ },
  );
  t.same(readdirSync(data), []);
});
