import { decodeAscii } from '../domain/path.js';

/** Kinds of paths are kept apart by the patterns that fit them; more than these are not looked through. */
const MAX_STATES = 200_000;

/** A part of a path pattern: a fixed segment as it is matched and as it is written, a parameter, or `*`. */
type Part = { readonly fixed: string; readonly written: string } | 'parameter' | 'rest';

interface Pattern {
  readonly parts: readonly Part[];
}

/** A beginning of a path: the patterns that fit so far, and those that fit however it goes on. */
interface State {
  readonly open: readonly number[];
  readonly closed: readonly number[];
  /** The segments so far, as they are sent. */
  readonly segments: readonly string[];
}

/** Paths that stand for all others. */
export interface PathSample {
  /** One path, as it is sent, for each set of patterns that fit some path together. */
  readonly paths: readonly string[];
  /** Whether no set is missing. */
  readonly complete: boolean;
}

/**
 * Finds one path for each set of patterns that some path fits together.
 *
 * Which route takes a path depends on nothing else than that set and the method. So a decision that holds for these paths holds for
 * every path of which there is one reading. Segment by segment, a path may have any fixed segment of the patterns that fit so far, or
 * one that no pattern names. Beginnings that the same patterns can complete go on alike, so each such set is followed once.
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
  // No pattern fits an empty segment but "*": "/" is the one such path that everybody reads alike.
  note(
    all.flatMap(({ parts }, i) => (isRoot(parts) || parts[0] === 'rest' ? [i] : [])),
    [],
  );
  return { paths: [...found.values()], complete: true };
}

/** The patterns, each once however its parameters are called and its segments are escaped. */
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
  return { fixed: decodeAscii(segment), written: segment };
}

function isRoot(parts: readonly Part[]): boolean {
  const [part] = parts;
  return parts.length === 1 && typeof part === 'object' && part.fixed === '';
}

/** The ways in which a beginning goes on by one segment. */
function successors(all: readonly Pattern[], { open, closed, segments }: State, fresh: Fresh): State[] {
  const depth = segments.length;
  // An empty segment is the last one: a path that goes on behind it is not read alike by everybody.
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
    // An empty segment is no value of a parameter.
    next(each.written, each.written === '' ? each.open : merged(each.open, byAny)),
  );
  // Behind a segment that nothing names, and where nothing can follow, all goes on as it is.
  return open.length === 0 ? [] : [...named, next(fresh(depth), byAny)];
}

function merged(a: readonly number[], b: readonly number[]): number[] {
  return b.length === 0 ? [...a] : [...a, ...b].toSorted((x, y) => x - y);
}

/** A segment that no pattern names, another one for each place. */
type Fresh = (depth: number) => string;

function freshNames(all: readonly Pattern[]): Fresh {
  const fixed = new Set(all.flatMap(({ parts }) => parts.flatMap((part) => (typeof part === 'object' ? [part.fixed] : []))));
  let stem = 'any';
  while ([...fixed].some((each) => each.startsWith(stem))) stem += '-';
  return (depth) => `${stem}${depth + 1}`;
} // prettier-ignore

/** A segment that is unlikely to be one of a pattern. */
const BEHIND = '~any~';

/** A path that upstreams may read in more ways than one, and what is odd about it. */
export interface OddPath {
  readonly path: string;
  readonly form: string;
}

/**
 * The forms of a path that not every reader reads alike, each with one such thing: a slash at its end, an empty segment, an encoded
 * slash, a parameter behind ";", and a character that resembles the one of a fixed segment.
 */
export function oddForms(path: string): OddPath[] {
  if (path === '/') return [];
  const segments = path.slice(1).split('/');
  const at = (i: number, text: string) => `/${segments.with(i, text).join('/')}`;
  const odd: OddPath[] = [
    { path: `${path}/`, form: 'with a slash at its end' },
    // A path of one segment has no slash within it; what fits behind it is "*" alone.
    { path: `${path}//${BEHIND}`, form: 'with an empty segment' },
    { path: `${path}%2F${BEHIND}`, form: 'with an encoded slash' },
  ];
  segments.forEach((segment, i) => {
    if (i > 0) {
      odd.push({ path: at(i, `/${segment}`), form: 'with an empty segment' });
      odd.push({ path: `/${segments.slice(0, i).join('/')}%2F${segments.slice(i).join('/')}`, form: 'with an encoded slash' }); // prettier-ignore
    }
    odd.push({ path: at(i, `${segment};p=1`), form: 'with a parameter behind ";"' });
    const wide = segment.replace(/^[A-Za-z]/, (letter) => encodeURIComponent(String.fromCharCode(letter.charCodeAt(0) + 0xfee0))); // prettier-ignore
    if (wide !== segment) odd.push({ path: at(i, wide), form: 'with a look-alike letter' });
  });
  return odd;
}
