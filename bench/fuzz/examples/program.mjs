// Starts an example program, and monitors whether it is alive and what it writes to standard error.
import { spawn, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { missingPackages, onEnd, runs, temporaryFolder } from '../../lib/processes.mjs';

/** Debian's Python, which has Debian's packages whatever else is in the path. */
const PYTHON = '/usr/bin/python3';
const START_MS = 30_000;
/** @typedef {[program: string, ...args: string[]]} Command */
/** @typedef {Awaited<ReturnType<typeof startProgram>>} Program */
/**
 * How to run each program, or undefined if its dependencies are not available.
 *
 * @type {Record<string, () => Command | undefined>}
 */
export const COMMANDS = {
  'account-source': () => [process.execPath, 'examples/account-source/accounts.mjs'],
  'compose-api': () => [process.execPath, 'examples/compose/api.mjs'],
  'verify-node': () => [process.execPath, 'examples/verify-assertion/node/upstream.mjs'],
  'verify-python': () => {
    const hasPackages = () => spawnSync(PYTHON, ['-c', 'import jwt, cryptography']).status === 0;
    if (missingPackages(hasPackages, 'python3-jwt', 'python3-cryptography') !== undefined) return undefined;
    return [PYTHON, 'examples/verify-assertion/python/upstream.py'];
  },
  'verify-go': () => {
    if (!runs('go', 'version')) return undefined;
    const program = join(temporaryFolder('example'), 'upstream.bin');
    const env = { ...process.env, CGO_ENABLED: '0', GOTOOLCHAIN: 'local' };
    const built = spawnSync('go', ['build', '-o', program, '.'], {
      cwd: 'examples/verify-assertion/go',
      env,
    });
    if (built.status !== 0) throw new Error(built.stderr.toString());
    return [program];
  },
};

/**
 * Starts a program on a free port.
 *
 * @param {Command} command
 * @param {Record<string, string>} env
 */
export async function startProgram([command, ...args], env) {
  const child = spawn(command, args, {
    env: { ...process.env, PORT: '0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  onEnd(() => child.kill('SIGKILL'));
  let stderr = '';
  child.stderr.on('data', (chunk) => (stderr += chunk));
  const port = await new Promise((found, failed) => {
    const late = setTimeout(() => failed(new Error(`${args.join(' ')} did not start: ${stderr}`)), START_MS);
    let stdout = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
      // The address, or only the port, at the end of a line.
      const [, text] = /\b(\d+)\/?\s*\n/.exec(stdout) ?? [];
      if (text === undefined) return;
      clearTimeout(late);
      found(Number(text));
    });
    child.once('close', () => failed(new Error(`${args.join(' ')} ended: ${stderr}`)));
  });
  return {
    port,
    alive: () => child.exitCode === null && child.signalCode === null,
    /** Returns what it wrote to standard error since the last call. */
    complaints: () => {
      const said = stderr;
      stderr = '';
      return said;
    },
    stop: () => child.kill('SIGKILL'),
  };
}
