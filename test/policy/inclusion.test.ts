import * as fc from 'fast-check';
import t from 'tap';
import { allows, includes, type Rules } from '../../src/policy/decide.js';
import { options, told } from '../helpers/property.js';

const WORDS = ['billing', 'token', 'user'];
const VERBS = ['read', 'write', 'select'];
const word = fc.constantFrom('*', ...WORDS);
const pattern = fc.oneof(
  fc.constant('*'),
  fc.tuple(word, fc.constantFrom('*', ...VERBS)).map((parts) => parts.join(':')),
);
const rules: fc.Arbitrary<Rules> = fc.record({
  allow: fc.array(pattern, { maxLength: 3 }),
  deny: fc.option(fc.array(pattern, { maxLength: 3 }), { nil: undefined }),
}); // prettier-ignore
const ACTIONS = [...WORDS, 'other'].flatMap((each) => [...VERBS, 'other'].map((verb) => `${each}:${verb}`));

t.test('a rule that includes another allows everything that the other allows', async (t) => {
  let included = 0;
  const details = fc.check(
    fc.property(rules, rules, (wide, narrow) => {
      if (!includes(wide, narrow)) return;
      included += 1;
      const missing = ACTIONS.filter((action) => allows(narrow, action) && !allows(wide, action));
      if (missing.length > 0) throw new Error(`not allowed: ${missing.join(' ')}`);
    }),
    options(20_000),
  );
  t.notOk(details.failed, told(details));
  t.ok(included > details.numRuns / 5, `${included} pairs include each other`);
});

t.test('decides which built-in roles include each other', async (t) => {
  const all = { allow: ['*'] };
  const reader = { allow: ['*:read'], deny: ['billing:*', 'token:*'] };
  const engineer = { allow: ['*'], deny: ['billing:*', 'user:write', 'token:*'] };
  t.equal(includes(all, engineer), true);
  t.equal(includes(engineer, reader), true, 'the reader is denied whatever the engineer is denied');
  t.equal(includes({ allow: ['*:read', 'billing:*'] }, reader), true);
  t.equal(includes(reader, engineer), false);
  t.equal(includes(engineer, all), false);
  t.equal(includes({ allow: ['*:read', 'billing:*'] }, engineer), false);
  t.equal(includes({}, { allow: [] }), true);
});
