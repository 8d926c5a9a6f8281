// Starts Latchkey as served, with everything enabled: embedded store, policy, identity headers,
// metrics, audit and access log.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { startPinned, until } from './processes.mjs';

const CLI = join(import.meta.dirname, '../../bin/latchkey.js');

/** @typedef {Awaited<ReturnType<typeof startLatchkey>>} Server */
/**
 * Starts it with the default of every setting that is not given. A restart under the same name
 * finds the same store.
 *
 * @param {{ folder: string, name: string, cores: number[], upstreamPort: number, fill?: (path:
 *   string) => Promise<void>, node?: string | undefined, nodeArgs?: string[], cli?: string, env?:
 *   NodeJS.ProcessEnv, config?: object | undefined }} what `fill` writes the store before the
 *   start; `cli` is the build to start
 */
export async function startLatchkey(what) {
  const {
    folder,
    name,
    cores,
    upstreamPort,
    fill,
    node = process.execPath,
    nodeArgs = [],
    cli = CLI,
    env,
    config = {},
  } = what;
  const own = join(folder, name);
  mkdirSync(own, { recursive: true });
  await fill?.(join(own, 'data'));
  const file = join(own, 'latchkey.yaml');
  const settings = {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { port: 0 },
    store: { type: 'lmdb', path: './data' },
    upstreams: { api: { url: `http://127.0.0.1:${upstreamPort}` } },
    ...config,
  };
  writeFileSync(file, stringify(settings));
  const log = unusedName(join(own, 'output'));
  const args = [...nodeArgs, cli, 'serve', '--config', file];
  const startedAt = Date.now();
  const started = startPinned({ program: node, args, cores, log, env, cwd: own });
  /** @type {ReturnType<typeof readyLine>} */
  let ready;
  await until(started, name, () => (ready = readyLine(log)) !== undefined);
  if (ready === undefined) throw new Error(`${name} did not get ready`);
  return {
    ...started,
    startedAt,
    readyAt: Date.parse(ready.time),
    port: Number(new URL(ready.listen).port),
    decisionPort: ready.decision === undefined ? undefined : Number(new URL(ready.decision).port),
    grpcPort: ready.decision_grpc === undefined ? undefined : Number(new URL(ready.decision_grpc).port),
    adminUrl: ready.admin,
    /** The URL of its inspector; empty unless it was started with one. */
    inspector: /ws:\/\/\S+/.exec(readFileSync(log, 'utf8'))?.[0] ?? '',
  };
}

/**
 * Returns the name of a log that no earlier start wrote.
 *
 * @param {string} base
 * @param {number} [count]
 * @returns {string}
 */
function unusedName(base, count = 1) {
  const name = count === 1 ? `${base}.log` : `${base}-${count}.log`;
  return existsSync(name) ? unusedName(base, count + 1) : name;
}

/**
 * @param {string} log
 * @returns {{ time: string, listen: string, decision?: string, decision_grpc?: string, admin:
 *   string } | undefined}
 */
function readyLine(log) {
  const line = readFileSync(log, 'utf8')
    .split('\n')
    .find((each) => each.includes('"msg":"ready"'));
  return line === undefined ? undefined : JSON.parse(line);
}
