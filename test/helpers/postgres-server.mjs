// How to start PostgreSQL from Debian's package as a process of its own.
import { spawnSync } from 'node:child_process';
import { chownSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const VERSIONS = '/usr/lib/postgresql';

/** Whether the package is installed. */
export function hasPostgres() {
  return existsSync(VERSIONS) && readdirSync(VERSIONS).some((version) => existsSync(programIn(version)));
}

/** @param {string} version */
const programIn = (version) => join(VERSIONS, version, 'bin/postgres');

/**
 * Creates a cluster in an empty folder, which must be accessible to other users. PostgreSQL refuses to
 * run as root, so the user of the package takes the place of root.
 *
 * @param {string} folder
 * @param {number} port
 * @param {string[]} options
 */
export function preparePostgres(folder, port, options) {
  if (process.getuid?.() === 0) chownSync(folder, idOf('-u'), idOf('-g'));
  const data = join(folder, 'data');
  run(folder, 'initdb', '--no-sync', '--auth=trust', '--username=latchkey', '--encoding=UTF8', '--locale=C', data);
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'shared_buffers=32MB', ...options];
  const [program = '', ...args] = [
    ...commandOf('postgres'), '-D', data, '-p', String(port), ...settings.flatMap((line) => ['-c', line]),
  ];
  return { program, args, cwd: folder, url: `postgres://latchkey@127.0.0.1:${port}/postgres` };
} // prettier-ignore

/**
 * Copies the cluster of a server into the folder of another, as its standby.
 *
 * @param {string} folder
 * @param {number} primary its port
 */
export function copyPostgres(folder, primary) {
  const from = ['-h', '127.0.0.1', '-p', String(primary), '-U', 'latchkey'];
  run(
    folder,
    'pg_basebackup',
    ...from,
    '-D',
    join(folder, 'data'),
    '-R',
    '-X',
    'stream',
    '-c',
    'fast',
    '--no-sync',
  );
}

/**
 * @param {string} folder
 * @param {string} name of PostgreSQL's program
 * @param {string[]} args
 */
function run(folder, name, ...args) {
  const [program = '', ...prefix] = commandOf(name);
  const { status, stderr } = spawnSync(program, [...prefix, ...args], { cwd: folder });
  if (status !== 0) throw new Error(`${name}: ${stderr.toString()}`);
}

/** @param {string} name */
function commandOf(name) {
  const version = readdirSync(VERSIONS).toSorted((a, b) => Number(a) - Number(b)).at(-1) ?? '';
  const isRoot = process.getuid?.() === 0;
  const prefix = isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : [];
  return [...prefix, join(VERSIONS, version, 'bin', name)];
} // prettier-ignore

/** @param {string} which */
function idOf(which) {
  return Number(spawnSync('id', [which, 'postgres']).stdout.toString());
}

/**
 * Sends a signal to a server and the processes of its connections.
 *
 * @param {number} pid
 * @param {NodeJS.Signals} name
 */
export function signalPostgres(pid, name) {
  for (const each of [pid, ...childrenOf(pid)]) {
    try {
      process.kill(each, name);
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
    }
  }
}

/** @param {number} pid */
function childrenOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
} // prettier-ignore
