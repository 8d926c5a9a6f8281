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
  const version = readdirSync(VERSIONS).toSorted((a, b) => Number(a) - Number(b)).at(-1) ?? '';
  const isRoot = process.getuid?.() === 0;
  const prefix = isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : [];
  if (isRoot) chownSync(folder, idOf('-u'), idOf('-g'));
  const data = join(folder, 'data');
  const as = [...prefix, join(VERSIONS, version, 'bin/initdb')];
  const arguments_ = ['--no-sync', '--auth=trust', '--username=latchkey', '--encoding=UTF8', '--locale=C', data];
  const made = spawnSync(as[0] ?? '', [...as.slice(1), ...arguments_], { cwd: folder });
  if (made.status !== 0) throw new Error(`no cluster: ${made.stderr.toString()}`);
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'shared_buffers=32MB', ...options];
  const [program = '', ...args] = [
    ...prefix, programIn(version), '-D', data, '-p', String(port), ...settings.flatMap((line) => ['-c', line]),
  ];
  return { program, args, cwd: folder, url: `postgres://latchkey@127.0.0.1:${port}/postgres` };
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
