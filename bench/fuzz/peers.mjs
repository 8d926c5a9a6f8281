#!/usr/bin/env node
// Puts hostile clients in front of a server and a hostile upstream behind it. See `--help`.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { KEY, makeClient, play } from './clients.mjs';
import { startServers } from './peers-subject.mjs';
import { createRandom } from './random.mjs';
import { makeAnswer, startHostileUpstream } from './upstream.mjs';

/** Cases between two checks, and clients in each case. */
const BATCH = 20;
const CLIENTS = 16;
const CLIENT_MS = 350;
/**
 * Allowed growth of the servers' memory in use from the first tenth of a run to its end, in MiB.
 */
const MAX_GROWTH_MIB = 6;
const SEEDS = new URL('peers-seeds.json', import.meta.url);

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    replay: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`npm run fuzz:peers -- [options]     (builds first)

Hostile clients (handshakes, HTTP/2 frames, resets) and a hostile upstream (heads, 101s, trailers), each case on both sides at once.
After each ${BATCH} cases the servers must be alive, serve a plain request, have logged no fault, and have no negative counts and no
activity at rest. At the end their memory must not have grown.

  --minutes N     duration (1)
  --seed N        repeats the cases of a run (random; it is printed)
  --replay        plays the cases of peers-seeds.json instead
`);
  process.exit(0);
}
/** @param {string} text */
const say = (text) => process.stdout.write(`${text}\n`);
const folder = mkdtempSync(join(tmpdir(), 'latchkey-fuzz-'));
const upstream = await startHostileUpstream();
const servers = await startServers(folder, upstream.url, KEY);
const subject = { port: servers.plain.port, tlsPort: servers.tls.port };
const all = [servers.plain, servers.tls];
try {
  if (values.replay) await replay();
  else await fuzz(Number(values.seed), Number(values.minutes));
} finally {
  for (const server of all) await server.stop();
  upstream.close();
  rmSync(folder, { recursive: true, force: true });
}

/**
 * Generates one case: the upstream's responses and how it ends, and the clients. The nth case of a
 * seed is always the same.
 *
 * @param {number} seed
 * @param {number} nth
 */
function makeCase(seed, nth) {
  const random = createRandom((seed ^ Math.imul(nth + 1, 0x9e3779b1)) >>> 0);
  return {
    answers: Array.from({ length: CLIENTS }, () => makeAnswer(random)),
    ending: random.pick(/** @type {const} */ (['keep', 'keep', 'end', 'reset'])),
    pieces: random.pick([1, 1, 2, 5]),
    clients: Array.from({ length: CLIENTS }, (_, at) => makeClient(random, at)),
  };
}

/** @param {ReturnType<typeof makeCase>} made */
async function playCase({ answers, ending, pieces, clients }) {
  Object.assign(upstream.state, { answers, ending, pieces });
  await Promise.all(clients.map((client) => play(client, subject, CLIENT_MS)));
}

/**
 * @param {number} seed
 * @param {number} minutes
 */
async function fuzz(seed, minutes) {
  say(`seed ${seed}`);
  const begun = Date.now();
  const until = begun + minutes * 60_000;
  let first;
  let nth = 0;
  for (; Date.now() < until; nth++) {
    await playCase(makeCase(seed, nth));
    if ((nth + 1) % BATCH > 0) continue;
    const found = await check();
    if (found.length > 0) {
      await isolate(seed, nth - BATCH + 1, nth, found);
      return;
    }
    if (first === undefined && Date.now() - begun > (until - begun) / 10) first = await memory();
  }
  const grown = first === undefined ? 0 : (await memory()) - first;
  say(`${nth} cases of ${CLIENTS} clients, memory in use grew by ${grown.toFixed(1)} MiB`);
  if (grown > MAX_GROWTH_MIB) {
    say('FOUND: memory is not flat');
    process.exitCode = 1;
  }
}

/**
 * Finds the case of a batch that caused a finding, and saves it in a form that `--replay` and the
 * tests can read.
 *
 * @param {number} seed
 * @param {number} from
 * @param {number} to
 * @param {string[]} found
 */
async function isolate(seed, from, to, found) {
  for (const each of found) say(`FOUND (seed ${seed}, cases ${from} to ${to}): ${each}`);
  const cases = Array.from({ length: to - from + 1 }, (_, i) => ({ seed, nth: from + i }));
  const file = join(tmpdir(), 'latchkey-peers-finding.json');
  writeFileSync(file, JSON.stringify(cases));
  say(`these cases are kept in ${file}; add the one that does it to ${SEEDS.pathname}`);
  process.exitCode = 1;
}

async function replay() {
  const cases = JSON.parse(readFileSync(SEEDS, 'utf8'));
  for (const { seed, nth } of cases) {
    await playCase(makeCase(seed, nth));
    const found = await check();
    for (const each of found) say(`FOUND (seed ${seed}, case ${nth}): ${each}`);
    if (found.length > 0) process.exitCode = 1;
  }
  say(`${cases.length} cases replayed`);
}

/** Returns what is wrong at present. */
async function check() {
  Object.assign(upstream.state, { answers: [] });
  const found = [];
  for (const server of all) found.push(...(await server.check(KEY)));
  return found;
}

async function memory() {
  const each = await Promise.all(all.map((server) => server.liveMemory()));
  return each.reduce((sum, one) => sum + one, 0);
}
