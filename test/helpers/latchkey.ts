import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { programOf } from '../loader/program.mjs';
import { refuseNegativeCounts } from './counts.js';
import { type End, Hosted } from './hosted.js';
import { forgetServer, noteServer } from './interface.js';
import { refuseSecretsBelow, refuseSecretsIn } from './secrets.js';

/**
 * The installed program. Most tests start a copy of it in which password hashing is cheaper.
 */
export const INSTALLED = resolve(import.meta.dirname, '../../bin/latchkey.js');
const START_MS = 120_000;

/**
 * An in-memory file system if it has room, so that no write waits for a disk. Durability is not
 * tested here.
 */
const TEMPORARY = roomIn('/dev/shm') > 2 ** 30 ? '/dev/shm' : tmpdir();

/** Free bytes in a folder; 0 if it does not exist. */
function roomIn(folder: string): number {
  if (!existsSync(folder)) return 0;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

/** Creates a temporary folder; at the end of the test it is searched for secrets and removed. */
export function temporaryFolder(t: { teardown: (fn: () => void) => void }): string {
  const folder = mkdtempSync(join(TEMPORARY, 'latchkey-test-'));
  t.teardown(() => {
    try {
      refuseSecretsBelow(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
  return folder;
}

/** The outcome of a command. */
interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * The environment of started processes. Without the extra certificates, each starts 40 ms sooner.
 */
const { NODE_EXTRA_CA_CERTS: _, ...ENVIRONMENT } = process.env;

/** How a command is run. */
interface CommandOptions {
  readonly input?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly program?: string;
}

/** Variables that only a process of its own can have. */
const OF_PROCESSES = /^(?:NODE_|LD_|FAKETIME|UV_|TZ$)/;

function needsProcess(env: NodeJS.ProcessEnv | undefined): boolean {
  return Object.keys(env ?? {}).some((name) => OF_PROCESSES.test(name));
}

/** A server with workers starts its own program again. */
function hasWorkers(config: string): boolean {
  return /\bworkers["']?: *(?!1\b)/.test(config);
}

/** Returns the text of the file that a command reads; empty if there is none. */
function configOf(args: readonly string[]): string {
  const file = args[args.indexOf('--config') + 1];
  return args.includes('--config') && file !== undefined && existsSync(file)
    ? readFileSync(file, 'utf8')
    : '';
}

/** Runs a command to completion; in this process, unless it needs one of its own. */
export async function run(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  if (options.program !== undefined || needsProcess(options.env) || hasWorkers(configOf(args)))
    return runOn(process.execPath, args, { program: programOf(), ...options });
  const { input = '', env } = options;
  const hosted = new Hosted({ args, input, env: { ...ENVIRONMENT, ...env } });
  await hosted.run();
  hosted.finish();
  const { code } = await hosted.ended;
  return { code, stdout: hosted.stdout, stderr: hosted.stderr };
}

/** Runs a command to completion on a given version of Node. */
export async function runOn(
  node: string,
  args: readonly string[],
  { input = '', env = {}, program = INSTALLED }: CommandOptions = {},
): Promise<Ended> {
  const child = spawn(node, [program, ...args], { env: { ...ENVIRONMENT, ...env } });
  const output = collect(child);
  child.stdin?.end(input);
  const code = await new Promise<number | null>((done) => child.once('close', done));
  return { code, ...output() };
}

/** A server running in its own process. */
export interface Running {
  readonly url: string;
  readonly admin: string;
  /** The URL of the decision port; empty if it is off. */
  readonly decision: string;
  /** The URL of the gRPC port; empty if it is off. */
  readonly grpc: string;
  readonly pid: number;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Closes the pipe that the server writes its log to. */
  readonly closeOutput: () => void;
  readonly signal: (signal: NodeJS.Signals) => void;
  /** Sends a signal and resolves to the exit code and signal. */
  stop(signal?: NodeJS.Signals): Promise<End>;
}

/** How to start a server. */
export interface StartOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** A command to start it with, like `prlimit`, and its arguments. */
  readonly via?: readonly string[];
  readonly program?: string;
  /** Starts a process, whose id, memory or output the test is about. */
  readonly isolated?: boolean;
}

/** Starts `latchkey serve` and waits until it reports that it is ready. */
export async function start(
  t: { teardown: (fn: () => Promise<void>) => void },
  configFile: string,
  options: StartOptions = {},
): Promise<Running> {
  return startCommand(t, ['serve', '--config', configFile], options);
}

/**
 * Starts a command that serves and waits until it reports that it is ready. At the end, its output
 * is searched for secrets and its metrics for negative counts.
 */
export async function startCommand(
  t: { teardown: (fn: () => Promise<void>) => void },
  args: readonly string[],
  options: StartOptions = {},
): Promise<Running> {
  const config = configOf(args);
  const isIsolated =
    options.isolated === true ||
    options.program !== undefined ||
    options.via !== undefined ||
    needsProcess(options.env) ||
    hasWorkers(config);
  const server = isIsolated ? spawnServer(args, options) : hostServer(args, options);
  let admin: string | undefined;
  t.teardown(async () => {
    const counted = server.hasEnded() || admin === undefined ? undefined : refuseNegativeCounts(admin);
    try {
      await counted;
    } finally {
      await server.stop('SIGKILL');
    }
    refuseSecretsIn(server.stdout(), 'standard output');
    refuseSecretsIn(server.stderr(), 'standard error');
  });
  const ready = await waitForReady(server);
  admin = ready.admin;
  noteServer(ready.listen, config);
  void server.ended.then(() => forgetServer(ready.listen));
  return {
    url: ready.listen,
    admin: ready.admin,
    decision: ready.decision ?? '',
    grpc: ready.decision_grpc ?? '',
    stdout: server.stdout,
    stderr: server.stderr,
    signal: server.signal,
    stop: server.stop,
    get pid() {
      return server.pid();
    },
    closeOutput: server.closeOutput,
  };
}

/** A server that was started, in whatever process. */
interface Server extends Pick<Running, 'stdout' | 'stderr' | 'signal' | 'stop' | 'closeOutput'> {
  readonly ended: Promise<End>;
  readonly hasEnded: () => boolean;
  readonly pid: () => number;
}

function hostServer(args: readonly string[], { env }: StartOptions): Server {
  const hosted = new Hosted({ args, env: { ...ENVIRONMENT, ...env } });
  const refuse = (): never => {
    throw new Error('this server has no process of its own: start it with { isolated: true }');
  };
  const ran = hosted.run();
  // A command that fails to start has ended by then.
  ran.catch(() => hosted.signal('SIGKILL'));
  return {
    stdout: () => hosted.stdout,
    stderr: () => hosted.stderr,
    ended: hosted.ended,
    hasEnded: () => hosted.hasEnded,
    pid: refuse,
    closeOutput: refuse,
    signal: (signal) => hosted.signal(signal),
    stop: (signal = 'SIGTERM') => {
      hosted.signal(signal);
      return hosted.ended;
    },
  };
}

function spawnServer(args: readonly string[], options: StartOptions): Server {
  const { env = {}, via = [], program = programOf() } = options;
  const [command = '', ...rest] = [...via, process.execPath, program, ...args];
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...ENVIRONMENT, ...env } });
  const output = collect(child);
  const ended = new Promise<End>((done) => child.once('close', (code, signal) => done({ code, signal })));
  return {
    stdout: () => output().stdout,
    stderr: () => output().stderr,
    ended,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    pid: () => child.pid ?? 0,
    closeOutput: () => child.stdout.destroy(),
    signal: (signal) => void child.kill(signal),
    stop: (signal = 'SIGTERM') => {
      child.kill(signal);
      return ended;
    },
  };
}

/**
 * Writes a configuration, and a directory with mode 0600, into a folder. Returns the
 * configuration's path.
 */
export function writeConfig(folder: string, config: object, directory?: object): string {
  const file = join(folder, 'latchkey.yaml');
  const whole = {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { port: 0 },
    ...(directory === undefined ? {} : { directory: { file: './directory.yaml' } }),
    ...config,
    ...patient(config),
  };
  if (directory !== undefined) {
    writeFileSync(join(folder, 'directory.yaml'), stringify(directory), { mode: 0o600 });
  }
  writeFileSync(file, stringify(whole));
  return file;
}

/**
 * Returns a Redis store with a longer timeout than the default, unless it sets one. On a busy
 * machine, Redis itself may get no processor for that long, which is not what most tests are about.
 */
function patient({ store }: { readonly store?: object }): object {
  return store !== undefined && 'type' in store && store.type === 'redis'
    ? { store: { command_timeout: '5s', ...store } }
    : {};
}

/** Returns the ids of the processes that a server started. */
export function workersOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return children === '' ? [] : children.split(' ').map(Number);
}

/** @throws Error if there is none: process 0 would be the test's whole group */
export function workerOf(pid: number): number {
  const [worker] = workersOf(pid);
  if (worker === undefined) throw new Error(`process ${pid} has started no other`);
  return worker;
}

function collect(child: ChildProcess): () => { stdout: string; stderr: string } {
  let stdout = '';
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return () => ({ stdout, stderr });
}

/** The fields of the log line for a completed start. */
interface Ready {
  readonly listen: string;
  readonly admin: string;
  readonly decision?: string;
  readonly decision_grpc?: string;
}

async function waitForReady(server: Server): Promise<Ready> {
  const limit = Date.now() + START_MS;
  while (!server.hasEnded() && Date.now() < limit) {
    const line = server
      .stdout()
      .split('\n')
      .find((text) => text.includes('"msg":"ready"'));
    if (line !== undefined) return JSON.parse(line) as Ready;
    await new Promise((wait) => setTimeout(wait, 10));
  }
  await server.stop('SIGKILL');
  throw new Error(`the server did not become ready: ${server.stdout()}${server.stderr()}`);
}
