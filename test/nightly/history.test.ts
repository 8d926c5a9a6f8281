// Short histories under faults: no response may violate a rule. `npm run history` makes longer
// ones.
import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import t from 'tap';
import { needPackages, runs } from '../helpers/debian.js';
import { temporaryFolder } from '../helpers/latchkey.js';

const HISTORY = resolve(import.meta.dirname, '../../bench/history/history.mjs');

interface Report {
  readonly violations: readonly { readonly rule: string }[];
  readonly operations: Record<string, number>;
  readonly faults: Record<string, number>;
}

/** Runs and checks a history. @param args options of the command */
async function makeHistory(folder: string, args: readonly string[]): Promise<{ report: Report; stderr: string; text: string }> {
  const file = join(folder, 'history.jsonl');
  const child = spawn(process.execPath, [HISTORY, '--json', '--history', file, ...args]);
  const [out, err] = [[] as Buffer[], [] as Buffer[]];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  await new Promise((done) => child.once('close', done));
  const [text, stderr] = [Buffer.concat(out).toString(), Buffer.concat(err).toString()];
  if (text === '') throw new Error(`no report: ${stderr}`);
  return { report: JSON.parse(text) as Report, stderr, text };
} // prettier-ignore

const RUNS: Record<string, readonly string[]> = {
  'one Redis': ['--store', 'redis', '--faults', 'kill,stop,partition,pause-sidecar', '--seed', '11'],
  'three servers with sentinels': ['--store', 'sentinel', '--faults', 'kill,stop,partition,pause-sidecar', '--seed', '11'],
  'one PostgreSQL': ['--store', 'postgres', '--faults', 'kill,stop,restart,pause-sidecar', '--seed', '11'],
  'the embedded store with two workers': ['--store', 'lmdb', '--faults', 'kill,stop', '--seed', '12'],
}; // prettier-ignore

t.test('violates no rule', { jobs: 2 }, (t) => {
  needPackages(() => runs('redis-server', '--version'), 'redis-server', 'redis-tools');
  for (const [name, args] of Object.entries(RUNS)) {
    t.test(name, async (t) => {
      const { report, text } = await makeHistory(temporaryFolder(t), [...args, '--minutes', '0.1', '--pace', '0.25', '--rate', '0.5']); // prettier-ignore
      // On a busy machine a store may take long to recover, which violates no promise.
      const violations = report.violations.filter(({ rule }) => rule !== 'unrecovered');
      t.same(violations, [], text);
      // However fast the machine, there were requests, responses and faults.
      for (const answer of ['create done', 'revoke done', 'use accepted', 'use refused'])
        t.ok((report.operations[answer] ?? 0) > 0, answer);
      t.ok(Object.keys(report.faults).length > 0);
    });
  }
  t.end();
});
