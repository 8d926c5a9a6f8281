// Measures the memory of tokens in the cache in front of Redis. Started with --expose-gc and a
// number of tokens. Prints one line of JSON.
import { built } from '../lib/built.mjs';
import { tokenOf, unusedDigestAt, userAt } from '../lib/records.mjs';

const { TokenCache } = await built('store/cache/token-cache');
const { Revocations } = await built('store/revocations');
const tokens = Number(process.argv[2]);
/**
 * A store that creates a new object for each record, like one that reads from a network.
 *
 * @param {string} digest
 */
const find = async (digest) => {
  const index = Number(digest.slice(0, digest.indexOf('.')));
  return JSON.parse(JSON.stringify({ token: { ...tokenOf(unusedDigestAt(index, tokens), index) }, owner: userAt(index, null) }));
}; // prettier-ignore
const cache = new TokenCache(
  /** @type {import('../../src/store/core/store.js').Store} */ ({ tokens: { find } }),
  new Revocations(null),
  { size: tokens, ttl: 3_600_000, negative_ttl: 2_000, serveCachedFor: null },
  { hit: () => undefined, miss: () => undefined, servedStale: () => undefined, received: () => undefined },
);
cache.enable();
await look(0, 1_000);
const before = settled();
await look(1_000, tokens);
const after = settled();
/** @param {NodeJS.MemoryUsage} heap */
const bytes = (heap) => heap.heapUsed + heap.external;
process.stdout.write(
  `${JSON.stringify({ tokens: tokens - 1_000, bytes_per_token: (bytes(after) - bytes(before)) / (tokens - 1_000) })}\n`,
);

/**
 * @param {number} from
 * @param {number} to
 */
async function look(from, to) {
  // As long as a digest, because the key is kept, too.
  for (let index = from; index < to; index++) await cache.findToken(`${index}.`.padEnd(43, 'x'));
}

function settled() {
  for (let i = 0; i < 3; i++) /** @type {NodeJS.GCFunction} */ (globalThis.gc)();
  return process.memoryUsage();
}
