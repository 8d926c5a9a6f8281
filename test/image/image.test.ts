import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { stringify } from 'yaml';
import {
  adminSchema,
  decisionAddresses,
  decisionSchema,
  listenSchema,
} from '../../src/config/schema/listen.js';
import { send } from '../helpers/http.js';
import { freePort } from '../helpers/free-port.mjs';
import { nightly } from '../helpers/nightly.js';
import { readDockerfile, readDockerignore, stagesOf, wordsOf } from './dockerfile.mjs';

const stages = stagesOf(readDockerfile('Dockerfile'));
const image = stages.at(-1)!;
const given = (name: string) => image.instructions.findLast((each) => each.name === name)?.rest ?? '';
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')).packages as Record<string, { dev?: boolean; devOptional?: boolean; libc?: string[] }>; // prettier-ignore
const isRoot = process.getuid?.() === 0;

t.test('the Dockerfile follows best practice', async (t) => {
  const all = stages.flatMap(({ instructions }) => instructions);
  for (const { from } of stages) {
    const known = stages.some(({ name }) => name === from);
    t.match(from, known ? /^\w+$/ : /^node:\d+-trixie-slim$/, 'a versioned tag with glibc');
  }
  t.notOk(all.some(({ name }) => name === 'ADD' || name === 'MAINTAINER'));
  for (const { name, rest } of all) {
    if (name === 'WORKDIR') t.match(rest, /^\//);
    if (name === 'RUN') t.notMatch(rest, /sudo|apt-get|curl|npm install/, rest);
    if (name === 'RUN' && rest.includes('npm ci')) t.match(rest, /--ignore-scripts/, 'no package runs an install script');
    if (['CMD', 'ENTRYPOINT', 'VOLUME'].includes(name)) t.ok(Array.isArray(wordsOf(rest)) && rest.startsWith('['), `${name} in exec form`);
  }
  const [user = '', group = ''] = given('USER').split(':');
  t.ok(Number(user) >= 10_000 && Number(group) >= 10_000, 'a numeric user other than root, which Kubernetes can verify');
  t.equal(given('STOPSIGNAL'), 'SIGTERM');
  t.equal(/image\.version="([^"]*)"/.exec(given('LABEL'))?.[1], JSON.parse(readFileSync('package.json', 'utf8')).version);
  const { http } = decisionAddresses(decisionSchema.parse({}));
  const { grpc } = decisionAddresses(decisionSchema.parse({ grpc: {} }));
  const listeners = [listenSchema.parse({}), adminSchema.parse({}), http, grpc];
  t.same(given('EXPOSE').split(' '), listeners.map((listener) => String(listener?.port)));
  t.match(wordsOf(/CMD (.*)$/.exec(given('HEALTHCHECK'))?.[1] ?? ''), [...wordsOf(given('ENTRYPOINT')), 'healthcheck', ...wordsOf(given('CMD')).slice(1)]);
}); // prettier-ignore

t.test('the build context contains exactly what the build uses', async (t) => {
  const takesIn = readDockerignore('.dockerignore');
  const copied = stages.flatMap(({ instructions }) => instructions)
    .filter(({ name, rest }) => name === 'COPY' && !rest.startsWith('--from'))
    .flatMap(({ rest }) => wordsOf(rest).slice(0, -1));
  t.ok(copied.length > 5);
  for (const path of copied) t.ok(existsSync(path) && takesIn(path), path);
  t.ok(takesIn('src/config/load.ts'));
  for (const path of ['.git/config', '.env', 'node_modules/zod/package.json', 'test/tap.ts', 'data/store/data.mdb', 'docs/limits.md', 'dist/cli.js', 'secrets/x'])
    t.notOk(takesIn(path), path);
  const known = new Set([...copied, 'package.json', 'package-lock.json']);
  for (const path of readdirSync('.').filter(takesIn)) t.ok(known.has(path), `${path} is in the build and used`);
}); // prettier-ignore

t.test('the native packages ship binaries for both platforms, so nothing is compiled', async (t) => {
  for (const cpu of ['x64', 'arm64']) {
    t.ok(lock[`node_modules/@lmdb/lmdb-linux-${cpu}`]);
    t.same(lock[`node_modules/@node-rs/argon2-linux-${cpu}-gnu`]?.libc, ['glibc']);
  }
});

t.test('runs with production packages only, without privileges, from read-only folders', nightly, async (t) => {
  const root = mkdtempSync(join(tmpdir(), 'latchkey-image-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  chmodSync(root, 0o755);
  const app = join(root, 'app');
  mkdirSync(app);
  const packages = Object.keys(lock).filter((path) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(path) && lock[path]?.dev !== true && existsSync(path));
  const paths = ['LICENSE', 'package.json', 'bin', 'config', 'dist', ...packages];
  // Hard links take no time, but do not work across file systems.
  if (spawnSync('cp', ['-rl', '--parents', ...paths, app]).status !== 0) spawnSync('cp', ['-r', '--parents', ...paths, app]);
  t.notOk(existsSync(join(app, 'node_modules/typescript')));
  const data = join(root, 'data');
  mkdirSync(data, { mode: 0o700 });
  const user = isRoot ? ['setpriv', '--reuid', '65532', '--regid', '65532', '--clear-groups', '--no-new-privs', '--bounding-set=-all'] : [];
  if (isRoot) chownSync(data, 65_532, 65_532);
  const [port, admin] = [await freePort(), await freePort()];
  const file = join(root, 'latchkey.yaml');
  writeFileSync(file, stringify({
    listen: { host: '127.0.0.1', port }, admin: { host: '0.0.0.0', port: admin }, upstream: 'http://127.0.0.1:9', store: { type: 'lmdb', path: join(data, 'store') },
  }));
  const words = (text: string) => wordsOf(text).map((word) => (word === 'node' ? process.execPath : word === '/etc/latchkey/latchkey.yaml' ? file : word.replace(/^\/app/, app)));
  // A container inherits none of this environment.
  const alone = ['env', '-i', 'NODE_ENV=production', 'TMPDIR=/nowhere', ...user];
  const options = { cwd: '/' };
  const health = () => {
    const [program = '', ...args] = [...alone, ...words(/CMD (.*)$/.exec(given('HEALTHCHECK'))?.[1] ?? '[]')];
    return spawnSync(program, args, options).status;
  };
  t.equal(health(), 1, 'nothing is running yet');
  const [program = '', ...args] = [...alone, ...words(given('ENTRYPOINT')), ...words(given('CMD'))];
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => child.kill('SIGKILL'));
  const log = await untilReady(child);
  t.equal(health(), 0, 'HEALTHCHECK');
  t.equal((await send(`http://127.0.0.1:${port}`, '/tokens/self')).status, 401);
  const ended = new Promise((done) => child.once('close', (code, signal) => done({ code, signal })));
  child.kill('SIGTERM');
  t.same(await ended, { code: 0, signal: null }, log());
}); // prettier-ignore

/** Waits until the server is ready. Returns a function that reads its log. */
async function untilReady(child: ChildProcess): Promise<() => string> {
  let log = '';
  await new Promise<void>((ready, failed) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      log += chunk.toString();
      if (log.includes('"msg":"ready"')) ready();
    });
    child.once('close', () => failed(new Error(log)));
  });
  return () => log;
}
