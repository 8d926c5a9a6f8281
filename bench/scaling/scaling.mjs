#!/usr/bin/env node
// Measures how Latchkey scales: its startup, its memory, and look-ups in larger and larger stores.
// See docs/design/performance.md.
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startLatchkey } from '../lib/latchkey.mjs';
import { machineFacts } from '../lib/machine.mjs';
import { figure, progress, table, writeResults, writeSections } from '../lib/output.mjs';
import { installPeers } from '../lib/peers.mjs';
import { cpuSeconds, familyOf, memoryBytes } from '../lib/proc.mjs';
import { run } from '../lib/processes.mjs';
import { fillStore } from '../lib/records.mjs';
import { median } from '../lib/statistics.mjs';

/** @import { Place } from '../compare/subjects.mjs' */
/** @import { Server } from '../lib/latchkey.mjs' */
/** @import { LookUps } from './lookups.mjs' */
/** @typedef {(config?: object) => Promise<Server>} Start with some settings */
/**
 * @typedef {{ start: Awaited<ReturnType<typeof measureStart>>, memory: Awaited<ReturnType<typeof
 *   measureMemory>>, lookups: LookUps[] }} Scaling
 */

const { values } = parseArgs({
  options: {
    huge: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout
    .write(`npm run bench:scaling -- [options]     (about 4 minutes; for throughput by workers, see npm run bench)

  --huge      also a store of 10,000,000 tokens (6 GiB in the folder for temporary files, and 15 minutes)
  --write     writes the tables to docs/design/performance.md and the figures to bench/compare/results.json
`);
  process.exit(0);
}
const STARTS = 10;
const REST_MS = 3_000;
/** Limited by the number of files it may open, and at most 5,000. */
const CONNECTIONS = Math.min(5_000, openFiles() - 500);
const CACHED = 101_000;
let count = 0;

await run(async () => {
  installPeers();
  const { openPlace } = await import('../compare/subjects.mjs');
  const place = await openPlace();
  /** @type {Start} */
  const start = (config) =>
    startLatchkey({
      folder: place.folder,
      name: `latchkey-${count++}`,
      cores: place.cores,
      upstreamPort: place.upstreamPort,
      fill: (path) => fillStore(path, place),
      config,
    });
  const scaling = {
    machine: machineFacts(),
    start: await measureStart(start),
    memory: await measureMemory(start, place),
    lookups: measureLookups(place, [1e4, 1e6, ...(values.huge ? [1e7] : [])]),
  };
  progress('');
  const sections = describe(scaling);
  process.stdout.write(`${Object.values(sections).join('\n\n')}\n`);
  if (values.write) {
    await writeResults('bench/compare/results.json', { scaling });
    await writeSections('docs/design/performance.md', sections);
  }
});

/**
 * From process start to the log line that reports it ready.
 *
 * @param {Start} start
 */
async function measureStart(start) {
  const wall = [];
  const cpu = [];
  for (let i = 0; i < STARTS; i++) {
    progress(`start ${i + 1} of ${STARTS}`);
    const server = await start();
    wall.push(server.readyAt - server.startedAt);
    cpu.push(cpuSeconds(familyOf(server.pid)) * 1000);
    await server.stop();
  }
  return { wall_ms: median(wall), cpu_ms: median(cpu) };
}

/**
 * @param {Start} start
 * @param {Place} place
 */
async function measureMemory(start, place) {
  progress('memory at rest');
  const one = await start();
  const two = await start({ workers: 2 });
  await sleep(REST_MS);
  const [rest, restOfTwo] = [one, two].map(memoryOf);
  await two.stop();
  progress(`${CONNECTIONS} idle connections`);
  const sockets = await openIdle(one.port, CONNECTIONS, place.keys[0]);
  await sleep(REST_MS);
  const withConnections = memoryOf(one);
  for (const socket of sockets) socket.destroy();
  await one.stop();
  progress('tokens in the cache');
  const program = join(import.meta.dirname, 'cached.mjs');
  /** @type {{ bytes_per_token: number }} */
  const cached = JSON.parse(
    execFileSync(process.execPath, ['--expose-gc', program, String(CACHED)]).toString(),
  );
  return {
    rest_bytes: rest,
    rest_bytes_two_workers: restOfTwo,
    bytes_per_idle_connection: (withConnections - rest) / CONNECTIONS,
    bytes_per_cached_token: cached.bytes_per_token,
  };
}

/** @param {Server} server */
function memoryOf({ pid }) {
  return memoryBytes(familyOf(pid));
}

/** @param {number} bytes */
function mebibytes(bytes) {
  return figure(bytes / 2 ** 20);
}

function openFiles() {
  const text = execFileSync('sh', ['-c', 'ulimit -n']).toString().trim();
  return text === 'unlimited' ? Infinity : Number(text);
}

/**
 * Opens connections that send one request each and then stay idle.
 *
 * @param {number} port
 * @param {number} number
 * @param {string} key
 */
async function openIdle(port, number, key) {
  const sockets = [];
  const request = `GET / HTTP/1.1\r\nHost: bench.example.com\r\nService-Key: ${key}\r\n\r\n`;
  for (let from = 0; from < number; from += 100) {
    const some = Array.from({ length: 100 }, () => connect(port, '127.0.0.1'));
    await Promise.all(
      some.map((socket) => {
        socket.write(request);
        return new Promise((answered, failed) => socket.once('data', answered).once('error', failed));
      }),
    );
    sockets.push(...some);
  }
  return sockets;
}

/**
 * @param {Place} place
 * @param {number[]} sizes
 * @returns {LookUps[]}
 */
function measureLookups(place, sizes) {
  return sizes.map((tokens) => {
    progress(`${tokens} tokens in the store`);
    const folder = join(place.folder, `store-${tokens}`);
    const args = ['-c', place.cores.join(','), process.execPath, join(import.meta.dirname, 'lookups.mjs'), folder, String(tokens)];
    const result = JSON.parse(execFileSync('taskset', args, { stdio: ['ignore', 'pipe', 'inherit'] }).toString());
    rmSync(folder, { recursive: true, force: true });
    return result;
  });
} // prettier-ignore

/** @param {Scaling} scaling */
function describe({ start, memory, lookups }) {
  return {
    'scaling-resources': table(
      ['', ''],
      [
        ['time from start to ready', `${figure(start.wall_ms)} ms`],
        ['CPU from start to ready', `${figure(start.cpu_ms)} ms`],
        ['memory at rest', `${mebibytes(memory.rest_bytes)} MiB`],
        ['memory at rest with two workers, all processes together', `${mebibytes(memory.rest_bytes_two_workers)} MiB`],
        ['memory of 1,000 idle connections', `${mebibytes(memory.bytes_per_idle_connection * 1e3)} MiB`],
        ['memory of 100,000 cached tokens (only with Redis)', `${mebibytes(memory.bytes_per_cached_token * 1e5)} MiB`],
      ],
    ),
    'scaling-lookups': table(
      ['tokens in the store', 'CPU µs: decoded before', 'first look-up', 'in an unread part of the store', 'bytes on disk per token', 'seconds to write them'],
      lookups.map(({ tokens, again_us, first_us, unmapped_us, bytes_per_token, loading_seconds }) => [
        tokens.toLocaleString('en-US'),
        figure(again_us),
        figure(first_us),
        figure(unmapped_us),
        figure(bytes_per_token),
        figure(loading_seconds),
      ]),
    ),
  };
} // prettier-ignore
