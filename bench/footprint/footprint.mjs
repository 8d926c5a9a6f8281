// Prints what a start, a command, a process at rest, load, idle connections and an installation take,
// beside Node alone, Caddy and nginx.
// With --write, also into docs/design/performance.md.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../test/helpers/free-port.mjs';
import { anonymousBytes, cpuSeconds, endedSeconds, familyOf } from '../lib/proc.mjs';
import { median } from '../lib/statistics.mjs';
import { missingPackages, runs } from '../lib/processes.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const PAGE = join(ROOT, 'docs/design/performance.md');
const RUNS = 10;
const REST_MS = 3_000;
const CONNECTIONS = 10_000;
const MINUTES = Number(/--minutes=(\d+)/.exec(process.argv.join(' '))?.[1] ?? 10);
const SERVER = `const server = require('node:http').createServer((q, r) => r.end('ok'));
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => console.log('ready "listen":"http://127.0.0.1:' + server.address().port + '"'))`;

/** @typedef {{ program: string, args: string[], port?: number, env?: NodeJS.ProcessEnv }} Subject */

const folder = mkdtempSync(join(tmpdir(), 'latchkey-footprint-'));
const upstream = await launch(node(['-e', SERVER]));
try {
  const missing = missingPackages(() => ['wrk', 'caddy', 'nginx'].every((name) => runs(name, '-v')), 'wrk', 'caddy', 'nginx-light');
  if (missing !== undefined) throw new Error(missing);
  const program = install();
  const config = write('latchkey.yaml', `listen: { host: 127.0.0.1, port: 0 }\nadmin: { port: 0 }\nupstream: ${upstream.url}\nstore: { type: lmdb, path: ./data }\ndirectory: { file: users.yaml }\nlimits: { connections: 20000 }\n`);
  write('users.yaml', 'customers: [{ id: C, name: C }]\nusers: [{ id: U, customer_id: C, login: u@example.com, name: U, role: superuser }]\n');
  const latchkey = node([program, 'serve', '--config', config]);
  const started = await launch(latchkey);
  const key = run(process.execPath, [program, 'token', 'create', '--user', 'u@example.com', '--name', 'bench', '--scope', 'global', '--config', config], folder).trim();
  await started.end();
  const [caddy, nginx] = [caddyWith(key, await freePort()), nginxWith(key, await freePort())];
  const subjects = [node(['-e', SERVER]), latchkey, caddy, nginx];
  const commands = [node(['-e', '0']), node([program, 'check', '--config', config]), { ...caddy, args: ['validate', ...caddy.args.slice(1)] }, { ...nginx, args: ['-t', ...nginx.args] }];
  const used = commands.map(command);
  const starts = await sequentially(subjects, serve);
  const idle = await sequentially(subjects, (subject) => idleConnection(subject, key));
  const [atEnd, later] = await loaded(latchkey, key);
  const [installed = ''] = run('du', ['-sm', 'node_modules'], folder).split('\t');
  const sizes = ['caddy', 'nginx'].map((name) => (Number(run('dpkg-query', ['-W', '-f', '${Installed-Size}', name], folder)) / 1_000).toFixed(0));
  const rows = [
    ['a command, CPU ms: `node -e 0`, `latchkey check`, `caddy validate`, `nginx -t`', ...figures(used, 0)],
    ['start until ready, CPU ms', ...figures(starts.map(({ cpu }) => cpu), 0)],
    ['at rest, anonymous memory, MB', ...figures(starts.map(({ memory }) => memory), 0)],
    [`more at the end of ${MINUTES} minutes of load over 256 connections, MB`, '', atEnd, '', '', ''],
    ['more a minute later, MB', '', later, '', '', ''],
    [`each of ${CONNECTIONS.toLocaleString('en-US')} idle connections, KB`, ...figures(idle, 1)],
    ['installed, MB', '', installed, '', ...sizes],
  ];
  const table = [`| Node ${process.versions.node} | Node alone | Latchkey | ratio | Caddy | nginx |`, '| - | -: | -: | -: | -: | -: |', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n');
  process.stdout.write(`${table}\n`);
  if (process.argv.includes('--write')) {
    const page = readFileSync(PAGE, 'utf8');
    writeFileSync(PAGE, page.replace(/(?<=<!-- bench-footprint: begin -->\n)[^]*(?=<!-- bench-footprint: end -->)/, `\n${table}\n\n`));
  }
} finally {
  await upstream.end();
  rmSync(folder, { recursive: true });
} // prettier-ignore

/** @param {string} name @param {string} text */
function write(name, text) {
  writeFileSync(join(folder, name), text, { mode: 0o600 });
  return join(folder, name);
}

/**
 * Proxies, like Latchkey, the requests with a key.
 *
 * @param {string} key
 * @param {number} port
 * @returns {Subject}
 */
function caddyWith(key, port) {
  const file = write('Caddyfile', `{\n\tadmin off\n\tauto_https off\n}\nhttp://:${port} {\n\tbind 127.0.0.1\n\t@known header Service-Key ${key}\n\thandle @known {\n\t\treverse_proxy ${upstream.url}\n\t}\n\trespond 401\n}\n`);
  return { program: 'caddy', args: ['run', '--config', file, '--adapter', 'caddyfile'], port, env: { HOME: folder } };
} // prettier-ignore

/** @type {(key: string, port: number) => Subject} */
function nginxWith(key, port) {
  const file = write('nginx.conf', `daemon off; worker_processes 1; worker_rlimit_nofile 40000; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
events { worker_connections 30000; }
http { access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s; keepalive_timeout 300;
  server { listen 127.0.0.1:${port} backlog=4096; location / { if ($http_service_key != "${key}") { return 401; } proxy_pass ${upstream.url}; } } }\n`);
  return { program: 'nginx', args: ['-c', file], port };
} // prettier-ignore

/** @param {string[]} args @returns {Subject} */
function node(args) {
  return { program: process.execPath, args };
}

/** Installs the package as users do, and returns the path of its command. */
function install() {
  run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], ROOT);
  writeFileSync(join(folder, 'package.json'), '{}');
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  run('npm', ['install', '--omit=dev', '--no-audit', '--no-fund', `./latchkey-${version}.tgz`], folder);
  return join(folder, 'node_modules/latchkey/bin/latchkey.js');
}

/**
 * @param {string} program
 * @param {string[]} args
 * @param {string} cwd
 */
function run(program, args, cwd) {
  const { status, stderr, stdout } = spawnSync(program, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`);
  return stdout;
}

/**
 * Returns the CPU milliseconds of a command: the mean of some runs after a first.
 *
 * @param {Subject} subject
 */
function command({ program, args }) {
  run(program, args, folder);
  const before = endedSeconds();
  for (let i = 0; i < RUNS; i += 1) run(program, args, folder);
  return ((endedSeconds() - before) * 1_000) / RUNS;
}

/**
 * Starts a server some times after a first and returns the CPU milliseconds until it is ready, and
 * its anonymous memory at rest in MB.
 *
 * @param {Subject} subject
 */
async function serve(subject) {
  const starts = [];
  for (let i = 0; i <= RUNS; i += 1) {
    const server = await launch(subject);
    const cpu = cpuSeconds(familyOf(server.pid)) * 1_000;
    await sleep(REST_MS);
    starts.push({ cpu, memory: megabytes(server.pid) });
    await server.end();
  }
  const warm = starts.slice(1);
  return { cpu: median(warm.map(({ cpu }) => cpu)), memory: median(warm.map(({ memory }) => memory)) };
}

/**
 * Returns the KB that each idle connection takes in a warm server.
 *
 * @param {Subject} subject
 * @param {string} key
 */
async function idleConnection(subject, key) {
  const server = await launch(subject);
  load(server.url, key, 16, 5);
  await sleep(REST_MS);
  const before = megabytes(server.pid);
  const { port } = new URL(server.url);
  const sockets = [];
  while (sockets.length < CONNECTIONS) {
    const some = Array.from({ length: 100 }, () => connect(Number(port), '127.0.0.1'));
    await Promise.all(
      some.map((socket) => {
        socket.write(`GET / HTTP/1.1\r\nHost: bench.example.com\r\nService-Key: ${key}\r\n\r\n`);
        return once(socket, 'data');
      }),
    );
    sockets.push(...some);
  }
  await sleep(REST_MS);
  const took = megabytes(server.pid) - before;
  for (const socket of sockets) socket.destroy();
  await server.end();
  return (took * 1_000) / CONNECTIONS;
}

/**
 * Returns the MB that a server has more than at rest: at the end of minutes of load, and a minute
 * later, when V8 has returned what it no longer needs.
 *
 * @param {Subject} subject
 * @param {string} key
 */
async function loaded(subject, key) {
  const server = await launch(subject);
  await sleep(REST_MS);
  const before = megabytes(server.pid);
  load(server.url, key, 256, MINUTES * 60);
  const atEnd = megabytes(server.pid) - before;
  await sleep(60_000);
  const later = megabytes(server.pid) - before;
  await server.end();
  return [atEnd.toFixed(0), later.toFixed(0)];
}

/**
 * @param {string} url
 * @param {string} key
 * @param {number} connections
 * @param {number} seconds
 */
function load(url, key, connections, seconds) {
  const report = run('wrk', ['-t', '1', '-c', `${connections}`, '-d', `${seconds}s`, '-H', `Service-Key: ${key}`, url], folder);
  if (report.includes('Non-2xx')) throw new Error(`${url} refused requests: ${report}`);
} // prettier-ignore

/** @param {Subject} subject */
async function launch({ program, args, port, env }) {
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', port === undefined ? 'pipe' : 'ignore', port === undefined ? 'inherit' : 'ignore'],
  });
  const ended = once(child, 'exit');
  let url = `http://127.0.0.1:${port}`;
  if (port !== undefined) {
    const isListening = () => run('ss', ['-ltnH', `sport = ${port}`], folder) !== '';
    for (const late = Date.now() + 60_000; !isListening(); await sleep(20))
      if (Date.now() > late) throw new Error(`${program} does not listen`);
  } else {
    for await (const chunk of child.stdout?.iterator({ destroyOnReturn: false }) ?? []) {
      url = /ready.*"listen":"([^"]+)"|"listen":"([^"]+)".*ready/.exec(String(chunk))?.slice(1).find(Boolean) ?? '';
      if (url !== '') break;
    }
    child.stdout?.resume();
  }
  const end = async () => {
    child.kill();
    await ended;
  };
  return { pid: child.pid ?? 0, url, end };
} // prettier-ignore

/** @param {number} pid */
function megabytes(pid) {
  return familyOf(pid).reduce((sum, each) => sum + anonymousBytes(each), 0) / 1e6;
}

/**
 * @template T, R
 * @param {T[]} list
 * @param {(each: T) => Promise<R>} work
 */
async function sequentially(list, work) {
  /** @type {R[]} */
  const results = [];
  for (const each of list) results.push(await work(each));
  return results;
}

/**
 * @param {number[]} measured of Node, Latchkey, Caddy and nginx
 * @param {number} digits
 */
function figures([bare = 0, latchkey = 0, ...others], digits) {
  const ratio = (latchkey / bare).toFixed(1);
  return [
    bare.toFixed(digits),
    latchkey.toFixed(digits),
    ratio,
    ...others.map((each) => each.toFixed(digits)),
  ];
}
