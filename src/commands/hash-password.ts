import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { Passwords } from '../accounts/passwords.js';
import { CommandFailed } from './failure.js';

/** NIST SP 800-63B: the least length of a password that is the only factor. */
const MIN_LENGTH = 15;

/** `latchkey hash-password`: prints the `password_hash` of a directory file for a password. */
export async function hashPassword(options: { passwordFile?: string }): Promise<void> {
  const password = options.passwordFile === undefined ? await prompt() : readPassword(options.passwordFile);
  if (Array.from(password).length < MIN_LENGTH) {
    throw new CommandFailed(`the password is shorter than ${MIN_LENGTH} characters`);
  }
  process.stdout.write(`${await new Passwords(1).hash(password)}\n`);
}

function readPassword(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8').replace(/\r?\n$/, '');
  } catch (error) {
    throw new CommandFailed(
      `${file} can not be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`,
    );
  }
}

async function prompt(): Promise<string> {
  if (!process.stdin.isTTY)
    throw new CommandFailed('no terminal to ask on; use --password-file FILE or --password-file -');
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  try {
    process.stderr.write('Password: ');
    const first = await lines.question('');
    process.stderr.write('\nAgain: ');
    const second = await lines.question('');
    process.stderr.write('\n');
    if (first !== second) throw new CommandFailed('the two passwords differ');
    return first;
  } finally {
    lines.close();
  }
}
