import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { endWith, startServed } from '../clients/served.js';
import { clientFolder, type Ended, runClient } from '../clients/start.js';
import { needPackages, runs } from '../helpers/debian.js';
import { startFixture } from '../helpers/fixture.js';
import { freePort } from '../helpers/free-port.mjs';
import { until } from '../helpers/until.js';

/* More programs that know passwords only; test/clients/passwords.test.ts has the common ones. */

needPackages(
  () => runs('twine', '--version') && runs('http', '--version') && runs('hg', '--version') && runs('skopeo', '--version') && runs('docker-registry', '--version'),
  'twine', 'httpie', 'mercurial', 'skopeo', 'docker-registry',
); // prettier-ignore

t.test('twine and httpie', async (t) => {
  const { url, token, asked, wheel } = await startServed(t);
  const key = await token('engineer');
  const HOME = clientFolder(t);
  const run = (program: string, ...args: string[]) => runClient(program, args, { env: { HOME } });
  const rows: [what: string, Promise<Ended>, RegExp][] = [
    ['twine', run('twine', 'upload', '--repository-url', `${url}/legacy/`, '-u', '__token__', '-p', key, wheel), /Uploading tiny/],
    ['http -a', run('http', '--ignore-stdin', '--check-status', '-b', '-a', `anybody:${key}`, `${url}/a`), /^{}/],
    ['http -A bearer', run('http', '--ignore-stdin', '--check-status', '-b', '-A', 'bearer', '-a', key, `${url}/a`), /^{}/],
  ];
  for (const [what, ended, pattern] of rows) t.match(await ended, { code: 0, out: pattern }, what);
  t.same(asked.map(({ hasToken, user }) => [hasToken, user]), asked.map(() => [false, 'engineer@example.com']));
}); // prettier-ignore

t.test('Mercurial', async (t) => {
  const folder = clientFolder(t);
  const hg = (args: readonly string[], env = {}) => runClient('hg', args, { env: { HGPLAIN: '1', HOME: folder, ...env } });
  const served = join(folder, 'served');
  mkdirSync(served);
  await hg(['init', served]);
  writeFileSync(join(served, 'a'), '');
  await hg(['-R', served, 'commit', '-A', '-u', 'a', '-m', 'x']);
  const port = await freePort();
  const args = ['serve', '-R', served, '-a', '127.0.0.1', '-p', String(port), '--config', 'web.push_ssl=false', '--config', 'web.allow_push=*'];
  endWith(t, spawn('hg', args, { stdio: 'ignore', env: { PATH: process.env['PATH'], HOME: folder } }));
  await until(() => fetch(`http://127.0.0.1:${port}/`).then(({ ok }) => ok, () => false), 'it listens');
  const { url, token } = await startFixture(t, { upstream: undefined, upstreams: { api: { url: `http://127.0.0.1:${port}` } } });
  const key = await token('engineer');
  const clone = join(folder, 'clone');
  t.match(await hg(['clone', url.replace('//', `//anybody:${key}@`), clone]), { code: 0, out: /added 1 changesets/ });
  writeFileSync(join(clone, 'b'), '');
  await hg(['-R', clone, 'commit', '-A', '-u', 'a', '-m', 'y']);
  writeFileSync(join(folder, '.hgrc'), `[auth]\nx.prefix = *\nx.schemes = http\nx.username = anybody\nx.password = ${key}\n`);
  t.match(await hg(['-R', clone, 'push', url]), { code: 0, out: /added 1 changesets/ }, 'from [auth]');
}); // prettier-ignore
