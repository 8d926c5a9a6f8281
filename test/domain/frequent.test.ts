import * as fc from 'fast-check';
import t from 'tap';
import { type Counted, Frequent, mergeFrequent } from '../../src/util/collections.js';
import { property } from '../helpers/property.js';

const CAPACITY = 4;

/** Counts the keys in the given order; returns the list. */
function listOf(keys: readonly string[]): Counted<number>[] {
  const list = new Frequent<number>(CAPACITY);
  keys.forEach((key, i) => {
    const known = list.get(key);
    if (known === undefined) list.add(key, i);
    else known.count += 1;
  });
  return list.list();
}

function exactly(keys: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}

/** Describes what is wrong with the list of some keys; undefined if nothing is. */
function faultOf(items: readonly Counted<number>[], keys: readonly string[]): string | undefined {
  const counts = exactly(keys);
  const listed = new Set(items.map(({ key }) => key));
  if (items.length > CAPACITY) return `${items.length} items`;
  if (listed.size < items.length) return 'a key twice';
  for (const { key, count } of items) {
    const exact = counts.get(key) ?? 0;
    if (count < exact) return `${key}: ${count} is less than ${exact}`;
  }
  const least = Math.min(...items.map(({ count }) => count));
  for (const [key, exact] of counts)
    if (!listed.has(key) && exact > least) return `${key} came ${exact} times and is not there`;
  return undefined;
}

/** A few keys are frequent, many are rare. */
const keys = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom('a', 'b', 'c') },
    fc.integer({ min: 0, max: 20 }).map(String),
  ),
  {
    maxLength: 120,
  },
);

property('counts are never too low, and no frequent key is missing', 5_000, keys, (stream) => {
  const fault = faultOf(listOf(stream), stream);
  if (fault !== undefined) throw new Error(fault);
});

property('merged lists add up, most frequent first', 5_000, fc.array(keys, { maxLength: 4 }), (streams) => {
  const lists = streams.map(listOf);
  const merged = mergeFrequent(lists.flat(), CAPACITY, Math.max);
  for (const { key, count } of merged) {
    const sum = lists.flat().reduce((total, each) => total + (each.key === key ? each.count : 0), 0);
    if (count !== sum) throw new Error(`${key}: ${count} instead of ${sum}`);
  }
  const counts = merged.map(({ count }) => count);
  if (counts.some((count, i) => count > (counts[i - 1] ?? Infinity))) throw new Error('not in order');
});

property('a list that was never full is exact', 500, fc.array(fc.constantFrom('a', 'b', 'c')), (stream) => {
  for (const { key, count } of listOf(stream))
    if (count !== exactly(stream).get(key)) throw new Error(`${key}: ${count}`);
});

t.test('a frequent key stays in the list, however many others come', async (t) => {
  const noise = Array.from({ length: 2_000 }, (_, i) => (i % 3 === 0 ? 'often' : `once ${i}`));
  const often = listOf(noise).find(({ key }) => key === 'often');
  t.match(often, { value: 0 }, 'with the value that it was first added with');
  t.ok((often?.count ?? 0) >= 667);
});
