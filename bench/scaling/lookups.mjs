// Measures the time of a look-up in a store of a given size. Started with: folder, number of
// tokens. Prints one line of JSON.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { built } from '../lib/built.mjs';
import { progress } from '../lib/output.mjs';
import { fillStore, unusedDigestAt } from '../lib/records.mjs';
import { median } from '../lib/statistics.mjs';

const { openLmdbStore } = await built('store/lmdb');
const [folder, text] = process.argv.slice(2);
const tokens = Number(text);
const ROUNDS = 25;
/**
 * Number of distinct tokens looked up in sequence: fewer than the store caches, and all of the
 * smallest store.
 */
const DIFFERENT = 10_000;
/** Tokens that are looked up repeatedly. */
const BUSY = 1_000;
const AGAIN = 100_000;
const WARM_UPS = 20;
/** Looking up every third token touches every page with tokens. */
const STRIDE = 3;

const startedAt = performance.now();
await fillStore(folder, { more: tokens }, progress);
const seconds = (performance.now() - startedAt) / 1000;

// Compiles the code before the measurement; few tokens, so that hardly any pages are touched.
const few = randomDigests(BUSY);
for (let i = 0; i < WARM_UPS; i++) lookUp(openLmdbStore(folder), few);
const unmapped = lookUp(openLmdbStore(folder), randomDigests(DIFFERENT));
const mapped = openLmdbStore(folder);
for (let index = 0; index < tokens; index += STRIDE) void mapped.tokens.find(unusedDigestAt(index, tokens));
const rounds = Array.from({ length: ROUNDS }, measureRound);
await mapped.maintenance.close();

const { blocks } = statSync(join(folder, 'data.mdb'));
/** @typedef {typeof result} LookUps */
const result = {
  tokens,
  again_us: median(rounds.map(({ again }) => again)),
  first_us: median(rounds.map(({ first }) => first)),
  unmapped_us: unmapped,
  bytes_per_token: (blocks * 512) / tokens,
  loading_seconds: seconds,
};
process.stdout.write(`${JSON.stringify(result)}\n`);

/** A reopened store has no cached records; the pages that the process has touched stay mapped. */
function measureRound() {
  const store = openLmdbStore(folder);
  const first = lookUp(store, randomDigests(DIFFERENT));
  const busy = randomDigests(BUSY);
  lookUp(store, busy);
  const again = lookUp(
    store,
    Array.from({ length: AGAIN }, () => busy[Math.floor(Math.random() * BUSY)]),
  );
  return { first, again };
}

/**
 * Returns the digests of distinct tokens.
 *
 * @param {number} count
 */
function randomDigests(count) {
  const chosen = new Set();
  while (chosen.size < count) chosen.add(Math.floor(Math.random() * tokens));
  return Array.from(chosen, (index) => unusedDigestAt(index, tokens));
}

/**
 * Returns the CPU time per look-up in microseconds, without computing the digest.
 *
 * @param {import('../../src/store/core/store.js').Store} store
 * @param {string[]} digests
 */
function lookUp(store, digests) {
  const before = process.cpuUsage();
  let found = 0;
  for (const digest of digests) if (store.tokens.find(digest) !== undefined) found += 1;
  const { user, system } = process.cpuUsage(before);
  if (found !== digests.length) throw new Error(`${digests.length - found} tokens were not found`);
  return (user + system) / digests.length;
}
