// Builds the image of the Dockerfile with Podman, on a Debian that debootstrap makes in place of the
// base image, and runs it hardened, and with Compose. Needs Linux, root and Debian's packages.
//   npm run check:image
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'; // prettier-ignore
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../helpers/free-port.mjs';
import { needNode } from '../helpers/node-version.mjs';
import { readDockerfile, stagesOf, wordsOf } from './dockerfile.mjs';

const PACKAGES = [
  'podman',
  'podman-compose',
  'buildah',
  'runc',
  'netavark',
  'aardvark-dns',
  'catatonit',
  'debootstrap',
];
const USER = 65532;
const MAX_APP_MB = 40;
const CERTIFICATES = '/etc/ssl/certs';
const CONFIG = ['--config', '/etc/latchkey/latchkey.yaml'];
const TAG = `latchkey:${JSON.parse(readFileSync('package.json', 'utf8')).version}`;

const work = mkdtempSync(join(tmpdir(), 'latchkey-image-'));
/** Settings that run containers without systemd and with few privileges, apart from others. */
const env = {
  ...process.env,
  CONTAINERS_STORAGE_CONF: write(
    'storage.conf',
    `[storage]\ndriver = "overlay"\ngraphroot = "${work}/images"\nrunroot = "${work}/run"\n`,
  ),
  CONTAINERS_CONF: write(
    'containers.conf',
    '[containers]\ndefault_ulimits = ["nofile=16384:16384", "nproc=1024:1024"]\n[engine]\ncgroup_manager = "cgroupfs"\nruntime = "runc"\nevents_logger = "file"\n',
  ),
};

/** @param {string} name @param {string} text */
function write(name, text) {
  writeFileSync(join(work, name), text);
  return join(work, name);
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {import('node:child_process').SpawnSyncOptions} [options]
 */
function run(program, args, options) {
  const { status, stdout, stderr, error } = spawnSync(program, args, { maxBuffer: 1e8, env, ...options });
  return { status, stdout: String(stdout), stderr: `${String(stderr)}${error?.message ?? ''}` };
}

/** @type {typeof run} */
function must(program, args, options) {
  const result = run(program, args, options);
  assert.equal(result.status, 0, `${program} ${args.join(' ')}: ${result.stdout}${result.stderr}`);
  return result;
}

const podman = (/** @type {string[]} */ ...args) => must('podman', args);

/** Imports the base image: Debian with Node and npm, and with Redis, which stands for its own image. */
function importBase() {
  const image = stagesOf(readDockerfile('Dockerfile'))[0]?.from ?? '';
  const [, version = '', suite = ''] = /^node:(\d+)-(\w+)-slim$/.exec(image) ?? [];
  const root = join(work, 'base');
  must('debootstrap', ['--variant=minbase', '--include=libatomic1,redis-server', suite, root]);
  cpSync(join(needNode(version), 'node'), join(root, 'usr/local/bin/node'));
  const npm = dirname(dirname(realpathSync(must('which', ['npm']).stdout.trim())));
  mkdirSync(join(root, 'usr/local/lib/node_modules'));
  cpSync(npm, join(root, 'usr/local/lib/node_modules/npm'), { recursive: true, dereference: true });
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', join(root, 'usr/local/bin/npm'));
  const archive = join(work, 'base.tar');
  must('tar', ['-C', root, '-cf', archive, '--exclude=./var/cache/apt/archives/*', '.']);
  podman('import', archive, `docker.io/library/${image}`);
  podman('tag', image, 'docker.io/library/redis:8-alpine');
}

function build() {
  const { stdout: cafile } = run('npm', ['config', 'get', 'cafile']);
  const registry = existsSync(cafile.trim()) ? ['--volume', `${CERTIFICATES}:${CERTIFICATES}:ro`, '--env', `npm_config_cafile=${cafile.trim()}`] : []; // prettier-ignore
  podman('build', '--pull=never', '--network', 'host', '--isolation', 'chroot', '--format', 'docker', ...registry, '--tag', TAG, '.'); // prettier-ignore
}

/** Runs the image as docs/deploying.md does: read-only, without capabilities. */
async function tryOut() {
  const [data, config] = ['data', 'config'].map((name) => join(work, name));
  for (const folder of [data, config]) mkdirSync(folder);
  chownSync(data, USER, USER);
  const [port, admin] = [await freePort(), await freePort()];
  const settings = { listen: { port }, admin: { port: admin }, upstream: 'http://127.0.0.1:9', store: { type: 'lmdb', path: '/var/lib/latchkey/store' } }; // prettier-ignore
  writeFileSync(join(config, 'latchkey.yaml'), JSON.stringify(settings));
  const hardened = ['--network', 'host', '--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--volume', `${config}:/etc/latchkey:ro`, '--volume', `${data}:/var/lib/latchkey`]; // prettier-ignore
  podman('run', '--detach', '--name', 'latchkey', ...hardened, TAG);
  const inspect = (/** @type {string} */ what) => podman('inspect', 'latchkey', '--format', what).stdout.trim(); // prettier-ignore
  await until(() => podman('logs', 'latchkey').stdout.includes('"msg":"ready"'), 'ready');

  const exec = (/** @type {string[]} */ ...args) => run('podman', ['exec', 'latchkey', ...args]);
  const [, health = ''] = /CMD (.*)$/.exec(stagesOf(readDockerfile('Dockerfile')).at(-1)?.instructions.find(({ name }) => name === 'HEALTHCHECK')?.rest ?? '') ?? []; // prettier-ignore
  assert.equal(exec(...wordsOf(health)).status, 0, 'HEALTHCHECK');
  assert.match(inspect('{{.Config.Healthcheck}}'), /healthcheck/, 'the image has it');
  assert.equal(exec('latchkey', 'token', 'list', ...CONFIG).stdout, 'no tokens\n');
  const second = run('podman', ['run', '--rm', ...hardened, TAG, 'token', 'list', ...CONFIG]);
  assert.match(second.stderr, /docker exec CONTAINER latchkey/, 'a second container names the way');
  const denied = exec('node', '-e', `for (const p of ['/x', '/app/x', '/app/bin/latchkey.js', '/etc/latchkey/y']) try { fs.writeFileSync(p, ''); console.log(p) } catch {}`); // prettier-ignore
  assert.equal(denied.stdout, '', 'only the volume is writable');
  assert.match(exec('cat', '/proc/1/status').stdout, new RegExp(`Uid:\t${USER}.*CapEff:\t0000000000000000.*NoNewPrivs:\t1`, 's')); // prettier-ignore
  assert.match(exec('ls', '/app/dist/program').stdout, /latchkey\.cjs\.\w+-serve-v/, 'compiled code is kept');
  assert.equal(exec('ls', '/usr/local/bin/npm').status === 0, false, 'npm is removed');
  const [size = ''] = exec('du', '-sm', '/app').stdout.split('\t');
  assert.ok(Number(size) <= MAX_APP_MB, `/app takes ${size} MB`);
  podman('stop', '--time', '40', 'latchkey');
  assert.equal(inspect('{{.State.ExitCode}}'), '0', 'it exits by itself');
  return size;
}

/** Starts the services of examples/compose.yaml, and logs in through Latchkey to the API. */
async function compose() {
  const examples = join(work, 'examples');
  cpSync('examples', examples, { recursive: true });
  const file = join(examples, 'compose.yaml');
  const port = await freePort();
  writeFileSync(file, readFileSync(file, 'utf8').replace('127.0.0.1:8080:', `127.0.0.1:${port}:`));
  const password = 'a password for Ada, 1815';
  const [, script = ''] = /```sh\n([^]*?)```/.exec(readFileSync('docs/deploying.md', 'utf8')) ?? [];
  write('latchkey', `#!/bin/sh\nexec podman run --rm --interactive ${TAG} "$@"\n`);
  chmodSync(join(work, 'latchkey'), 0o755);
  must('bash', ['-euo', 'pipefail', '-c', script], { cwd: work, env: { ...env, PATH: `${work}:${process.env.PATH}`, ADA_PASSWORD: password } }); // prettier-ignore
  const project = ['--file', file];
  try {
    must('podman-compose', [...project, 'up', '--detach'], { cwd: work });
    const url = `http://127.0.0.1:${port}`;
    await until(async () => (await statusOf(`${url}/anything`)) === 401, 'up');
    const login = await fetch(`${url}/login`, { method: 'POST', body: new URLSearchParams({ user: 'ada@example.com', password }) }); // prettier-ignore
    assert.equal(login.status, 200);
    const [cookie = ''] = (login.headers.get('set-cookie') ?? '').split(';');
    const answer = await fetch(`${url}/anything`, { headers: { Cookie: cookie } });
    assert.match(await answer.text(), /"x-auth-login": ?"ada@example.com"/);
  } finally {
    run('podman-compose', [...project, 'down'], { cwd: work });
  }
}

/** @param {string} url */
async function statusOf(url) {
  try {
    return (await fetch(url)).status;
  } catch {
    return 0;
  }
}

/**
 * @param {() => boolean | Promise<boolean>} isDone
 * @param {string} what
 */
async function until(isDone, what) {
  for (const late = Date.now() + 120_000; !(await isDone()); await sleep(200))
    assert.ok(Date.now() < late, `not ${what} in time`);
}

try {
  if (run('which', PACKAGES).status !== 0) must('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...PACKAGES]); // prettier-ignore
  importBase();
  build();
  const size = await tryOut();
  await compose();
  console.log(`the image is right, alone and with Compose; /app takes ${size} MB`);
} finally {
  run('podman', ['rm', '--force', '--all']);
  run('umount', [join(work, 'images/overlay')]);
  rmSync(work, { recursive: true, force: true });
}
