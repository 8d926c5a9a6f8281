import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { programOf } from '../loader/program.mjs';
import { refuseNegativeCounts } from './counts.js';
import { forgetServer, noteServer } from './interface.js';
import { refuseSecretsBelow, refuseSecretsIn } from './secrets.js';

/**
 * The installed program. Most tests start a one-file bundle of it, in which password hashing is
 * cheaper.
 */
export const INSTALLED = resolve(import.meta.dirname, '../../dist/cli.js');
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

/** Commands that may share a process with other commands. */
const SHARING: ReadonlySet<string> = new Set([
  'apply',
  'check',
  'explain',
  'policy',
  'schema',
  'session',
  'token',
  'user',
]);
/** Commands that already ran in their own process in this test file. */
const ranAlone = new Set<string>();
let shared: ChildProcess | undefined;
let isSharedBusy = false;

/**
 * Runs a command to completion. The first run of each command in a file gets its own process. So
 * does a command that reads standard input, has its own environment, or runs beside another one.
 * The others share one process, which takes a tenth of the time.
 */
export async function run(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  const command = args
    .slice(0, 2)
    .filter((word) => !word.startsWith('-'))
    .join(' ');
  const mayShare = SHARING.has(args[0] ?? '') && !args.includes('-') && Object.keys(options).length === 0;
  if (mayShare && ranAlone.has(command) && !isSharedBusy) return runShared(args);
  ranAlone.add(command);
  return runOn(process.execPath, args, { program: programOf(), ...options });
}

async function runShared(args: readonly string[]): Promise<Ended> {
  isSharedBusy = true;
  const child = (shared ??= startShared());
  child.ref();
  child.channel?.ref();
  const ending = new AbortController();
  try {
    child.send(args);
    const [ended] = (await Promise.race([
      once(child, 'message', ending),
      once(child, 'exit', ending).then(() =>
        Promise.reject(new Error(`latchkey ${args.join(' ')}: no answer`)),
      ),
    ])) as [Ended & { ends: boolean }];
    const { ends, ...result } = ended;
    if (ends) shared = undefined;
    return result;
  } finally {
    ending.abort();
    child.unref();
    child.channel?.unref();
    isSharedBusy = false;
  }
}

function startShared(): ChildProcess {
  const stdio = ['ignore', 'ignore', 'inherit', 'ipc'] as const;
  return fork(resolve(import.meta.dirname, 'commands.mjs'), [programOf()], {
    execArgv: [],
    stdio: [...stdio],
  });
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
  /** Sends a signal and resolves to the exit code and signal. */
  stop(signal?: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** How to start a server. */
export interface StartOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** A command to start it with, like `prlimit`, and its arguments. */
  readonly via?: readonly string[];
  readonly program?: string;
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
  { env = {}, via = [], program = programOf() }: StartOptions = {},
): Promise<Running> {
  const [command = '', ...rest] = [...via, process.execPath, program, ...args];
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...ENVIRONMENT, ...env } });
  const output = collect(child);
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((done) =>
    child.once('close', (code, signal) => done({ code, signal })),
  );
  const stop = (signal: NodeJS.Signals = 'SIGTERM') => {
    child.kill(signal);
    return ended;
  };
  let admin: string | undefined;
  t.teardown(async () => {
    const counted = child.exitCode !== null || admin === undefined ? undefined : refuseNegativeCounts(admin);
    try {
      await counted;
    } finally {
      await stop('SIGKILL');
    }
    refuseSecretsIn(output().stdout, 'standard output');
    refuseSecretsIn(output().stderr, 'standard error');
  });
  const configFile = args[args.indexOf('--config') + 1];
  const config =
    args.includes('--config') && configFile !== undefined ? readFileSync(configFile, 'utf8') : '';
  const ready = await waitForReady(child, output);
  admin = ready.admin;
  noteServer(ready.listen, config);
  child.once('exit', () => forgetServer(ready.listen));
  return {
    url: ready.listen,
    admin: ready.admin,
    decision: ready.decision ?? '',
    grpc: ready.decision_grpc ?? '',
    pid: child.pid ?? 0,
    stdout: () => output().stdout,
    stderr: () => output().stderr,
    closeOutput: () => child.stdout.destroy(),
    stop,
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

async function waitForReady(
  child: ChildProcess,
  output: () => { stdout: string; stderr: string },
): Promise<Ready> {
  const limit = Date.now() + START_MS;
  while (child.exitCode === null && child.signalCode === null && Date.now() < limit) {
    const line = output()
      .stdout.split('\n')
      .find((text) => text.includes('"msg":"ready"'));
    if (line !== undefined) return JSON.parse(line) as Ready;
    await new Promise((wait) => setTimeout(wait, 10));
  }
  child.kill('SIGKILL');
  throw new Error(`the server did not become ready: ${output().stdout}${output().stderr}`);
}
