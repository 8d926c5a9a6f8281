/**
 * Maximum difference in length after one edit, in UTF-16 code units: non-BMP characters take two.
 */
const MAX_DIFFERENCE = 2;

/**
 * Whether two texts differ by exactly one edit.
 *
 * An edit inserts, deletes or replaces one character, or swaps two neighbours. Runs in time linear
 * in the shorter text.
 */
export function isOneEdit(one: string, other: string): boolean {
  if (Math.abs(one.length - other.length) > MAX_DIFFERENCE) return false;
  const [a, b] = [Array.from(one), Array.from(other)];
  const [short, long] = a.length <= b.length ? [a, b] : [b, a];
  if (long.length - short.length > 1) return false;
  let same = 0;
  while (same < short.length && short[same] === long[same]) same += 1;
  const [x, y] = [short.slice(same), long.slice(same)];
  if (y.length === 0) return false;
  if (x.length < y.length) return isSame(x, y.slice(1));
  if (isSame(x.slice(1), y.slice(1))) return true;
  return x[0] === y[1] && x[1] === y[0] && isSame(x.slice(2), y.slice(2));
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((character, i) => character === b[i]);
}
