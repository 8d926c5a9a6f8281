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
  await inspector.call('Profiler.takePreciseCoverage');
  const status = await get();
  const { result } = await inspector.call('Profiler.takePreciseCoverage');
  inspector.close();
  upstream.close();
  agent.destroy();
  if (status !== 200) throw new Error(`the request was answered with ${status}`);
  report(result);
});

/** @param {import('node:inspector').Profiler.ScriptCoverage[]} scripts */
function report(scripts) {
  const files = scripts
    .filter(({ url }) => url.startsWith('file:') && fileURLToPath(url).startsWith(DIST))
    .map(({ url, functions }) => ({ file: relative(DIST, fileURLToPath(url)).replace(/\.js$/, '.ts'), count: functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => (a.file < b.file ? -1 : 1));
  for (const { file, count } of files) process.stdout.write(`${String(count).padStart(4)}  src/${file}\n`);
  const wire = files.filter(({ file }) => WIRE.has(file.split('/', 1)[0] ?? ''));
  const functions = files.reduce((sum, { count }) => sum + count, 0);
  process.stdout.write(
    `${files.length} files and ${functions} functions; ${files.length - wire.length} files outside ${[...WIRE].join(', ')}\n`,
  );
} // prettier-ignore
