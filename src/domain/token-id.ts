import { BASE62, newId } from './secret.js';

/** Of a token's id, the characters of its family, and those that count the rotations; the rest is random. */
export const FAMILY = 12;
const COUNT = 6;
export const PLACE = FAMILY + COUNT;

/**
 * Generates the id of a token that came from no other.
 *
 * The id of a replacement has the same family and the next count. So it tells which tokens it came
 * from, even when their records are gone.
 */
export function newTokenId(): string {
  return withCount(newId(), 0);
}

/** Generates the id of a token's replacement. */
export function successorIdOf(id: string): string {
  let count = 0;
  for (const digit of id.slice(FAMILY, PLACE)) count = count * BASE62.length + BASE62.indexOf(digit);
  return withCount(id.slice(0, FAMILY) + newId().slice(FAMILY), count + 1);
}

/** Returns the bounds, neither included, of the ids of all tokens that came from a token by rotation. */
export function idsAfter(id: string): readonly [start: string, end: string] {
  // In the order of bytes, `~` comes after all characters of ids.
  return [`${id.slice(0, PLACE)}~`, `${id.slice(0, FAMILY)}~`];
}

/** Returns those ids that come from none of the others by rotation. */
export function outermost(ids: Iterable<string>): string[] {
  const found: string[] = [];
  let [start, end] = ['', ''];
  for (const id of [...new Set(ids)].toSorted((a, b) => (a < b ? -1 : 1))) {
    if (id > start && id < end) continue;
    found.push(id);
    [start, end] = idsAfter(id);
  }
  return found;
}

function withCount(id: string, count: number): string {
  let digits = '';
  for (let rest = count; digits.length < COUNT; rest = Math.floor(rest / BASE62.length))
    digits = BASE62.charAt(rest % BASE62.length) + digits;
  return id.slice(0, FAMILY) + digits + id.slice(PLACE);
}
