/**
 * Whether one text becomes the other by one edit: a character added, left out or replaced, or two neighbours that
 * changed places. Time grows with the shorter one.
 */
export function isOneEdit(a: string, b: string): boolean {
  const [short, long] = a.length <= b.length ? [a, b] : [b, a];
  if (long.length - short.length > 1) return false;
  let same = 0;
  while (same < short.length && short[same] === long[same]) same += 1;
  const [x, y] = [short.slice(same), long.slice(same)];
  if (x === y) return false;
  if (x.length < y.length) return x === y.slice(1);
  if (x.slice(1) === y.slice(1)) return true;
  return x[0] === y[1] && x[1] === y[0] && x.slice(2) === y.slice(2);
}
