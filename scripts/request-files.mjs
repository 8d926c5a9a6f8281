#!/usr/bin/env node
// Lists the files of src that run for one allowed GET whose token is cached: npm run request-files.
import { Agent, createServer, request } from 'node:http';
import { relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { built } from '../bench/lib/built.mjs';
import { openInspector } from '../bench/lib/inspector.mjs';
import { startLatchkey } from '../bench/lib/latchkey.mjs';
import { CORES, run, temporaryFolder } from '../bench/lib/processes.mjs';
import { fillStore } from '../bench/lib/records.mjs';

const DIST = resolve(import.meta.dirname, '../dist');
/** Folders of the codec and of the listener. */
const WIRE = new Set(['http1', 'listeners', 'net']);
/** Requests before the one that is measured: until nothing is new any more. */
const WARM_UP = 200;
const SAMPLES = 10;

await run(async () => {
  const { newAccessToken } = await built('domain/secret');
  const key = newAccessToken();
  const upstream = createServer((_req, res) => res.end('{}')).listen(0, '127.0.0.1');
  await new Promise((started) => upstream.once('listening', started));
  const { port } = /** @type {import('node:net').AddressInfo} */ (upstream.address());
  const server = await startLatchkey({
    folder: temporaryFolder('request-files'),
    name: 'latchkey',
    cores: CORES,
    upstreamPort: port,
    fill: (path) => fillStore(path, { keys: [key] }),
    // The modules that the program is made of.
    cli: resolve(DIST, 'cli.js'),
    nodeArgs: ['--inspect=127.0.0.1:0'],
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const get = () =>
    new Promise((done, reject) => {
      const options = {
        port: server.port,
        path: '/service/x',
        agent,
        headers: { Authorization: `Bearer ${key}` },
      };
      request(options, (res) => res.resume().once('end', () => done(res.statusCode)))
        .once('error', reject)
        .end();
    });
  for (let i = 0; i < WARM_UP; i++) await get();
  const inspector = await openInspector(server.inspector);
  await inspector.call('Profiler.enable');
  await inspector.call('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  /** @type {Map<string, number>[]} */
  const samples = [];
  for (let i = 0; i < SAMPLES; i++) {
    // Counts from zero again.
    await inspector.call('Profiler.takePreciseCoverage');
    const status = await get();
    if (status !== 200) throw new Error(`the request was answered with ${status}`);
    const { result } = await inspector.call('Profiler.takePreciseCoverage');
    samples.push(filesOf(result));
  }
  inspector.close();
  upstream.close();
  agent.destroy();
  report(samples);
});

/**
 * Returns how many functions ran by file.
 *
 * @param {import('node:inspector').Profiler.ScriptCoverage[]} scripts
 */
function filesOf(scripts) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { url, functions } of scripts) {
    const file = url.startsWith('file:') ? relative(DIST, fileURLToPath(url)) : '..';
    const count = functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length;
    if (!file.startsWith('..') && count > 0) counts.set(file.replace(/\.js$/, '.ts'), count);
  }
  return counts;
}

/**
 * Prints what ran in every sample: the rest are timers.
 *
 * @param {Map<string, number>[]} samples
 */
function report(samples) {
  const files = [...samples[0].keys()].filter((file) => samples.every((each) => each.has(file))).toSorted();
  const counts = files.map((file) => Math.min(...samples.map((each) => each.get(file) ?? 0)));
  for (const [i, file] of files.entries()) process.stdout.write(`${String(counts[i]).padStart(4)}  src/${file}\n`);
  const others = files.filter((file) => !WIRE.has(file.split('/', 1)[0]));
  const functions = counts.reduce((sum, count) => sum + count, 0);
  process.stdout.write(`${files.length} files and ${functions} functions; ${others.length} files outside ${[...WIRE].join(', ')}\n`);
} // prettier-ignore
