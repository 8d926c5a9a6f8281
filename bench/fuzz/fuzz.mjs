#!/usr/bin/env node
// Sends mutated requests to a server and reports unexpected behaviour. See `--help`.
import { fork } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SEEDS } from './corpus.mjs';
import { fuzzEngine, replayEngine } from './engine.mjs';
import { abandonAll, END, execute, minimise, reproduce } from './execute.mjs';
import { corrupt, mutate, serialise } from './mutate.mjs';
import { createRandom } from './random.mjs';
import { renew, startSubject } from './subject.mjs';

/** @import { Request } from './corpus.mjs' */
/** @import { Input } from './execute.mjs' */
/** @import { Random } from './random.mjs' */
/** @import { Subject } from './subject.mjs' */
/** @typedef {{ pipeline: Request[] }[]} Pool */

const BATCH = 100;
/** One of so many inputs is followed by the end of the client's side. */
const ENDS = 5;
/** Inputs of a batch that are abandoned. */
const ABANDONED = 20;
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    workers: { type: 'string', default: '1' },
    skip: { type: 'string' },
    replay: { type: 'string' },
    engine: { type: 'boolean', default: false },
    save: { type: 'string', default: join(tmpdir(), 'latchkey-finding.json') },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`node bench/fuzz/fuzz.mjs [options]     (npm run fuzz builds first)

  --seconds N     duration (60)
  --seed N        repeats the inputs of a run (random; it is printed)
  --workers N     processes, each with its own server and the next seed (1)
  --save FILE     file for the input of a finding (latchkey-finding.json in the folder for temporary files)
  --skip REGEXP   skips inputs that match, to get past known findings
  --replay FILE   sends one saved input and reports what is wrong
  --engine        compares the codec of src/http1 with Node's parser in this process, without a server
`);
  process.exit(0);
}
const seed = Number(values.seed);
const skip = values.skip === undefined ? undefined : new RegExp(values.skip, 'i');
/** @param {string} text */
const say = (text) => process.stdout.write(`${text}\n`);

if (values.engine) await engine();
else if (values.replay !== undefined) await replay(values.replay);
else if (Number(values.workers) > 1) await lead(Number(values.workers));
else await work();

async function engine() {
  const holds =
    values.replay === undefined
      ? await fuzzEngine({ seconds: Number(values.seconds), seed, save: values.save, say })
      : await replayEngine({ file: values.replay, say });
  if (!holds) process.exitCode = 1;
}

/**
 * Runs one process per worker; the first finding ends them all.
 *
 * @param {number} workers
 */
async function lead(workers) {
  const children = Array.from({ length: workers }, (_, i) =>
    fork(new URL(import.meta.url), [
      '--seconds', values.seconds, '--seed', String(seed + i), '--save', i === 0 ? values.save : `${values.save}.${i}`,
      ...(values.skip === undefined ? [] : ['--skip', values.skip]),
    ]),
  ); // prettier-ignore
  const codes = await Promise.all(children.map((child) => new Promise((done) => child.once('exit', done))));
  process.exitCode = codes.some((code) => code !== 0) ? 1 : 0;
}

async function work() {
  const random = createRandom(seed);
  const subject = await startSubject();
  say(`seed ${seed}`);
  const pool = SEEDS.map((pipeline) => ({ pipeline }));
  /** @type {string[]} */
  const raws = [];
  const shapes = new Set();
  const statuses = new Map();
  const until = Date.now() + Number(values.seconds) * 1000;
  const startedAt = Date.now();
  let runs = 0;
  /** @type {{ kind: string, detail: string, cause: Input }[]} */
  const passing = [];
  while (Date.now() < until && process.exitCode === undefined) {
    const { text, from } = next(random, pool, raws);
    if (skip?.test(text)) continue;
    const input = split(random, random.oneIn(ENDS) ? text + END : text);
    const result = await execute(subject, input);
    runs += 1;
    for (const status of result.statuses) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (!shapes.has(result.shape)) {
      shapes.add(result.shape);
      if (from !== undefined) pool.push({ pipeline: from });
      else raws.push(text);
    }
    const [finding] = result.found;
    if (finding !== undefined) {
      const { kind, detail, input: cause } = finding;
      // What the upstream received is certain, even if it depends on the moment.
      if (cause !== undefined) await report(subject, cause, kind, detail);
      else if (await reproduce(subject, input, kind)) await report(subject, input, kind);
      else passing.push({ kind, detail, cause: input });
    }
    if (runs % BATCH === 0) {
      await goAway(subject, random, pool, raws);
      await checkHealth(subject, input);
    }
    if (process.stdout.isTTY)
      process.stdout.write(
        `\r\u001b[K${runs} inputs, ${shapes.size} shapes, ${Math.round((until - Date.now()) / 1000)} s left`,
      );
  }
  await subject.stop();
  if (process.stdout.isTTY) say('');
  const rate = Math.round((runs * 1000) / (Date.now() - startedAt));
  const counts = [...statuses].toSorted(([a], [b]) => a - b).map(([status, times]) => `${status}: ${times}`);
  say(`${runs} inputs (${rate} a second), ${shapes.size} shapes, answers ${counts.join(', ')}`);
  if (passing.length > 0) {
    say(`${passing.length} times something was noticed that did not come again, the first time`);
    const [{ kind, detail, cause }] = passing;
    say(`  ${kind}: ${detail.slice(0, 400)}`);
    keep(cause);
  }
}

/**
 * Generates an input, mostly by mutating requests, sometimes bytes, sometimes both.
 *
 * @param {Random} random
 * @param {Pool} pool
 * @param {string[]} raws
 * @returns {{ text: string, from?: Request[] }}
 */
function next(random, pool, raws) {
  const way = random.below(10);
  if (way === 0 && raws.length > 0) return { text: corrupt(random, random.pick(raws), raws) };
  const recent = random.oneIn(2) ? pool.slice(-50) : pool;
  const pipeline = mutate(random, random.pick(recent).pipeline);
  const text = serialise(random, pipeline);
  return way < 3 ? { text: corrupt(random, text, raws) } : { text, from: pipeline };
}

/**
 * Cuts the text in up to three places, as a network would.
 *
 * @param {Random} random
 * @param {string} text
 */
function split(random, text) {
  const cuts = random.oneIn(3)
    ? Array.from({ length: 1 + random.below(3) }, () => random.below(text.length + 1))
    : [];
  const places = [0, ...cuts.toSorted((a, b) => a - b), text.length];
  return places.slice(1).map((to, i) => text.slice(places[i], to));
}

/**
 * Runs clients that disconnect in the middle of a request.
 *
 * @param {Subject} subject
 * @param {Random} random
 * @param {Pool} pool
 * @param {string[]} raws
 */
async function goAway(subject, random, pool, raws) {
  const inputs = Array.from({ length: ABANDONED }, () => [next(random, pool, raws).text]);
  const [finding] = await abandonAll(subject, random, inputs);
  if (finding === undefined) return;
  const { kind, detail, input = inputs[0] } = finding;
  await report(subject, input, 'reset', `${kind}: ${detail}`);
}

/**
 * Checks after every batch that a plain request still succeeds, and renews the credentials.
 *
 * @param {Subject} subject
 * @param {Input} last
 */
async function checkHealth(subject, last) {
  const headers = { 'Service-Key': subject.secrets.CONTROL.secret };
  const reply = await fetch(`${subject.url}/control`, { headers }).catch((error) => ({
    status: `${error}, ${error.cause?.code} ${error.cause?.message}`,
  }));
  if (!(reply instanceof Response) || reply.status !== 200) {
    for (const line of subject.takeLog().lines) if (/"level":[56]0/.test(line)) say(line);
    await report(
      subject,
      last,
      subject.alive() ? 'control' : 'dead',
      `the control request got ${reply.status}`,
    );
    return;
  }
  await reply.arrayBuffer();
  await renew(subject);
  subject.takeLog();
  subject.upstream.reset();
}

/**
 * @param {Subject} subject
 * @param {Input} input
 * @param {string} kind
 * @param {string} [detail]
 */
async function report(subject, input, kind, detail) {
  say(`\nFOUND ${kind} (seed ${seed})${detail === undefined ? '' : `: ${detail}`}; making it small`);
  const small = kind === 'dead' || kind === 'control' ? input : await minimise(subject, input, kind);
  const { found } = subject.alive() ? await execute(subject, small) : { found: [] };
  for (const each of found) say(`  ${each.kind}: ${each.detail}`);
  say(`input, in pieces:\n${JSON.stringify(small, null, 1)}`);
  keep(small);
  process.exitCode = 1;
}

/** @param {Input} input */
function keep(input) {
  writeFileSync(values.save, JSON.stringify(input));
  say(`kept in ${values.save}; --replay ${values.save} sends it again`);
}

/** @param {string} file */
async function replay(file) {
  const subject = await startSubject();
  const { found, statuses, seen } = await execute(subject, JSON.parse(readFileSync(file, 'utf8')));
  say(`answers ${statuses.join()}, ${seen.requests.length} requests upstream`);
  for (const request of seen.requests) say(`  ${JSON.stringify(request.bytes.toString('latin1'))}`);
  for (const { kind, detail } of found) say(`${kind}: ${detail}`);
  await subject.stop();
  process.exitCode = found.length > 0 ? 1 : 0;
}
