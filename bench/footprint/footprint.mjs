// Prints what a start, a command, an idle process and an installation take, beside Node alone.
// With --write, also into docs/design/performance.md.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { anonymousBytes, cpuSeconds, endedSeconds } from '../lib/proc.mjs';
import { median } from '../lib/statistics.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const PAGE = join(ROOT, 'docs/design/performance.md');
const RUNS = 10;
const REST_MS = 3_000;
const SERVER = "require('node:http').createServer((q, r) => r.end()).listen(0, () => console.log('ready'))";

const folder = mkdtempSync(join(tmpdir(), 'latchkey-footprint-'));
try {
  const program = install();
  const config = join(folder, 'latchkey.yaml');
  writeFileSync(config, 'listen: { port: 0 }\nadmin: { port: 0 }\nupstream: http://127.0.0.1:1\nstore: { type: lmdb, path: ./data }\ndirectory: { file: users.yaml }\n');
  writeFileSync(join(folder, 'users.yaml'), 'customers: [{ id: C, name: C }]\nusers: []\n', { mode: 0o600 });
  const node = command(['-e', '0']);
  const check = command([program, 'check', '--config', config]);
  const bare = await serve(['-e', SERVER]);
  const served = await serve([program, 'serve', '--config', config]);
  const [installed = ''] = run('du', ['-sm', 'node_modules'], folder).split('\t');
  const rows = [
    ['a command, CPU ms: `node -e 0`, `latchkey check`', ...ratio(node, check)],
    ['start until ready, CPU ms', ...ratio(bare.cpu, served.cpu)],
    ['at rest, anonymous memory, MB', ...ratio(bare.memory, served.memory)],
    ['installed, MB', '', installed, ''],
  ];
  const table = [`| Node ${process.versions.node} | Node alone | Latchkey | ratio |`, '| - | -: | -: | -: |', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n');
  process.stdout.write(`${table}\n`);
  if (process.argv.includes('--write')) {
    const page = readFileSync(PAGE, 'utf8');
    writeFileSync(PAGE, page.replace(/(?<=<!-- bench-footprint: begin -->\n)[^]*(?=<!-- bench-footprint: end -->)/, `\n${table}\n\n`));
  }
} finally {
  rmSync(folder, { recursive: true });
} // prettier-ignore

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
 * @param {string[]} args
 */
function command(args) {
  run(process.execPath, args, folder);
  const before = endedSeconds();
  for (let i = 0; i < RUNS; i += 1) run(process.execPath, args, folder);
  return ((endedSeconds() - before) * 1_000) / RUNS;
}

/**
 * Starts a server some times after a first and returns the CPU milliseconds until it is ready, and
 * its anonymous memory at rest in MB.
 *
 * @param {string[]} args
 */
async function serve(args) {
  const starts = [];
  for (let i = 0; i <= RUNS; i += 1) starts.push(await serveOnce(args));
  const warm = starts.slice(1);
  return { cpu: median(warm.map(({ cpu }) => cpu)), memory: median(warm.map(({ memory }) => memory)) };
}

/** @param {string[]} args */
async function serveOnce(args) {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false }))
    if (String(chunk).includes('ready')) break;
  child.stdout.resume();
  const pid = child.pid ?? 0;
  const cpu = cpuSeconds([pid]) * 1_000;
  await sleep(REST_MS);
  const memory = anonymousBytes(pid) / 1e6;
  child.kill();
  await ended;
  return { cpu, memory };
}

/**
 * @param {number} bare
 * @param {number} latchkey
 */
function ratio(bare, latchkey) {
  return [bare.toFixed(0), latchkey.toFixed(0), (latchkey / bare).toFixed(1)];
}
