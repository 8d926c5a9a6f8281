#!/usr/bin/env node
// Detects whether a request has become more expensive. Compares with limits.json what can be
// compared on a noisy machine: the bytes allocated per request, how many of them survive the
// collections of young objects, and the ratio of Latchkey's CPU time to that of a bare TCP pipe in
// adjacent rounds. That ratio varies by a third between starts, so only large changes are detected.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { allocationsDuring, openInspector, survivorsDuring } from '../lib/inspector.mjs';
import { startLatchkey } from '../lib/latchkey.mjs';
import { figure, progress } from '../lib/output.mjs';
import { installPeers } from '../lib/peers.mjs';
import { run } from '../lib/processes.mjs';
import { fillStore } from '../lib/records.mjs';
import { measureRound } from '../lib/round.mjs';
import { median, quantile } from '../lib/statistics.mjs';
import { warmUp, wrk } from '../lib/wrk.mjs';
import { judge } from './judge.mjs';

/** @import { Round, Started, WrkLoad } from '../lib/round.mjs' */
/** @import { Workload } from '../compare/workloads.mjs' */
/** @typedef {{ name: string, started: Started, load: WrkLoad, rounds: Round[] }} Turn */
/** @typedef {{ cpu: number[][], foreign: number }} Quiet CPU µs a request by turn and round */

const LIMITS = join(import.meta.dirname, 'limits.json');
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    seconds: { type: 'string', default: '2' },
    set: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run bench:check -- [options]     (about two minutes)

  --rounds N    rounds of each of the three (12)
  --seconds N   length of a round (2)
  --set         saves the measurements as the new limits for this version of Node
  --json        one line of JSON

Exits with 1 if a request costs more than bench/check/limits.json allows.
`);
  process.exit(0);
}
/**
 * Few, so that writing last uses has the same weight at every speed: it depends on time, not on
 * requests.
 */
const KEYS = 20;
const ALLOCATION_SECONDS = 4;
/**
 * Requests per second over hundreds of connections, each of which keeps its last request while
 * idle. It runs first, because V8 decides by the first survivors where it allocates from then on.
 */
const STEADY = { rate: 1000, seconds: 5 };
/** Long enough to outweigh the 256 connections opened for it on each side. */
const SURVIVORS_SECONDS = 20;

await run(async () => {
  installPeers();
  const { openPlace, prepareLoad } = await import('../compare/subjects.mjs');
  const { findWorkload } = await import('../compare/workloads.mjs');
  const { paced } = await import('../compare/latency.mjs');
  const { tcpPipe } = await import('../compare/peers/node.mjs');
  const place = await openPlace();
  place.keys = place.keys.slice(0, KEYS);
  const [forwarded, refused] = /** @type {Workload[]} */ (['token', 'unknown'].map(findWorkload));
  const bare = await tcpPipe.start(place);
  const latchkey = await startLatchkey({
    folder: place.folder,
    name: 'latchkey',
    cores: place.cores,
    upstreamPort: place.upstreamPort,
    fill: (path) => fillStore(path, place),
    nodeArgs: ['--inspect=127.0.0.1:0'],
  });
  const server = { ...latchkey, pids: { proxy: latchkey.pid } };
  /** @type {Turn[]} */
  const turns = [
    { name: 'bare', started: bare, load: await prepareLoad(forwarded, tcpPipe, bare, place), rounds: [] },
    { name: 'forwarded', started: server, load: await prepareLoad(forwarded, { name: 'Latchkey' }, server, place), rounds: [] },
    { name: 'refused', started: server, load: await prepareLoad(refused, { name: 'Latchkey' }, server, place), rounds: [] },
  ];
  /** @param {{ seconds?: number }} [more] */
  const steadily = (more) => paced({ name: 'Latchkey' }, server, place, { ...STEADY, ...more });
  progress('a steady load');
  await steadily();
  /** @param {Turn} turn */
  const target = ({ started, load }) => ({ url: `http://127.0.0.1:${started.port}/`, script: load.script, cores: place.loadCores });
  for (const turn of turns) {
    progress(`warm-up: ${turn.name}`);
    await warmUp(target(turn));
  }
  const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
  for (let round = 0; round < rounds; round++) {
    progress(`round ${round + 1} of ${rounds}`);
    // Alternates the order, so that a drift of the machine affects all rows alike.
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) {
      const settings = { seconds, cores: place.loadCores, measuredCores: place.cores };
      turn.rounds.push(await measureRound(turn.started, turn.load, settings));
    }
  }
  progress('allocations');
  const inspector = await openInspector(server.inspector);
  const allocated = [];
  for (const turn of turns.slice(1)) {
    const { result, bytes } = await allocationsDuring(inspector, () => wrk({ ...target(turn), seconds: ALLOCATION_SECONDS }));
    allocated.push(bytes / result.requests / 1024);
  }
  progress('survivors');
  const { result: steady, bytes: kept } = await survivorsDuring(inspector, () => steadily({ seconds: SURVIVORS_SECONDS }));
  inspector.close();
  progress('');
  report(quietestHalf(turns), allocated, kept / steady.requests / 1024);
}); // prettier-ignore

/**
 * Returns the half of the rounds with the least other load on the measured core. Other load costs a
 * program with more memory more, so it changes the ratios, too.
 *
 * @param {Turn[]} turns
 * @returns {Quiet}
 */
function quietestHalf(turns) {
  /** @param {number} index of a round */
  const foreign = (index) => Math.max(...turns.map(({ rounds }) => rounds[index].foreign_share));
  const complete = turns[0].rounds.map((_, index) => index).filter((index) => turns.every(({ rounds }) => rounds[index].cpu_us > 0));
  const kept = complete.toSorted((a, b) => foreign(a) - foreign(b)).slice(0, Math.ceil(turns[0].rounds.length / 2));
  if (kept.length < 2) throw new Error('the machine is too busy: most rounds saw no answer at all');
  return {
    cpu: turns.map(({ rounds }) => kept.map((index) => rounds[index].cpu_us)),
    foreign: median(kept.map(foreign)),
  };
} // prettier-ignore

/**
 * @param {Quiet} quiet
 * @param {number[]} allocated KiB per request
 * @param {number} keptKib
 */
function report({ cpu: [bare, forwarded, refused], foreign }, [forwardedKib, refusedKib], keptKib) {
  /** @param {number[]} cpu */
  const ratios = (cpu) => cpu.map((value, index) => value / bare[index]);
  const [forwardedRatio, refusedRatio] = [ratios(forwarded), ratios(refused)];
  const measured = {
    // Disturbances only make a round more expensive, so the cheaper rounds show the cost of the
    // code.
    forwarded_cpu_ratio: round(quantile(forwardedRatio, 0.25)),
    refused_cpu_ratio: round(quantile(refusedRatio, 0.25)),
    forwarded_kib: round(forwardedKib),
    refused_kib: round(refusedKib),
    kept_kib: round(keptKib),
  };
  const major = process.version.split('.')[0].slice(1);
  const all = JSON.parse(readFileSync(LIMITS, 'utf8'));
  const isQuiet = foreign <= all.quiet;
  if (values.set) {
    all.limits[major] = measured;
    writeFileSync(LIMITS, `${JSON.stringify(all, null, 2)}\n`);
  }
  const faults = judge(measured, all.limits[major], all.tolerance, isQuiet);
  if (faults.length > 0) process.exitCode = 1;
  if (values.json) {
    process.stdout.write(`${JSON.stringify({ ...measured, bare_us: round(median(bare)), foreign: round(foreign), faults })}\n`);
    return;
  }
  const busy = `CPU was not judged: something else had ${Math.round(foreign * 100)} % of the core, which changes the ratios`;
  process.stdout.write(`bare TCP pipe          ${figure(median(bare))} µs of CPU a request
forwarded by Latchkey  ${figure(measured.forwarded_cpu_ratio)} times that in the cheapest quarter of the rounds (median ${figure(median(forwardedRatio))}), ${figure(forwardedKib)} KiB allocated
refused by Latchkey    ${figure(measured.refused_cpu_ratio)} times that in the cheapest quarter of the rounds (median ${figure(median(refusedRatio))}), ${figure(refusedKib)} KiB allocated
forwarded steadily     ${figure(keptKib)} KiB of a request outlive the collections of young objects
${isQuiet ? '' : `${busy}\n`}${faults.length === 0 ? 'within the limits of bench/check/limits.json' : faults.join('\n')}
`);
} // prettier-ignore

/** @param {number} value */
function round(value) {
  return Number(value.toPrecision(3));
}
