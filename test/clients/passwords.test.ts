import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { needPackages, runs } from '../helpers/debian.js';
import { nightly } from '../helpers/nightly.js';
import { clientFolder, type Ended, runClient } from './start.js';
import { makeImage, startServed } from './served.js';

/* Programs that know passwords only: a token is the password, with any user name. */

needPackages(
  () => runs('git', '--version') && runs('skopeo', '--version') && runs('docker-registry', '--version') && runs('/usr/bin/python3', '-m', 'pip', '--version') && runs('/usr/bin/python3', '-c', 'import requests'),
  'git', 'skopeo', 'docker-registry', 'python3-pip', 'python3-requests',
); // prettier-ignore

type Test = Pick<typeof t, 'match'>;

const { url, host, token, asked, packed } = await startServed(t);
const folder = clientFolder(t);
const key = await token('engineer');
const withUser = url.replace('//', `//anybody:${key}@`);
const HOME = join(folder, 'home');
mkdirSync(HOME);

const ok = (t: Test, ended: Ended, pattern: RegExp, what: string) =>
  t.match(ended, { code: 0, out: pattern }, what);
const runHere = (program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  runClient(program, args, { env: { HOME, LC_ALL: 'C.UTF-8', ...env } });

t.test('git', async (t) => {
  const git = (args: readonly string[], env = {}) =>
    runHere('git', args, { GIT_TERMINAL_PROMPT: '0', GIT_CONFIG_NOSYSTEM: '1', ...env });
  const repository = `${url}/git/repo.git`;
  const clone = join(folder, 'clone');
  ok(t, await git(['clone', `${withUser}/git/repo.git`, clone]), /./, 'clone, with the token in the URL');
  writeFileSync(join(clone, 'large'), Buffer.from(Array.from({ length: 2_000_000 }, () => Math.random() * 256)));
  const as = ['-C', clone, '-c', 'user.name=a', '-c', 'user.email=a@example.com'];
  await git([...as, 'add', '.']);
  await git([...as, 'commit', '-qm', 'x']);
  ok(t, await git([...as, 'push', 'origin', 'HEAD:main']), /-> main/, 'push of chunks');
  const helper = `!f() { echo username=anybody; echo password=${key}; }; f`;
  ok(t, await git(['-c', `credential.helper=${helper}`, 'ls-remote', repository]), /refs\/heads\/main/, 'a credential helper');
  writeFileSync(join(HOME, '.netrc'), `machine 127.0.0.1 login ${key} password x-oauth-basic\n`, { mode: 0o600 });
  ok(t, await git(['ls-remote', repository]), /refs\/heads\/main/, '.netrc');
  const extra = ['-c', `http.extraHeader=Authorization: Basic ${btoa(`x:${key}`)}`];
  ok(t, await git([...extra, 'ls-remote', repository], { HOME: folder }), /refs\/heads\/main/, 'http.extraHeader');
  t.match(await git(['ls-remote', repository], { HOME: folder }), { code: 128 }, 'without a token');
}); // prettier-ignore

t.test('skopeo and a container registry', nightly, async (t) => {
  const image = `docker://${host}/app:1`;
  const authfile = join(folder, 'auth.json');
  const to = ['--insecure-policy', 'copy', '--dest-tls-verify=false'];
  const given = await runHere('skopeo', [...to, '--dest-creds', `anybody:${key}`, makeImage(folder), image]);
  ok(t, given, /Writing manifest/, 'copy --dest-creds');
  const login = ['login', '--tls-verify=false', '--authfile', authfile, '-u', 'anybody', '-p'];
  ok(t, await runHere('skopeo', [...login, key, host]), /Login Succeeded/, 'login');
  t.match(await runHere('skopeo', [...login, 'wrong', host]), { code: 1, out: /invalid username\/password|unauthorized/ }, 'login with a wrong password');
  ok(t, await runHere('skopeo', ['inspect', '--tls-verify=false', '--authfile', authfile, image]), /"Digest"/, 'inspect');
  ok(t, await runHere('skopeo', ['--insecure-policy', 'copy', '--src-tls-verify=false', '--src-authfile', authfile, image, `dir:${join(folder, 'copied')}`]), /Writing manifest/, 'copy from');
}); // prettier-ignore

t.test('pip, npm, curl, wget and requests', async (t) => {
  writeFileSync(join(HOME, '.netrc'), `machine 127.0.0.1 login anybody password ${key}\n`, { mode: 0o600 });
  writeFileSync(join(folder, 'npmrc'), `registry=${url}/\n//${host}/:_auth=${btoa(`anybody:${key}`)}\n`);
  const pip = ['-m', 'pip', 'download', '--no-cache-dir', '--disable-pip-version-check', '--no-deps', '-d', folder];
  const npm = ['--userconfig', join(folder, 'npmrc'), '--cache', join(folder, 'npm-cache')];
  const requests = `import requests; r = requests.get('${url}/a', auth=('anybody', '${key}')); print(r.status_code)`;
  const rows: [what: string, Promise<Ended>, RegExp][] = [
    ['pip, in the URL', runHere('/usr/bin/python3', [...pip, '--index-url', `${withUser}/simple/`, 'tiny']), /Successfully downloaded tiny/],
    ['pip, .netrc', runHere('/usr/bin/python3', [...pip, '--index-url', `${url}/simple/`, 'tiny']), /Successfully downloaded tiny/],
    ['npm _auth', runHere('npm', ['pack', 'tiny@1.0.0', '--pack-destination', folder, ...npm]), /tiny-1\.0\.0\.tgz/],
    ['npm publish', runHere('npm', ['publish', packed, ...npm]), /\+ tiny@2\.0\.0/],
    ['curl -u', runHere('curl', ['-fsS', '-u', `anybody:${key}`, `${url}/a`]), /^{}$/],
    ['curl -u, as user name', runHere('curl', ['-fsS', '-u', `${key}:`, `${url}/a`]), /^{}$/],
    ['curl --anyauth', runHere('curl', ['-fsS', '--anyauth', '-u', `anybody:${key}`, `${url}/a`]), /^{}$/],
    ['curl --netrc', runHere('curl', ['-fsS', '--netrc', `${url}/a`]), /^{}$/],
    ['wget --user', runHere('wget', ['-qO-', '--user', 'anybody', '--password', key, `${url}/a`]), /^{}$/],
    ['requests', runHere('/usr/bin/python3', ['-c', requests]), /^200$/m],
  ];
  for (const [what, ended, pattern] of rows) t.match(await ended, { code: 0, out: pattern }, what);
}); // prettier-ignore

t.test('what the upstream received', async (t) => {
  t.ok(asked.length > 20);
  t.same(asked.filter(({ hasToken }) => hasToken), [], 'no token reached it');
  t.same(asked.filter(({ user }) => user !== 'engineer@example.com'), [], 'every request had an identity');
}); // prettier-ignore
