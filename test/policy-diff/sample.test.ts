import * as fc from 'fast-check';
import t from 'tap';
import { samplePaths } from '../../src/policy-diff/sample.js';
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

/** All paths with that many segments. */
function allPaths(length: number): string[] {
  if (length === 0) return [''];
  return allPaths(length - 1).flatMap((path) => ALPHABET.map((segment) => `${path}/${segment}`));
}

const ALL = ['/', ...[1, 2, 3, 4, 5].flatMap(allPaths)];

property(
  'for each path and each two patterns that match it, some sample matches both, and no pattern that does not match the path',
  50,
  fc.array(pattern, { maxLength: 6 }),
  (patterns) => {
    const samples = [...samplePaths(patterns)];
    for (const path of ALL) {
      const matching = patterns.filter((each) => fits(each, path));
      for (const a of matching)
        for (const b of matching) {
          const isStandIn = (sample: string) =>
            fits(a, sample) && fits(b, sample) && patterns.every((each) => matching.includes(each) || !fits(each, sample));
          if (!samples.some(isStandIn)) throw new Error(`no path for ${a} and ${b} at ${path} in ${samples.join(' ')}`);
        }
    }
  },
); // prettier-ignore

t.test('one name outside all patterns stands for the others', async (t) => {
  const paths = [...samplePaths(['/any1/x', '/:a/any2'])];
  t.ok(paths.includes('/any1/x'));
  t.ok(paths.includes('/any-1/any2'), paths.join(' '));
});
