// Builds and runs the image of the Dockerfile without a container engine. Each stage is a folder,
// RUN runs in a chroot of it, and the host's programs and libraries stand in for those of the base
// image. Needs Linux, root, and a glibc host.
//   npm run check:image with the Node.js that runs this
//   NODE=/path/to/node npm run check:image with another one, such as the image's version
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { freePort } from '../helpers/free-port.mjs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readDockerfile, readDockerignore, stagesOf, wordsOf } from './dockerfile.mjs';

const HOST = ['/usr/bin', '/usr/sbin', '/usr/lib', '/usr/lib64', '/usr/share'].filter((path) =>
  existsSync(path),
);
const MERGED = ['bin', 'sbin', 'lib', 'lib64'];
const USER = 65532;
const node = process.env.NODE ?? process.execPath;
const work = mkdtempSync(join(tmpdir(), 'latchkey-image-'));
chmodSync(work, 0o755);

/** @typedef {{ root: string, cwd: string, [instruction: string]: string }} Image */
/**
 * @typedef {{ readOnly?: boolean, volumes?: Record<string, string>, user?: number, cwd?: string }}
 *   Confinement
 */

/**
 * Returns the mount points in a root that are not part of an image.
 *
 * @param {string} root
 */
const mountsOf = (root) =>
  [...HOST, '/proc', '/dev'].map((path) => {
    mkdirSync(join(root, path), { recursive: true });
    return path === '/proc'
      ? `mount -t proc proc ${root}/proc`
      : `mount --rbind -o ro ${path} ${root}${path}`;
  });

/**
 * Wraps a command to run in a root of its own, as a shell line for `unshare`.
 *
 * @param {string} root
 * @param {string} command
 * @param {Confinement} [confinement]
 * @returns {[program: string, args: string[]]}
 */
function chroot(root, command, { readOnly = false, volumes = {}, user = 0, cwd = '/' } = {}) {
  const mounts = mountsOf(root);
  const lines = [
    'set -e',
    `mount --rbind ${root} ${root}`,
    ...(readOnly ? [`mount -o remount,ro,bind ${root}`] : []),
    ...mounts,
    ...Object.entries(volumes).map(([path, from]) => `mount --rbind ${from} ${root}${path}`),
    `exec /usr/sbin/chroot ${root} /usr/bin/setpriv ${user === 0 ? '' : `--reuid ${user} --regid ${user} --clear-groups --no-new-privs --bounding-set=-all`} /usr/bin/env --chdir=${cwd} ${command}`,
  ];
  return ['unshare', ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', lines.join('\n')]];
}

/**
 * @param {string} root
 * @param {string} command
 * @param {Confinement & { env?: Record<string, string>, input?: string }} [options]
 */
function run(root, command, options = {}) {
  const [program, args] = chroot(root, command, options);
  const { env = {}, input = '' } = options;
  const { status, stdout, stderr } = spawnSync(program, args, { env, input });
  return { status, stdout: stdout.toString(), stderr: stderr.toString() };
}

/** @param {string} text */
const quote = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Creates the base image: Node.js and npm under /usr/local, the rest from the host.
 *
 * @param {string} root
 */
function base(root) {
  for (const path of ['usr/local/bin', 'usr/local/lib/node_modules', 'etc', 'root', 'tmp', 'var/lib'])
    mkdirSync(join(root, path), { recursive: true });
  for (const name of MERGED) symlinkSync(`usr/${name}`, join(root, name));
  cpSync(node, join(root, 'usr/local/bin/node'), { dereference: true });
  const npm = dirname(dirname(spawnSync('readlink', ['-f', spawnSync('which', ['npm']).stdout.toString().trim()]).stdout.toString().trim())); // prettier-ignore
  cpSync(npm, join(root, 'usr/local/lib/node_modules/npm'), { recursive: true, dereference: true });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'));
  for (const file of ['resolv.conf', 'hosts', 'nsswitch.conf', 'ssl', 'ld.so.cache'])
    if (existsSync(`/etc/${file}`)) cpSync(`/etc/${file}`, join(root, 'etc', file), { recursive: true, dereference: true }); // prettier-ignore
}

/** Returns the settings npm needs to reach the registry, as npm itself reports them. */
function npmEnvironment() {
  /** @type {Record<string, string>} */
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/root', npm_config_cache: '/tmp/npm' };
  for (const key of ['registry', 'cafile', 'proxy', 'https-proxy']) {
    const value = spawnSync('npm', ['config', 'get', key]).stdout.toString().trim();
    if (value !== '' && value !== 'null') env[`npm_config_${key.replace('-', '_')}`] = value;
  }
  return env;
}

/** Builds every stage and returns the last one, which is the image. */
function build() {
  const takesIn = readDockerignore('.dockerignore');
  const env = npmEnvironment();
  /** @type {Record<string, Image>} */
  const roots = {};
  /** @type {Image} */
  let image = { root: '', cwd: '/' };
  for (const { from, name, instructions } of stagesOf(readDockerfile('Dockerfile'))) {
    const root = join(work, name);
    image = { root, cwd: '/' };
    if (from in roots) {
      cpSync(roots[from].root, root, { recursive: true, verbatimSymlinks: true });
      image.cwd = roots[from].cwd;
    } else base(root);
    roots[name] = image;
    for (const { name: instruction, rest } of instructions) {
      if (instruction === 'WORKDIR') {
        image.cwd = rest;
        mkdirSync(join(root, rest), { recursive: true });
      } else if (instruction === 'RUN') {
        console.log(`${name}: ${rest}`);
        const { status, stdout, stderr } = run(root, `sh -c ${quote(rest)}`, { cwd: image.cwd, env });
        assert.equal(status, 0, `${stdout}${stderr}`);
      } else if (instruction === 'COPY') {
        const words = wordsOf(rest);
        const [, other] = /^--from=(.*)$/.exec(words[0]) ?? [];
        const target = words[words.length - 1];
        for (const source of words.slice(other === undefined ? 0 : 1, -1)) {
          const path = other === undefined ? resolve(source) : join(roots[other].root, source);
          const isFolder = statSync(path).isDirectory();
          const to = join(root, image.cwd, target, isFolder || !target.endsWith('/') ? '' : source);
          const filter = (/** @type {string} */ file) =>
            other !== undefined || file === path || takesIn(relative('.', file));
          assert.ok(other !== undefined || takesIn(source), `${source} is in the build`);
          cpSync(path, to, { recursive: true, filter, verbatimSymlinks: true });
        }
      } else image[instruction] = rest;
    }
  }
  return image;
}

/**
 * Runs the image with a hardened setup: read-only, without privileges, one volume for data and one
 * for the configuration.
 *
 * @param {Image} image
 */
async function tryOut(image) {
  const { root, cwd } = image;
  const [data, config] = ['data', 'config'].map((name) => join(work, name));
  mkdirSync(data, { mode: 0o700 });
  chownSync(data, USER, USER);
  mkdirSync(config);
  mkdirSync(join(root, 'etc/latchkey'), { recursive: true });
  assert.equal(image.USER, `${USER}:${USER}`);
  const volume = wordsOf(image.VOLUME)[0];
  assert.equal(statSync(join(root, volume)).uid, USER);
  rmSync(join(root, 'tmp'), { recursive: true });
  const entry = wordsOf(image.ENTRYPOINT);
  const env = { PATH: '/usr/local/bin:/usr/bin', NODE_ENV: 'production' };
  const options = {
    readOnly: true,
    user: USER,
    cwd,
    env,
    volumes: { [volume]: data, '/etc/latchkey': config },
  };
  /**
   * @param {string[]} words
   * @param {{ input?: string }} [more]
   */
  const as = (words, more) => run(root, words.map(quote).join(' '), { ...options, ...more });

  const password = 'correct horse battery staple';
  const hash = as([...entry, 'hash-password', '--password-file', '-'], { input: password });
  assert.match(hash.stdout, /^\$argon2id\$/, hash.stderr);
  const port = await freePort();
  const admin = await freePort();
  const settings = {
    listen: { host: '127.0.0.1', port }, admin: { port: admin }, workers: 2, upstream: 'http://127.0.0.1:9', directory: { file: 'directory.yaml' },
    store: { type: 'lmdb', path: `${volume}/store` },
  }; // prettier-ignore
  const users = [{ id: 'U1', customer_id: 'C1', login: 'a@example.com', name: 'A', role: 'superuser', password_hash: hash.stdout.trim() }]; // prettier-ignore
  writeFileSync(join(config, 'latchkey.yaml'), JSON.stringify(settings));
  writeFileSync(join(config, 'directory.yaml'), JSON.stringify({ customers: [{ id: 'C1', name: 'One' }], users })); // prettier-ignore
  const [, health = ''] = /CMD (.*)$/.exec(image.HEALTHCHECK) ?? [];
  assert.equal(as(wordsOf(health)).status, 1, 'nothing is running yet');
  const denied = as(['node', '-e', `for (const p of ['/x', '/app/x', '/app/bin/latchkey.js', '/etc/latchkey/y']) try { fs.writeFileSync(p, ''); console.log(p) } catch {}`]); // prettier-ignore
  assert.equal(denied.stdout, '', 'only the volume is writable');

  const [program, args] = chroot(root, [...entry, ...wordsOf(image.CMD)].map(quote).join(' '), options);
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  let log = '';
  child.stdout.on('data', (chunk) => (log += chunk));
  const gone = new Promise((done) => child.once('close', (code, signal) => done({ code, signal })));
  try {
    for (let i = 0; i < 600 && !log.includes('"msg":"ready"') && child.exitCode === null; i++)
      await sleep(50);
    assert.match(log, /"msg":"ready"/);
    assert.equal(as(wordsOf(health)).status, 0, 'HEALTHCHECK');
    const login = await fetch(`http://127.0.0.1:${port}/login`, { method: 'POST', body: new URLSearchParams({ user: 'a@example.com', password }) }); // prettier-ignore
    assert.equal(login.status, 200);
    assert.equal((await fetch(`http://127.0.0.1:${port}/_latchkey/`)).status, 200, 'the page is served');
    // `unshare` waits for the first process of its namespace, which is Node itself.
    const [first] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ');
    assert.match(readFileSync(`/proc/${first}/cmdline`, 'utf8'), /^node\0/);
    assert.match(readFileSync(`/proc/${first}/status`, 'utf8'), /Uid:\t65532.*CapEff:\t0000000000000000.*NoNewPrivs:\t1/s); // prettier-ignore
    process.kill(Number(first), image.STOPSIGNAL);
    assert.deepEqual(await gone, { code: 0, signal: null }, 'it exits by itself');
  } finally {
    child.kill('SIGKILL');
  }
}

/**
 * Returns the size of a folder in MiB.
 *
 * @param {string} path
 */
const sizeOf = (path) => Number(spawnSync('du', ['-sm', path]).stdout.toString().split('\t')[0]);

try {
  const image = build();
  const app = join(image.root, 'app');
  const top = readdirSync(app).toSorted();
  assert.deepEqual(top, ['LICENSE', 'bin', 'config', 'dist', 'node_modules', 'package.json']);
  for (const name of ['typescript', 'tap', 'esbuild', 'oxlint', 'prettier'])
    assert.ok(!existsSync(join(app, 'node_modules', name)), `${name} is not part of the image`);
  assert.ok(!existsSync(join(image.root, 'usr/local/bin/npm')), 'npm is removed');
  await tryOut(image);
  console.log(`the image is right; /app takes ${sizeOf(app)} MiB: node_modules ${sizeOf(join(app, 'node_modules'))}, dist ${sizeOf(join(app, 'dist'))}`); // prettier-ignore
} finally {
  rmSync(work, { recursive: true, force: true });
}
