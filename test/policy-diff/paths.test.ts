import * as fc from 'fast-check';
import t from 'tap';
import { samplePaths } from '../../src/policy-diff/paths.js';
import { property } from '../helpers/property.js';

const ALPHABET = ['a', 'b', 'c', 'fresh1', 'fresh2'];
const pattern = fc
  .tuple(fc.array(fc.constantFrom('a', 'b', ':x', ':y'), { maxLength: 3 }), fc.boolean())
  .map(([segments, rest]) => `/${[...segments, ...(rest ? ['*'] : [])].join('/')}`);

/** Whether a pattern matches a path, segment by segment. */
function fits(pattern: string, path: string): boolean {
  const [parts, segments] = [pattern, path].map((each) => each.slice(1).split('/')) as [string[], string[]];
  return (
    (parts.at(-1) === '*' ? segments.length >= parts.length : segments.length === parts.length) &&
    parts.every(
      (part, i) => part === '*' || part === segments[i] || (part.startsWith(':') && segments[i] !== ''),
    )
  );
}

function matched(patterns: readonly string[], path: string): string {
  return patterns.filter((each) => fits(each, path)).join(' ');
}

/** All paths with that many segments. */
function allPaths(length: number): string[] {
  if (length === 0) return [''];
  return allPaths(length - 1).flatMap((path) => ALPHABET.map((segment) => `${path}/${segment}`));
}

const ALL = ['/', ...[1, 2, 3, 4, 5].flatMap(allPaths)];

property(
  'a sample has one path for each set of patterns that some path matches together',
  300,
  fc.array(pattern, { maxLength: 6 }),
  (patterns) => {
    const { paths, complete } = samplePaths(patterns);
    const found = new Set(paths.map((path) => matched(patterns, path)));
    const wanted = new Set(ALL.map((path) => matched(patterns, path)));
    if (!complete) throw new Error('not complete');
    for (const set of wanted) if (!found.has(set)) throw new Error(`no path for "${set}" in ${paths.join(' ')}`);
    if (paths.length > wanted.size) throw new Error(`${paths.join(' ')} are more than ${wanted.size}`);
  },
); // prettier-ignore

t.test('reports patterns that overlap in too many ways', async (t) => {
  // Each may match or not, independent of the others.
  const patterns = Array.from({ length: 20 }, (_, i) => `/${Array.from({ length: 20 }, (_, j) => (i === j ? 'a' : `:p${j}`)).join('/')}`); // prettier-ignore
  const { paths, complete } = samplePaths(patterns, 10_000);
  t.equal(complete, false);
  t.ok(paths.length <= 10_000);
  t.equal(samplePaths(patterns.slice(0, 8)).complete, true);
});

t.test('one name outside all patterns stands for the others', async (t) => {
  const { paths } = samplePaths(['/any1/x', '/:a/any2']);
  t.ok(paths.includes('/any-1/any2') || paths.includes('/any1/any2'), paths.join(' '));
  t.ok(paths.includes('/any1/x'));
  t.ok(paths.some((path) => path.startsWith('/any-1')));
});
