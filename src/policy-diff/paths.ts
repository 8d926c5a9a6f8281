import { decodeAscii } from '../domain/path.js';

/**
 * Maximum number of path prefixes to explore. Prefixes are distinguished by the patterns that match
 * them.
 */
const MAX_STATES = 200_000;

/**
 * A part of a path pattern: a fixed segment as it is matched and as it is written, a parameter, or
 * `*`.
 */
type Part = { readonly fixed: string; readonly written: string } | 'parameter' | 'rest';

interface Pattern {
  readonly parts: readonly Part[];
}

/** A path prefix: the patterns that match so far, and those that match whatever follows. */
interface State {
  readonly open: readonly number[];
  readonly closed: readonly number[];
  /** The segments so far, as they are sent. */
  readonly segments: readonly string[];
}

/** Paths that represent all others. */
export interface PathSample {
  /** One path, as it is sent, for each set of patterns that match some path together. */
  readonly paths: readonly string[];
  /** Whether every set is included. */
  readonly complete: boolean;
}

/**
 * Finds one path for each set of patterns that match some path together.
 *
 * The route of a path depends on nothing but that set and the method. So a decision that holds for
 * these paths holds for every path with a single reading. Segment by segment, a path may have any
 * fixed segment of the patterns that match so far, or one that no pattern names. Prefixes that the
 * same patterns can complete continue alike, so each such set is followed once.
 *
 * @param patterns paths of routes, of several tables together
 */
export function samplePaths(patterns: Iterable<string>, most = MAX_STATES): PathSample {
  const all = distinct(patterns);
  const fresh = freshNames(all);
  const seen = new Set<string>();
  const found = new Map<string, string>();
  const note = (matched: readonly number[], segments: readonly string[]) => {
    const key = matched.toSorted((a, b) => a - b).join();
    if (!found.has(key)) found.set(key, `/${segments.join('/')}`);
  };
  const waiting: State[] = [{ open: all.map((_, i) => i), closed: [], segments: [] }];
  for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
    const { segments, open, closed } = state;
    const depth = segments.length;
    if (depth > 0) note([...closed, ...open.filter((i) => all[i]?.parts.length === depth)], segments);
    for (const next of successors(all, state, fresh)) {
      const key = `${next.open.length === 0 ? '' : depth + 1}:${next.open.join()}:${next.closed.join()}`;
      if (seen.has(key)) continue;
      seen.add(key);
      if (seen.size > most) return { paths: [...found.values()], complete: false };
      waiting.push(next);
    }
  }
  // Only `*` matches an empty segment, and `/` is the only such path that all readers read alike.
  note(
    all.flatMap(({ parts }, i) => (isRoot(parts) || parts[0] === 'rest' ? [i] : [])),
    [],
  );
  return { paths: [...found.values()], complete: true };
}

/** Returns the patterns without duplicates, regardless of parameter names and escapes. */
function distinct(patterns: Iterable<string>): Pattern[] {
  const byShape = new Map<string, Pattern>();
  for (const path of patterns) {
    const parts = path.slice(1).split('/').map(partOf);
    const shape = JSON.stringify(parts.map((part) => (typeof part === 'string' ? part : [part.fixed])));
    if (!byShape.has(shape)) byShape.set(shape, { parts });
  }
  return [...byShape.values()];
}

function partOf(segment: string, index: number, all: readonly string[]): Part {
  if (segment.startsWith(':')) return 'parameter';
  if (segment === '*' && index === all.length - 1) return 'rest';
  const fixed = decodeAscii(segment);
  // A request with an escape that it does not need is ambiguous.
  return { fixed, written: fixed.replaceAll(/[^\w.~!$&'()*+,;=:@%-]/g, encodeURIComponent) };
}

function isRoot(parts: readonly Part[]): boolean {
  const [part] = parts;
  return parts.length === 1 && typeof part === 'object' && part.fixed === '';
}

/** Returns the continuations of a prefix by one segment. */
function successors(all: readonly Pattern[], { open, closed, segments }: State, fresh: Fresh): State[] {
  const depth = segments.length;
  // An empty segment is the last one: a path that continues after it is ambiguous.
  if (segments.at(-1) === '') return [];
  const byFixed = new Map<string, { written: string; open: number[] }>();
  const byAny: number[] = [];
  const rest = [...closed];
  for (const i of open) {
    const part = all[i]?.parts[depth];
    if (part === undefined) continue;
    if (part === 'rest') rest.push(i);
    else if (part === 'parameter') byAny.push(i);
    else {
      const known = byFixed.get(part.fixed);
      if (known === undefined) byFixed.set(part.fixed, { written: part.written, open: [i] });
      else known.open.push(i);
    }
  }
  const closedNow = rest.length === closed.length ? closed : rest.toSorted((a, b) => a - b);
  const next = (written: string, fitting: readonly number[]): State => ({
    open: fitting,
    closed: closedNow,
    segments: [...segments, written],
  });
  const named = [...byFixed.values()].map((each) =>
    // A parameter does not match an empty segment.
    next(each.written, each.written === '' ? each.open : merged(each.open, byAny)),
  );
  // Where no pattern is open, the rest of the path makes no difference.
  return open.length === 0 ? [] : [...named, next(fresh(depth), byAny)];
}

function merged(a: readonly number[], b: readonly number[]): number[] {
  return b.length === 0 ? [...a] : [...a, ...b].toSorted((x, y) => x - y);
}

/** Returns a segment that no pattern names, a different one for each depth. */
type Fresh = (depth: number) => string;

function freshNames(all: readonly Pattern[]): Fresh {
  const fixed = new Set(all.flatMap(({ parts }) => parts.flatMap((part) => (typeof part === 'object' ? [part.fixed] : []))));
  let stem = 'any';
  while ([...fixed].some((each) => each.startsWith(stem))) stem += '-';
  return (depth) => `${stem}${depth + 1}`;
} // prettier-ignore
