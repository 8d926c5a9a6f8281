// Generates hostile JSON, and hostile text around it.
/** @import { Random } from '../random.mjs' */

/** Values of any kind as JSON text; some cannot be represented in JavaScript. */
const VALUES = [
  'null', 'true', '0', '1', '-1', '1e400', '1e308', '99999999999999999999', '""', '" "', '"a"', '[]', '{}', '[1]', '["a"]', '{"a":1}',
  '"\\u0000"', '"\\ud800"', '"\\u2028"', '"__proto__"', '"constructor"', '{"__proto__":{"a":1}}', '{"toString":1}', '{"length":-1}',
  'NaN', 'Infinity', `"${'x'.repeat(1_025)}"`, `"${'x'.repeat(20_000)}"`, `"${'\\u0130'.repeat(900)}"`,
  '['.repeat(9_000), `${'['.repeat(9_000)}${']'.repeat(9_000)}`, `${'{"a":'.repeat(4_000)}1${'}'.repeat(4_000)}`,
]; // prettier-ignore

const BREAKS = [
  ',',
  ':',
  '"',
  '\\',
  '{',
  '}',
  '[',
  ']',
  '\0',
  '\xff',
  '\xc3\x28',
  '\xed\xa0\x80',
  '\n',
  '/*',
  "'",
];

/**
 * Returns a value as JSON text.
 *
 * @param {Random} random
 */
export function hostileValue(random) {
  return random.pick(VALUES);
}

/**
 * Returns an object as JSON text, with some members replaced, duplicated, removed or added; the
 * text itself may be invalid.
 *
 * @param {Random} random
 * @param {object} members
 */
export function hostileObject(random, members) {
  if (random.oneIn(15)) return hostileValue(random);
  let pairs = Object.entries(members).map(([name, value]) => [name, JSON.stringify(value)]);
  for (let i = 1 + random.below(2); i > 0; i--) {
    const at = random.below(pairs.length + 1);
    const pair = pairs[at];
    const way = random.below(5);
    if (way === 0 && pair !== undefined) pairs = pairs.filter((each) => each !== pair);
    else if (way === 1) pairs.splice(at, 0, [random.pick(['__proto__', 'constructor', 'crit', 'x']), hostileValue(random)]);
    else if (way === 2 && pair !== undefined) pairs.push([pair[0], hostileValue(random)]);
    else if (pair !== undefined) pairs[at] = [pair[0], hostileValue(random)];
  }
  const text = `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
  if (!random.oneIn(6)) return text;
  const at = random.below(text.length + 1);
  return text.slice(0, at) + random.pick(BREAKS) + text.slice(at + random.below(3));
} // prettier-ignore
