import { on } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { MAX_PASSWORD } from '../../domain/limits.js';
import { describeSystemError } from '../../util/system-error.js';
import { CommandFailed } from './output.js';

/** Minimum length in characters of a password that is the only factor (NIST SP 800-63B). */
const MIN_LENGTH = 15;

/** @throws CommandFailed for one that is short, or that no login can send */
export async function readNewPassword(options: { passwordFile?: string }): Promise<string> {
  const password =
    options.passwordFile === undefined ? await askTwice() : textOf(readSecretFile(options.passwordFile));
  const fault = faultOf(password);
  if (fault !== undefined) throw new CommandFailed(`the password ${fault}`);
  return password;
}

function faultOf(password: string): string | undefined {
  if (password.startsWith('\ufeff')) return 'begins with a byte order mark; save the file without one';
  if (/[\0\r\n]/.test(password)) return 'contains a line break or a null byte; write it on one line';
  if (Buffer.byteLength(password) > MAX_PASSWORD) return `is longer than ${MAX_PASSWORD} bytes`;
  return Array.from(password).length < MIN_LENGTH ? `is shorter than ${MIN_LENGTH} characters` : undefined;
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new CommandFailed('the password is not UTF-8 text; save the file as UTF-8');
  }
}

/** Reads a secret from a file, or from standard input for `-`, without a trailing line break. */
function readSecretFile(file: string): Buffer {
  try {
    const bytes = readFileSync(file === '-' ? 0 : file);
    const end = bytes.at(-1) !== 0x0a ? bytes.length : bytes.length - (bytes.at(-2) === 0x0d ? 2 : 1);
    return bytes.subarray(0, end);
  } catch (error) {
    throw new CommandFailed(`${file} cannot be read: ${describeSystemError(error)}`);
  }
}

export function readSecret(file: string, what: string): string {
  const secret = readSecretFile(file).toString();
  if (secret === '')
    throw new CommandFailed(`${file === '-' ? 'standard input' : file} does not contain ${what}`);
  return secret;
}

export async function ask(question: string): Promise<string> {
  const [answer = ''] = await askAll([question], { hidden: false });
  return answer;
}

/** Asks on a terminal, and only there. @throws CommandFailed unless the answer is yes */
export async function confirm(question: string, otherwise: string): Promise<void> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return;
  const answer = await ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailed(`${otherwise}; nothing was changed`);
}

/** All are answered from one buffer, so that several lines can be pasted at once. */
async function askAll(questions: readonly string[], { hidden }: { hidden: boolean }): Promise<string[]> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({
    input: process.stdin,
    output: hidden ? silent : process.stderr,
    terminal: true,
  });
  const entered = on(lines, 'line', { close: ['close'] }) as AsyncIterableIterator<[string]>;
  const answers: string[] = [];
  try {
    for (const question of questions) {
      if (hidden) process.stderr.write(question);
      lines.setPrompt(hidden ? '' : question);
      lines.prompt();
      const { value, done } = await entered.next();
      if (hidden) process.stderr.write('\n');
      if (done === true) throw new CommandFailed('the input ended without an answer; nothing was changed');
      answers.push(value[0]);
    }
    return answers;
  } finally {
    lines.close();
  }
}

async function askTwice(): Promise<string> {
  if (!process.stdin.isTTY)
    throw new CommandFailed(
      'no terminal for the password prompt; use --password-file FILE or --password-file -',
    );
  const [first = '', second] = await askAll(['Password: ', 'Password again: '], { hidden: true });
  if (first !== second) throw new CommandFailed('the two passwords differ');
  return first;
}
