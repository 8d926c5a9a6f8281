import * as fc from 'fast-check';
import t from 'tap';
import { firstMistaken } from '../../src/accounts/parameters.js';
import { parseBody } from '../../src/http/body.js';
import { readCreateToken } from '../../src/endpoints/schema/requests.js';
import { property, Share } from '../helpers/property.js';

const RESTRICTIONS = ['scope', 'services', 'service_id', 'expires_at', 'rate', 'addresses', 'suspended'];
const VALID = [...RESTRICTIONS, 'username', 'password', 'name'];
const LISTED = [
  'scopes', 'service', 'expires', 'expiry', 'expires_in', 'expiration',
  'rate_limit', 'ratelimit', 'address', 'cidr', 'cidrs', 'suspend',
]; // prettier-ignore

/**
 * Optimal string alignment distance: the minimum number of insertions, deletions, substitutions and
 * transpositions of neighbours.
 */
function distance(one: string, other: string): number {
  const [a, b] = [Array.from(one), Array.from(other)];
  const rows = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : j === 0 ? i : 0)));
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Infinity;
  for (let i = 1; i <= a.length; i++)
    for (let j = 1; j <= b.length; j++) {
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : Infinity;
      (rows[i] as number[])[j] = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1), swapped);
    }
  return at(a.length, b.length);
} // prettier-ignore

/** Returns how POST /tokens responds to a parameter, for each kind of body. */
function told(name: string): (string | undefined)[] {
  const form = new URLSearchParams([[name, 'x']]).toString();
  const json = `{${JSON.stringify(name)}:"x"}`;
  return [
    [form, 'application/x-www-form-urlencoded'],
    [json, 'application/json'],
    [json, 'application/vnd.api+json'],
  ].map(([text = '', type]) => {
    const body = parseBody(Buffer.from(text), type);
    if ('refusal' in body) throw new Error(`${name}: ${body.refusal}`);
    return firstMistaken(readCreateToken(body, '').request.others ?? []);
  });
}

/** Brackets make lists, which follow other rules. */
const character = fc.oneof(
  fc.constantFrom(...Array.from('abcdeioprstv_-. 09SE\u0130\u212a')),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }).filter((text) => !/[[\]]/.test(text)),
);
const place = fc.nat({ max: 12 });
const edit = fc.tuple(fc.constantFrom('add', 'leave out', 'replace', 'swap'), place, character);

function edited(name: string, [kind, at, by]: readonly [string, number, string]): string {
  const characters = Array.from(name);
  const i = Math.min(at, characters.length - 1);
  const one = Array.from(by)[0] ?? '';
  if (kind === 'add') characters.splice(at, 0, one);
  if (kind === 'leave out') characters.splice(i, 1);
  if (kind === 'replace') characters.splice(i, 1, one);
  if (kind === 'swap') characters.splice(i, 2, ...characters.slice(i, i + 2).toReversed());
  return characters.join('');
}

const cased = (name: string, upper: readonly boolean[]) =>
  Array.from(name, (letter, i) => (upper[i % upper.length] === true ? letter.replace(/[a-z]/, (each) => each.toUpperCase()) : letter)).join(''); // prettier-ignore
const cases = fc.array(fc.boolean(), { minLength: 1, maxLength: 12 });

/** Checks that the name is refused, with the nearest restriction named, in every kind of body. */
function mustBeRefused(name: string): void {
  for (const detail of told(name)) {
    const [, meant] = /send "(.*)" in the body$/.exec(detail ?? '') ?? [];
    if (meant === undefined || ![...RESTRICTIONS, 'services[]'].includes(meant))
      throw new Error(`${name}: ${detail ?? 'ignored'}`);
  }
}

property(
  'refuses a restriction in another letter case or one edit away, unless it is a parameter',
  20_000,
  fc.tuple(fc.constantFrom(...RESTRICTIONS), fc.option(edit), cases),
  ([name, change, upper]) => {
    const sent = cased(change === null ? name : edited(name, change), upper);
    if (!VALID.includes(sent)) mustBeRefused(sent);
    else if (told(sent).some((detail) => detail !== undefined)) throw new Error(`${sent} is a parameter`);
  },
);

property(
  'refuses each listed name in every letter case, plain and as a list',
  2_000,
  fc.tuple(fc.constantFrom(...LISTED), cases, fc.constantFrom('', '[]', '[0]', '[a]')),
  ([name, upper, brackets]) => mustBeRefused(cased(name, upper) + brackets),
);

/** The parameters of the specification that restrict a token. */
const SPECIFIED = ['scope', 'services', 'services[]', 'service_id', 'expires_at'];
const PRINTABLE = Array.from({ length: 95 }, (_, i) => String.fromCharCode(0x20 + i));

/** Every name that one insertion, deletion, substitution or transposition makes of a name. */
function editsOf(name: string): Set<string> {
  const edits = new Set<string>();
  for (let i = 0; i <= name.length; i++) {
    const [before, behind] = [name.slice(0, i), name.slice(i)];
    for (const each of PRINTABLE) edits.add(before + each + behind).add(before + each + behind.slice(1));
    edits.add(before + behind.slice(1));
    edits.add(before + behind.slice(0, 2).split('').toReversed().join('') + behind.slice(2));
  }
  return edits;
}

t.test('refuses every printable name one edit away from a restriction, unless it is a parameter', (t) => {
  const lost: string[] = [];
  for (const name of SPECIFIED)
    for (const sent of editsOf(name)) {
      if ([...VALID, 'services[]'].includes(sent) || /^services\[\d\]$/.test(sent)) continue;
      if (told(sent).some((detail) => detail === undefined)) lost.push(sent);
    }
  t.same(lost, []);
  t.end();
});

t.test('ignores names two edits away, brackets included', (t) => {
  const refused = ['s[c[ope', '[[scope', 's]co]pe', 'service{]', 'services{}', 'services()', '{services]', 'scope{]', 'service_id{]', 'ex[pires[at', 'rat]e]', 'r[ate', 'add[resses'].filter(
    (name) => told(name).some((detail) => detail !== undefined),
  );
  t.same(refused, []);
  t.end();
}); // prettier-ignore

const near = new Share();
property(
  'ignores an unlisted name two or more edits away',
  20_000,
  fc.tuple(fc.constantFrom(...VALID, ...LISTED), fc.array(edit, { maxLength: 4 }), cases),
  ([name, changes, upper]) => {
    const sent = cased(changes.reduce(edited, name), upper);
    const lower = sent.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
    const least = Math.min(...RESTRICTIONS.map((each) => distance(lower, each)));
    near.note(least === 2);
    const isRefused = !VALID.includes(sent) && (least <= 1 || LISTED.includes(lower));
    const wrong = told(sent).filter((detail) => (detail !== undefined) !== isRefused);
    if (wrong.length > 0) throw new Error(`${JSON.stringify(sent)}: ${wrong[0] ?? 'ignored'}`);
  },
);

t.test('many of these names are exactly two edits away', async (t) => {
  t.ok(near.exceeds(0.1), String(near.part));
});
