import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { temporaryFolder } from '../helpers/latchkey.js';

/** Runs the fuzzer for the examples to its end. */
async function fuzz(...args: string[]): Promise<{ code: number | null; out: string }> {
  const child = spawn(process.execPath, ['bench/fuzz/examples.mjs', '--seed', '1', ...args]);
  let out = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (out += chunk.toString()));
  return { code: await new Promise((done) => child.once('close', done)), out };
}

t.test('sends hostile requests to every example program', async (t) => {
  const { code, out } = await fuzz('--seconds', '2');
  t.equal(code, 0, out);
  for (const name of ['account-source', 'compose-api', 'verify-node', 'verify-python', 'verify-go'])
    t.match(out, new RegExp(`^${name}: (?:\\d{2,} requests, nothing found|not tried, )`, 'm'));
});

const ACCOUNTS = readFileSync('examples/account-source/accounts.mjs', 'utf8');
/** A program that responds to every head it sees, including those inside bodies. */
const NO_BODIES = `
import { createServer } from 'node:net';
const server = createServer((socket) => socket.on('error', () => {}).on('data', (bytes) => {
  for (const _ of bytes.toString('latin1').matchAll(/ HTTP\\/1\\.1\\r\\n/g)) socket.write('HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok');
}));
server.listen(0, '127.0.0.1', () => console.log('at', server.address().port));`;

t.test('detects a program with a fault', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'program.mjs');
  const changed = (before: string, after: string) => {
    if (!ACCOUNTS.includes(before)) throw new Error(`the example has no "${before}"`);
    return ACCOUNTS.replace(before, after);
  };
  const rows: readonly [string, string, string, RegExp][] = [
    ['it exits', 'account-source', changed("typeof value === 'string'", "value !== 'string'"), /an answer of (?:500|undefined)|the process ended|standard error/],
    ['it accepts a wrong password', 'account-source', changed('if (!right || user === undefined)', 'if (user === undefined)'), /an answer of 200/],
    ['it accepts any length', 'account-source', changed('if (size > MAX_BODY)', 'if (size > 10 * MAX_BODY)'), /expected 413/],
    ['it reads the body as a request', 'compose-api', NO_BODIES, /2 answers to 1 requests/],
  ];
  for (const [name, only, program, found] of rows) {
    writeFileSync(file, program);
    const { code, out } = await fuzz('--seconds', '30', '--only', only, '--instead', file, '--save', join(folder, 'finding.txt'));
    t.equal(code, 1, name);
    t.match(out, found, name);
  }
}); // prettier-ignore
