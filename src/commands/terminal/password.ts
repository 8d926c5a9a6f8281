import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { describeSystemError } from '../../domain/system-error.js';
import { CommandFailed } from './failure.js';

/** Minimum length in characters of a password that is the only factor (NIST SP 800-63B). */
const MIN_LENGTH = 15;

/** Reads a new password, twice from the terminal or once from a file, and refuses a short one. */
export async function readNewPassword(options: { passwordFile?: string }): Promise<string> {
  const password =
    options.passwordFile === undefined ? await askTwice() : readSecretFile(options.passwordFile);
  if (Array.from(password).length < MIN_LENGTH) {
    throw new CommandFailed(`the password is shorter than ${MIN_LENGTH} characters`);
  }
  return password;
}

/** Reads a secret from a file, or from standard input for `-`, without a trailing line break. */
function readSecretFile(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    throw new CommandFailed(`${file} cannot be read: ${describeSystemError(error)}`);
  }
}

/**
 * Reads a secret other than a password from a file, or from standard input for `-`.
 *
 * @param what name of the secret, for the error message
 */
export function readSecret(file: string, what: string): string {
  const secret = readSecretFile(file);
  if (secret === '')
    throw new CommandFailed(`${file === '-' ? 'standard input' : file} does not contain ${what}`);
  return secret;
}

export async function ask(question: string, { hidden = false } = {}): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({
    input: process.stdin,
    output: hidden ? silent : process.stderr,
    terminal: true,
  });
  try {
    if (!hidden) return await lines.question(question);
    process.stderr.write(question);
    const answer = await lines.question('');
    process.stderr.write('\n');
    return answer;
  } finally {
    lines.close();
  }
}

async function askTwice(): Promise<string> {
  if (!process.stdin.isTTY)
    throw new CommandFailed(
      'no terminal for the password prompt; use --password-file FILE or --password-file -',
    );
  const first = await ask('Password: ', { hidden: true });
  if (first !== (await ask('Password again: ', { hidden: true })))
    throw new CommandFailed('the two passwords differ');
  return first;
}
