import * as fc from 'fast-check';
import type { Subject } from '../../src/domain/credential.js';
import { allows, covers, Policy, type PolicyTables, type Rules } from '../../src/policy/decide.js';
import { property } from '../helpers/property.js';

const RESOURCES = ['service', 'billing', 'purge', 'token', 'a', 'ab', 'constructor', '__proto__', '*'];
const VERBS = ['read', 'write', 'all', 'select', 'toString', '*'];
const ACTIONS = RESOURCES.flatMap((resource) => VERBS.map((verb) => `${resource}:${verb}`)).filter(
  (action) => !action.includes('*'),
);
const NAMES = [
  'superuser',
  'engineer',
  'user',
  'global',
  'global:read',
  'constructor',
  '__proto__',
  'toString',
];
const SERVICES = ['S1', 'S2', 's1', ''];

const pattern = fc.oneof(
  { weight: 1, arbitrary: fc.constant('*') },
  {
    weight: 8,
    arbitrary: fc.tuple(fc.constantFrom(...RESOURCES), fc.constantFrom(...VERBS)).map((p) => p.join(':')),
  },
);
const patterns = fc.option(fc.array(pattern, { maxLength: 4 }), { nil: undefined });
const rules = fc.record({ allow: patterns, deny: patterns });
const table = fc
  .array(fc.tuple(fc.constantFrom(...NAMES), rules), { maxLength: 4 })
  .map((rows): Record<string, Rules> => Object.fromEntries(rows));
const tables = fc.record({ roles: table, scopes: table, service_limited: fc.record({ deny: patterns }) });
const subjects = fc.record({
  session: fc.boolean(),
  role: fc.constantFrom(...NAMES),
  scopes: fc.array(fc.constantFrom(...NAMES), { maxLength: 3 }),
  services: fc.array(fc.constantFrom<string>('S1', 'S2'), { maxLength: 2 }),
});
const questions = fc.record({
  action: fc.constantFrom(...ACTIONS),
  service: fc.constantFrom(null, undefined, ...SERVICES),
});
type Who = typeof subjects extends fc.Arbitrary<infer T> ? T : never;
type Question = typeof questions extends fc.Arbitrary<infer T> ? T : never;

/** Expands a list of patterns to every action that it names. */
function named(list: readonly string[] | undefined): Set<string> {
  const found = new Set<string>();
  for (const each of list ?? [])
    for (const action of ACTIONS) {
      const [resource, verb] = each === '*' ? ['*', '*'] : each.split(':');
      const [a, b] = action.split(':');
      if ([a, '*'].includes(resource) && [b, '*'].includes(verb)) found.add(action);
    }
  return found;
}

function may(found: Rules | undefined, action: string): boolean {
  return found !== undefined && named(found.allow).has(action) && !named(found.deny).has(action);
}

/**
 * The rule from the documentation: all scopes together, then the limits of a limited token, then
 * the role.
 */
function reference(
  { roles, scopes, service_limited }: PolicyTables,
  who: Who,
  { action, service }: Question,
): string {
  const row = (of: PolicyTables['roles'], name: string) => (Object.hasOwn(of, name) ? of[name] : undefined);
  if (!who.session) {
    if (!who.scopes.some((scope) => may(row(scopes, scope), action))) return 'scope';
    if (who.services.length > 0) {
      if (named(service_limited.deny).has(action)) return 'service_limited';
      if (service === undefined) return 'service';
      if (service !== null && !who.services.includes(service)) return 'service';
    }
  }
  return may(row(roles, who.role), action) ? 'allowed' : 'role';
}

/** Builds a subject with only the facts that the policy uses. */
function subjectOf({ session, role, scopes, services }: Who): Subject {
  const user = { id: 'U', customerId: 'C', role };
  const token = { id: 'T', scopes, services };
  const subject = session
    ? { credential: 'session', user, session: {} }
    : { credential: 'token', user, token };
  return subject as unknown as Subject;
}

property(
  'the decision equals that of a naive evaluator, however often and in whatever order it is asked',
  3_000,
  fc.tuple(tables, fc.array(fc.tuple(subjects, questions), { minLength: 1, maxLength: 6 })),
  ([given, asked]) => {
    const policy = new Policy(given);
    for (const [who, question] of [...asked, ...asked.toReversed()]) {
      const decision = policy.decide(subjectOf(who), question.action, question.service);
      const found = decision.allowed ? 'allowed' : decision.reason;
      const wanted = reference(given, who, question);
      if (found !== wanted)
        throw new Error(`${JSON.stringify({ who, question })}: ${found} is not ${wanted}`);
      if (decision.allowed !== (decision.detail === '')) throw new Error(`the detail of ${found}`);
    }
  },
);

property(
  'an explanation ends with the decision',
  2_000,
  fc.tuple(tables, subjects, questions),
  ([given, who, { action, service }]) => {
    const policy = new Policy(given);
    const steps = policy.explainChecks(subjectOf(who), action, service);
    const settled = steps.find((step) => !step.allowed) ?? steps.at(-1);
    if (JSON.stringify(settled) !== JSON.stringify(policy.decide(subjectOf(who), action, service)))
      throw new Error(JSON.stringify(steps));
  },
);

property(
  'another scope never removes a permission; another denial or service limit never adds one',
  3_000,
  fc.tuple(tables, subjects, questions, fc.constantFrom(...NAMES), pattern),
  ([given, who, { action, service }, scope, denied]) => {
    const allowed = (of: PolicyTables, subject: Who) =>
      new Policy(of).decide(subjectOf(subject), action, service).allowed;
    const now = allowed(given, who);
    if (now && !allowed(given, { ...who, scopes: [scope, ...who.scopes] })) throw new Error(`scope ${scope}`);
    const stricter = Object.entries(given.roles).map(([name, each]): [string, Rules] => [
      name,
      { ...each, deny: [...(each.deny ?? []), denied] },
    ]);
    if (!now && allowed({ ...given, roles: Object.fromEntries(stricter) }, who))
      throw new Error(`denied ${denied}`);
    if (!now && allowed(given, { ...who, services: [...who.services, 'S9'] }) && who.services.length === 0)
      throw new Error('limited');
  },
);

property(
  'a pattern covers what its two halves name, and a denying rule wins in any position',
  3_000,
  fc.tuple(pattern, fc.constantFrom(...ACTIONS), fc.array(pattern), fc.array(pattern)),
  ([one, action, before, after]) => {
    if (covers(one, action) !== named([one]).has(action)) throw new Error(`${one} and ${action}`);
    if (covers(one, action) && allows({ allow: ['*', one], deny: [...before, one, ...after] }, action))
      throw new Error(`${one} is denied and allows ${action}`);
  },
);
