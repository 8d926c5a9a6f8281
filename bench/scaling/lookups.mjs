// How long a look-up takes in a store of some size. Started with: folder, number of tokens. Prints one line of JSON.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { openLmdbStore } from '../../dist/store/lmdb.js';
import { fillStore, unusedDigestAt } from '../lib/records.mjs';
import { median } from '../lib/statistics.mjs';

const [folder, text] = process.argv.slice(2);
const tokens = Number(text);
const ROUNDS = 9;
const LOOKUPS = 100_000;

const startedAt = performance.now();
await fillStore(
  folder,
  { more: tokens },
  (said) => process.stderr.isTTY && process.stderr.write(`\r\u001b[K${said}`),
);
const seconds = (performance.now() - startedAt) / 1000;
const store = openLmdbStore(folder);
// The first ones are found in no page of memory and are not compiled: what is asked is how it is later.
measure();
const rounds = Array.from({ length: ROUNDS }, measure);
await store.close();
const { blocks } = statSync(join(folder, 'data.mdb'));
process.stdout.write(
  `${JSON.stringify({ tokens, us: median(rounds.map(({ us }) => us)), cpu_us: median(rounds.map(({ cpuUs }) => cpuUs)), bytes_per_token: (blocks * 512) / tokens, loading_seconds: seconds })}\n`,
);

/** Microseconds of a look-up of a random token, by the clock and of CPU, without the making of its digest. */
function measure() {
  const digests = Array.from({ length: LOOKUPS }, () =>
    unusedDigestAt(Math.floor(Math.random() * tokens), tokens),
  );
  const [before, cpuBefore] = [performance.now(), process.cpuUsage()];
  let found = 0;
  for (const digest of digests) if (store.findToken(digest) !== undefined) found += 1;
  const { user, system } = process.cpuUsage(cpuBefore);
  const us = ((performance.now() - before) / LOOKUPS) * 1000;
  if (found !== LOOKUPS) throw new Error(`${LOOKUPS - found} tokens were not found`);
  return { us, cpuUs: (user + system) / LOOKUPS };
}
