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

/** The program as it is installed. Tests start the same in one file, where a password costs less to hash. */
export const INSTALLED = resolve(import.meta.dirname, '../../dist/cli.js');
const START_MS = 120_000;

/** A file system in memory where one has room, so that no write waits for a disk; nothing here outlives the machine. */
const TEMPORARY = roomIn('/dev/shm') > 2 ** 30 ? '/dev/shm' : tmpdir();

/** Bytes that are free in a folder; 0 where there is none. */
function roomIn(folder: string): number {
  if (!existsSync(folder)) return 0;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

/** A temporary folder that is searched for secrets and removed at the end. */
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

/** How a command ended. */
interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The environment of what tests start. Each process would read the certificates at its start, for 40 ms. */
const { NODE_EXTRA_CA_CERTS: _, ...ENVIRONMENT } = process.env;

/** How a command is run. */
interface CommandOptions {
  readonly input?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly program?: string;
}

/** Commands that may run in a process that ran others. */
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
/** Commands that this file ran in a process of their own. */
const ranAlone = new Set<string>();
let shared: ChildProcess | undefined;
let isSharedBusy = false;

/**
 * Runs a command to its end. Each command of a file gets a process of its own once, and always when it reads standard input, has an
 * environment of its own, or while another one runs. Otherwise commands run in one process, which takes a tenth of the time.
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
  return fork(resolve(import.meta.dirname, 'commands.mjs'), [INSTALLED], { execArgv: [], stdio: [...stdio] });
}

/** Runs a command to its end by some version of Node. */
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

/** A server that was started as a process of its own. */
export interface Running {
  readonly url: string;
  readonly admin: string;
  /** The decision port; empty when it is off. */
  readonly decision: string;
  /** The gRPC port; empty when it is off. */
  readonly grpc: string;
  readonly pid: number;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Sends a signal and resolves to the exit code and signal. */
  stop(signal?: NodeJS.Signals): Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

/** How a server is started. */
export interface StartOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** A command that starts it, like `prlimit`, with its arguments. */
  readonly via?: readonly string[];
  readonly program?: string;
}

/** Starts `latchkey serve` and waits until it says that it is ready. */
export async function start(
  t: { teardown: (fn: () => Promise<void>) => void },
  configFile: string,
  options: StartOptions = {},
): Promise<Running> {
  return startCommand(t, ['serve', '--config', configFile], options);
}

/** Starts a command that serves and waits until it says that it is ready. At its end its output is searched for secrets, and its metrics for counts below zero. */
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
    stop,
  };
}

/** Writes a configuration and a directory (mode 0600) into a folder and returns the configuration's path. */
export function writeConfig(folder: string, config: object, directory?: object): string {
  const file = join(folder, 'latchkey.yaml');
  const whole = {
    listen: { host: '127.0.0.1', port: 0 },
    admin: { port: 0 },
    ...(directory === undefined ? {} : { directory: { file: './directory.yaml' } }),
    ...config,
  };
  if (directory !== undefined) {
    writeFileSync(join(folder, 'directory.yaml'), stringify(directory), { mode: 0o600 });
  }
  writeFileSync(file, stringify(whole));
  return file;
}

/** The processes that a server started. */
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

/** What the line says that tells of a server's start. */
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
