import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ServerCredentials } from '@grpc/grpc-js';
import t from 'tap';
import { endWith, gitBackend, makeImage, makeWheel, run, startRegistry, WHEEL } from '../clients/served.js';
import { runClient } from '../clients/start.js';
import { needPackages, runs } from '../helpers/debian.js';
import { freePort } from '../helpers/free-port.mjs';
import { startGrpc } from '../helpers/grpc-echo.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { followSection, PAGE, startAs } from './in-front-of.js';
import { blocksOf } from './markdown.js';

/*
 * The sections of docs/in-front-of.md whose programs start quickly, with real servers and clients;
 * test/nightly/in-front-of.test.ts has the others.
 */

const PYTHON = '/usr/bin/python3';
needPackages(
  () => runs('git', '--version') && runs('skopeo', '--version') && runs('docker-registry', '--version') && runs('rclone', 'version') && runs('nginx', '-v') && runs(PYTHON, '-m', 'pip', '--version') && runs(PYTHON, '-c', 'import grpc'),
  'git', 'skopeo', 'docker-registry', 'rclone', 'nginx-light', 'python3-pip', 'python3-grpcio',
); // prettier-ignore

const portOf = (url: string) => Number(new URL(url).port);

t.test('a section has at most five lines of configuration, and a test', async (t) => {
  const sections = [...readFileSync(PAGE, 'utf8').matchAll(/^## (.*)$/gm)].map(([, name = '']) => name);
  t.ok(sections.length >= 12);
  const tests = ['docs/in-front-of', 'nightly/in-front-of', 'clients/mcp'].map((name) => readFileSync(`test/${name}.test.ts`, 'utf8')).join(''); // prettier-ignore
  for (const section of sections) {
    const lines = blocksOf(PAGE, section).find(({ kind }) => kind === 'yaml')?.text.trimEnd().split('\n') ?? []; // prettier-ignore
    t.ok(lines.length > 0 && lines.length <= 5, section);
    t.ok(tests.includes(`'${section}'`), `${section}: a test`);
  }
});

t.test('git', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const bare = join(folder, 'team/app.git');
  run('git', 'init', '-q', '--bare', '-b', 'main', bare);
  run('git', '-C', bare, 'config', 'http.receivepack', 'true');
  const server = await serveHttp(t, (req, res) => gitBackend(folder, req, res));
  const { shell, block, token, wrong, asked } = await followSection(t, 'git', portOf(server.url), '/team/app.git/HEAD');
  t.match(await shell(block('sh')), { code: 0 });
  const push = 'cd app && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git push $1 HEAD:main';
  t.match(await shell(push.replace('$1', 'origin')), { code: 0, out: /-> main/ });
  t.same(wrong(), []);
  t.ok(asked.length >= 3);
  const TOKEN = await token('engineer', { scope: 'global:read' });
  t.match(await shell('git clone -q https://any:$TOKEN@git.example.com/team/app.git read', { TOKEN }), { code: 0 });
  const refused = push.replace('$1', 'https://any:$TOKEN@git.example.com/team/app.git');
  t.match(await shell(refused, { TOKEN }), { code: 1, out: /403/ }, 'a token that only reads cannot push');
}); // prettier-ignore

t.test('a container registry', nightly, async (t) => {
  const port = await startRegistry(t, temporaryFolder(t));
  const { folder, shell, block, token, wrong } = await followSection(t, 'A container registry', port, '/v2/');
  makeImage(folder);
  t.match(await shell(block('sh')), { code: 0, out: /Login Succeeded[^]*Writing manifest/ });
  t.same(wrong(), []);
  const TOKEN = await token('engineer', { scope: 'global:read' });
  const copy = (from: string, to: string) => shell(`skopeo copy --src-creds any:$TOKEN ${from} ${to}`, { TOKEN });
  t.match(await copy('docker://registry.example.com/team/app:1', 'dir:pulled'), { code: 0 }, 'pulls with global:read');
  const push = await shell('skopeo copy --dest-creds any:$TOKEN oci:image:latest docker://registry.example.com/b:1', { TOKEN });
  t.match(push, { code: 1, out: /403|denied/i }, 'and cannot push');
}); // prettier-ignore

t.test('PyPI: nginx, whose redirects do not lead past Latchkey', nightly, async (t) => {
  const folder = temporaryFolder(t);
  makeWheel(folder);
  mkdirSync(join(folder, 'simple/tiny'), { recursive: true });
  writeFileSync(join(folder, 'simple/tiny/index.html'), `<a href="../../${WHEEL}">${WHEEL}</a>`);
  const port = await freePort();
  const advice = /`(absolute_redirect off;)`/.exec(readFileSync(PAGE, 'utf8'))?.[1];
  const config = `daemon off; pid ${folder}/pid; error_log /dev/null; events {}
    http { access_log off; server { listen 127.0.0.1:${port}; root ${folder}; ${advice} } }`;
  writeFileSync(join(folder, 'nginx.conf'), `user root; ${config}`);
  endWith(t, spawn('nginx', ['-c', join(folder, 'nginx.conf')], { stdio: 'ignore' }));
  const { shell, block, url, key, wrong } = await followSection(t, 'PyPI', port);
  const env = { PIP_TARGET: 'installed', PIP_NO_CACHE_DIR: '1', PIP_DISABLE_PIP_VERSION_CHECK: '1' };
  const pip = `pip() { ${PYTHON} -m pip "$@"; }\n`;
  t.match(await shell(pip + block('sh'), env), { code: 0, out: /Successfully installed tiny/ });
  const bare = await fetch(`${url}/simple/tiny`, { headers: { 'Service-Key': key }, redirect: 'manual' });
  t.same([bare.status, bare.headers.get('location')], [301, '/simple/tiny/']);
  t.same(wrong(), []);
});

t.test('WebDAV', nightly, async (t) => {
  const folder = temporaryFolder(t);
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  endWith(t, spawn('rclone', ['serve', 'webdav', folder, '--addr', address, '--config', '/dev/null'], { stdio: 'ignore' })); // prettier-ignore
  const { folder: mine, shell, block, wrong } = await followSection(t, 'WebDAV', port);
  mkdirSync(join(mine, 'notes'));
  writeFileSync(join(mine, 'notes/a.txt'), 'one');
  t.match(await shell(block('sh')), { code: 0 });
  t.equal(readFileSync(join(folder, 'notes/a.txt'), 'utf8'), 'one');
  t.same(wrong(), []);
});

t.test('gRPC', async (t) => {
  const users: unknown[] = [];
  const nothing = () => undefined;
  const say = (call: { metadata: { get: (name: string) => unknown[] } }, callback: (error: null, message: object) => void) => {
    users.push([call.metadata.get('x-auth-user-id'), call.metadata.get('authorization')]);
    callback(null, {});
  }; // prettier-ignore
  const server = await startGrpc(t, { Say: say, Count: nothing, Collect: nothing, Chat: nothing }, ServerCredentials.createInsecure()); // prettier-ignore
  const { here, block, key } = await startAs(t, 'gRPC', `http://127.0.0.1:${server.port}`);
  const code = `import grpc\ntoken, request = '${key}', b''\n${here(block('python'))}`;
  t.match(await runClient(PYTHON, ['-c', code]), { code: 0 });
  t.same(users, [[['engineer'], []]]);
});
