// Runs what takes too long for every change, one command after another: npm run nightly [-- NAME...].
// Seeds are fixed, so that a failure can be repeated; FC_SEED and --seed choose others.
import '../bin/supported-node.js';
import { spawnSync } from 'node:child_process';

/** @type {Record<string, { command: string, env?: Record<string, string> }>} */
const JOBS = {
  nightly: { command: 'node test/loader/run.mjs nightly' },
  'every-case': { command: 'node test/loader/run.mjs', env: { TESTS: 'all' } },
  properties: { command: 'npm run --silent fuzz:properties', env: { FC_SEED: '1' } },
  'planted-faults': { command: 'npm run --silent planted-faults' },
  'history-redis': { command: 'npm run --silent history -- --store redis --seed 7 --minutes 2 --more' },
  'history-sentinel': { command: 'npm run --silent history -- --store sentinel --seed 7 --minutes 2' },
  'history-cluster': { command: 'npm run --silent history -- --store cluster --seed 7 --minutes 2' },
  'history-postgres': { command: 'npm run --silent history -- --store postgres --seed 7 --minutes 2 --more' },
  'history-lmdb': {
    command: 'npm run --silent history -- --store lmdb --seed 7 --minutes 2 --faults kill,stop',
  },
  fuzz: { command: 'npm run --silent fuzz -- --seed 7 --seconds 600' },
  'fuzz-peers': { command: 'npm run --silent fuzz:peers -- --seed 7 --minutes 10' },
  'fuzz-examples': { command: 'npm run --silent fuzz:examples -- --seed 7 --seconds 120' },
  'fuzz-routers': { command: 'npm run --silent fuzz:routers -- --count 20000 --seed 7' },
  soak: { command: 'npm run --silent soak -- --seconds 1800' },
  image: { command: 'npm run --silent check:image' },
  node22: { command: 'npm run --silent test:node -- 22' },
  node24: { command: 'npm run --silent test:node -- 24' },
  node26: { command: 'npm run --silent test:node -- 26' },
};

const names = process.argv.slice(2);
const unknown = names.find((name) => !(name in JOBS));
if (unknown !== undefined) {
  process.stderr.write(`there is no job ${unknown}; the jobs are ${Object.keys(JOBS).join(', ')}\n`);
  process.exit(2);
}
spawnSync('npm', ['run', '--silent', 'build'], { stdio: 'inherit' });
const results = Object.entries(JOBS)
  .filter(([name]) => names.length === 0 || names.includes(name))
  .map(([name, { command, env }]) => {
    process.stdout.write(`\n## ${name}: ${command}\n`);
    const began = Date.now();
    const { status } = spawnSync(command, { shell: true, stdio: 'inherit', env: { ...process.env, ...env } });
    return { name, isOk: status === 0, minutes: (Date.now() - began) / 60_000 };
  });
process.stdout.write('\n');
for (const { name, isOk, minutes } of results)
  process.stdout.write(`${isOk ? 'ok    ' : 'failed'} ${name}, ${minutes.toFixed(1)} min\n`);
if (results.some(({ isOk }) => !isOk)) process.exitCode = 1;
