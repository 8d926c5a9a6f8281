import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { send, startUpstream } from '../helpers/http.js';
import { run, start, temporaryFolder } from '../helpers/latchkey.js';

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
  t.match(await init(join(folder, 'below')), {
    code: 1,
    stderr: /not a directory.*delete what init has written there/,
  });
});
