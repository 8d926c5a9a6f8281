#!/usr/bin/env node
// Measures the cost of each step of a request: a CPU profile of a running Latchkey under load. See
// docs/design/performance.md.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startLatchkey } from '../lib/latchkey.mjs';
import { figure, progress, table, writeSections } from '../lib/output.mjs';
import { cpuSeconds, threadSeconds } from '../lib/proc.mjs';
import { run } from '../lib/processes.mjs';
import { fillStore } from '../lib/records.mjs';
import { openPlace, prepareLoad } from '../compare/subjects.mjs';
import { findWorkload } from '../compare/workloads.mjs';
import { warmUp, wrk } from '../lib/wrk.mjs';
import { attribute, attributeAllocations, STAGES } from './stages.mjs';
import { allocationsDuring, openInspector } from '../lib/inspector.mjs';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    workload: { type: 'string', default: 'token' },
    node: { type: 'string', default: process.execPath },
    out: { type: 'string', default: 'bench/profile/out' },
    write: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run bench:profile -- [options]

  --seconds N       length of the profile (10)
  --workload NAME   token, session, unknown, malformed, scope, down-64k, ... as in npm run bench (token)
  --node FILE       another Node executable
  --out FOLDER      folder for the profile, which Chrome's DevTools can open (bench/profile/out)
  --write           writes the table to docs/design/performance.md
`);
  process.exit(0);
}

/** Microseconds between samples. */
const INTERVAL = 200;
const SUBJECT = { name: 'Latchkey' };

await run(async () => {
  const workload = findWorkload(values.workload);
  if (workload === undefined) throw new Error(`there is no workload "${values.workload}"`);
  const place = await openPlace();
  const server = await startLatchkey({
    folder: place.folder,
    name: 'latchkey',
    cores: place.cores,
    upstreamPort: place.upstreamPort,
    fill: (path) => fillStore(path, place),
    node: values.node,
    nodeArgs: ['--inspect=127.0.0.1:0'],
  });
  const load = await prepareLoad(workload, SUBJECT, server, place);
  /** @param {number} seconds */
  const ask = (seconds) =>
    wrk({ url: `http://127.0.0.1:${server.port}/`, script: load.script, seconds, cores: place.loadCores, connections: load.connections });
  progress('warm-up');
  await warmUp({ url: `http://127.0.0.1:${server.port}/`, script: load.script, cores: place.loadCores });
  const seconds = Number(values.seconds);
  progress('without the profiler');
  const before = [cpuSeconds([server.pid]), threadSeconds(server.pid)];
  const plain = await ask(Math.max(2, seconds / 2));
  const used = [cpuSeconds([server.pid]) - before[0], threadSeconds(server.pid) - before[1]];
  const [all, main] = used.map((value) => (value / plain.requests) * 1e6);
  progress('with the profiler');
  const inspector = await openInspector(server.inspector);
  await inspector.call('Profiler.enable');
  await inspector.call('Profiler.setSamplingInterval', { interval: INTERVAL });
  await inspector.call('Profiler.start');
  await ask(seconds);
  const { profile } = await inspector.call('Profiler.stop');
  progress('with the profiler of allocations');
  const { result, head } = await allocationsDuring(inspector, () => ask(seconds / 2));
  const allocated = new Map([...attributeAllocations(head)].map(([name, bytes]) => [name, bytes / result.requests]));
  inspector.close();
  progress('');
  mkdirSync(values.out, { recursive: true });
  const file = join(values.out, `${workload.name}.cpuprofile`);
  writeFileSync(file, JSON.stringify(profile));

  const { rows, functions } = attribute(profile);
  const markdown = describe(rows, allocated, all, main);
  const busy = sum([...rows].filter(([name]) => name !== 'idle').map(([, { own, called }]) => own + called));
  const hottest = functions.filter(({ place }) => !place.startsWith('(idle)')).slice(0, 25);
  process.stdout.write(`${markdown}

The functions with the most time of their own, in µs a request:

${hottest.map(({ place, ms }) => `${figure((ms / busy) * main).padStart(6)}  ${place}`).join('\n')}

${file} can be opened in Chrome's DevTools (Performance, Load profile).
`);
  if (values.write) await writeSections('docs/design/performance.md', { [`profile-${workload.name}`]: markdown });
}); // prettier-ignore

/** @param {number[]} numbers */
function sum(numbers) {
  return numbers.reduce((total, each) => total + each, 0);
}

/**
 * @param {import('./stages.mjs').Rows} rows
 * @param {Map<string, number>} allocated bytes per request
 * @param {number} all CPU µs per request of the whole process
 * @param {number} main of its main thread, which the profile shows
 */
function describe(rows, allocated, all, main) {
  const busy = sum([...rows].filter(([name]) => name !== 'idle').map(([, { own, called }]) => own + called));
  /** @param {number} ms */
  const perRequest = (ms) => (ms / busy) * main;
  const lines = Object.entries(STAGES)
    .filter(([name]) => rows.has(name))
    .map(([name, meaning]) => {
      const { own, called } = rows.get(name) ?? { own: 0, called: 0 };
      const cost = perRequest(own + called);
      return [name, figure(cost), figure(perRequest(called)), share(cost, all), kib(allocated.get(name) ?? 0), meaning];
    });
  const others = all - main;
  lines.push(['other threads', figure(others), '', share(others, all), '', 'compiling, collecting garbage, writing logs and the store beside the main thread']);
  lines.push(['**together**', `**${figure(all)}**`, '', '', `**${kib(sum([...allocated.values()]))}**`, '']);
  const head = ['step', 'µs per request', "in Node's code", 'share', 'KiB allocated', 'what it covers'];
  return table(head, lines, [0, 5]);
} // prettier-ignore

/** @param {number} bytes */
function kib(bytes) {
  return figure(bytes / 1024);
}

/**
 * @param {number} part
 * @param {number} whole
 */
function share(part, whole) {
  return `${Math.round((part / whole) * 100)} %`;
}
