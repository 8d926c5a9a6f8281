import * as fc from 'fast-check';
import t from 'tap';
import { type LoadedConfig, loadConfig } from '../../src/config/load.js';
import type { Subject } from '../../src/domain/credential.js';
import { METHODS } from '../../src/domain/methods.js';
import type { Explanation } from '../../src/gate/explain.js';
import { Simulator } from '../../src/pipeline/simulate.js';
import { syntheticSession, syntheticToken, syntheticUser } from '../../src/gate/what-if.js';
import { OTHER, type ServiceLimit } from '../../src/policy-diff/side.js';
import { diffPolicies } from '../../src/policy-diff/compare.js';
import type { ChangedDecisions, ChangedRoute, PolicyDiff } from '../../src/policy-diff/report.js';
import { temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { options, Share, told } from '../helpers/property.js';

const base = loadConfig(writeConfig(temporaryFolder(t), { upstream: 'http://127.0.0.1:1' }), {});
const PAGE = 'page.example';
const ACTIONS = ['p:read', 'p:write', 'q', 'r'];
const ROLES = ['one', 'two', 'three'];
const SCOPES = ['wide', 'narrow'];

const pattern = fc.constantFrom('*', 'p:*', 'q:*', '*:read', 'p:write', 'r:write', 'token:*');
const rules = fc.record({
  allow: fc.array(pattern, { maxLength: 3 }),
  deny: fc.array(pattern, { maxLength: 1 }),
});
const table = (names: readonly string[]) =>
  fc
    .array(fc.tuple(fc.constantFrom(...names), rules), { minLength: 1, maxLength: 3 })
    .map((rows) => Object.fromEntries(rows));
const policy = fc.record({
  roles: table(ROLES),
  scopes: table(SCOPES),
  service_limited: fc.record({ deny: fc.array(pattern, { maxLength: 1 }) }),
});

const segment = fc.constantFrom('a', 'b', 'c', ':x', ':y', 'a%62');
const path = fc
  .tuple(fc.uniqueArray(segment, { minLength: 1, maxLength: 3 }), fc.boolean())
  .map(([segments, rest]) => `/${[...segments, ...(rest ? ['*'] : [])].join('/')}`);
const auth = fc.constantFrom(undefined, undefined, undefined, 'none' as const, 'deny' as const);
const route = fc
  .record({
    path: fc.oneof({ weight: 9, arbitrary: path }, { weight: 1, arbitrary: fc.constantFrom('/', '/*') }),
    methods: fc.option(fc.uniqueArray(fc.constantFrom(...METHODS), { minLength: 1, maxLength: 3 }), { nil: undefined }),
    action: fc.constantFrom(...ACTIONS),
    service: fc.constantFrom(undefined, undefined, 'x', 'y', 'header:Service-Id', 'query:service'),
    auth,
    strip: fc.constantFrom(false, false, false, true),
  })
  .map(({ strip, service, ...given }) => {
    const parameters = given.path.split('/').filter((each) => each.startsWith(':')).map((each) => each.slice(1));
    const isThere = service === undefined || service.includes(':') || parameters.includes(service);
    const first = given.path.split('/')[1] ?? '';
    return {
      ...given,
      ...(isThere ? { service } : {}),
      ...(strip && /^[abc]$/.test(first) ? { strip_prefix: `/${first}` } : {}),
    };
  }); // prettier-ignore
const parts = fc.record({
  policy,
  routes: fc.array(route, { maxLength: 5 }),
  default_route: fc.record({ action: fc.constantFrom(...ACTIONS), auth, upstream: fc.constant('api') }),
  page: fc.constantFrom(null, null, PAGE),
});
type Parts = typeof parts extends fc.Arbitrary<infer T> ? T : never;

/** Two configurations; the second repeats most of the first. */
const pair = fc
  .tuple(parts, parts, fc.array(fc.nat(7), { minLength: 1, maxLength: 2 }))
  .map(([a, other, taken]): [Parts, Parts] => [a, taken.reduce((b, i) => changed(b, other, i), a)]);

function changed(a: Parts, other: Parts, i: number): Parts {
  switch (i) {
    case 0:
      return other;
    case 1:
      return { ...a, policy: { ...a.policy, roles: other.policy.roles } };
    case 2:
      return { ...a, policy: { ...a.policy, scopes: other.policy.scopes } };
    case 3:
      return { ...a, policy: { ...a.policy, service_limited: other.policy.service_limited } };
    case 4:
      return { ...a, default_route: other.default_route };
    case 5:
      return { ...a, page: other.page };
    case 6:
      return { ...a, routes: a.routes.slice(1) };
    default:
      return { ...a, routes: [...other.routes.slice(0, 1), ...a.routes] };
  }
}

function loaded({ page, ...sections }: Parts): LoadedConfig {
  const { config } = base;
  const ui = { ...config.interface.ui, host: page };
  return {
    ...base,
    config: { ...config, ...sections, interface: { ...config.interface, ui } } as never,
    lines: {},
  };
}

const asker = fc.oneof(
  fc.constant('anonymous' as const),
  fc.record({
    role: fc.constantFrom(...ROLES, 'nobody'),
    session: fc.boolean(),
    scopes: fc.uniqueArray(fc.constantFrom(...SCOPES, 'gone'), { maxLength: 2 }),
    services: fc.uniqueArray(fc.constantFrom('S1', 'S2', 'a', 'b'), { maxLength: 2 }),
  }),
);
const request = fc.record({
  host: fc.constantFrom('api.example', 'api.example', PAGE),
  method: fc.constantFrom(...METHODS),
  segments: fc.array(fc.constantFrom('a', 'b', 'c', 'ab', 'S1', 'tokens', 'status'), { maxLength: 4 }),
  service: fc.constantFrom(undefined, 'S1', 'S2'),
  as: asker,
});
type Sent = typeof request extends fc.Arbitrary<infer T> ? T : never;

function targetOf({ segments, service }: Sent): string {
  return `/${segments.join('/')}${service === undefined ? '' : `?service=${service}`}`;
}

function subjectOf({ role, session, scopes, services }: Exclude<Sent['as'], string>): Subject {
  const user = syntheticUser(role, 'C1');
  if (session) return syntheticSession(user);
  return syntheticToken(user, scopes, services);
}

async function ask(simulator: Simulator, sent: Sent): Promise<Explanation> {
  const fields = ['Host', sent.host];
  if (sent.service !== undefined) fields.push('Service-Id', sent.service);
  const as = sent.as === 'anonymous' ? sent.as : { subject: subjectOf(sent.as) };
  return simulator.simulate({ method: sent.method, target: targetOf(sent), fields, as }, 0);
}

/**
 * Maps the names of a request to those in the report, where one name stands for all unknown ones.
 */
function withKnownNames(sent: Sent, parts: readonly Parts[]): Sent {
  const { as } = sent;
  if (as === 'anonymous') return sent;
  const known = (name: string, table: 'roles' | 'scopes') =>
    parts.some(({ policy }) => Object.hasOwn(policy[table], name)) ? name : OTHER;
  const scopes = as.scopes.length === 0 ? [OTHER] : as.scopes.map((scope) => known(scope, 'scopes'));
  return { ...sent, as: { ...as, role: known(as.role, 'roles'), scopes } };
}

/** Whether the report contains a change for this request and subject. */
function isReported(rows: readonly ChangedDecisions[], sent: Sent, a: Explanation, b: Explanation): boolean {
  return rows.some(
    (row) => row.routes.some((route) => isAbout(route, sent, a, b)) && (row.everybody || isAmong(row, sent)),
  );
}

function isAbout({ examples, config, against, host }: ChangedRoute, sent: Sent, a: Explanation, b: Explanation) {
  const isOf = (reported: ChangedRoute['config'], { route }: Explanation) =>
    (reported?.path ?? null) === (route?.path ?? null);
  return Object.hasOwn(examples, sent.method) && isOf(config, a) && isOf(against, b) && (host === null || host === sent.host);
} // prettier-ignore

function isAmong(row: ChangedDecisions, { as }: Sent): boolean {
  if (as === 'anonymous') return row.anonymous;
  if (!row.roles.includes(as.role)) return false;
  if (as.session) return row.sessions;
  const limited = as.services.length > 0;
  return (
    row.scopes.some((scope) => as.scopes.some((held) => scope.includes(held))) &&
    row.service_limits.some((limit) => (limit === 'none') !== limited)
  );
}

t.test('the report contains every changed decision of a random request', async (t) => {
  const changes = new Share();
  const details = await fc.check(
    fc.asyncProperty(pair, fc.array(request, { minLength: 25, maxLength: 25 }), async ([first, second], sent) => {
      const [a, b] = [loaded(first), loaded(second)];
      const { diff } = await diffPolicies(a, { loaded: b, fileOf: () => b.file });
      const [now, then] = [new Simulator(a, null), new Simulator(b, null)];
      for (const each of sent) {
        const [x, y] = [await ask(now, each), await ask(then, each)];
        changes.note(x.verdict.allowed !== y.verdict.allowed);
        if (x.verdict.allowed === y.verdict.allowed) continue;
        const rows = y.verdict.allowed ? diff.newly_allowed : diff.newly_refused;
        if (!isReported(rows, withKnownNames(each, [first, second]), x, y)) throw new Error(missing(diff, each, x, y));
      }
    }),
    options(200),
  );
  t.notOk(details.failed, told(details));
  t.ok(changes.exceeds(0.02), `${changes.part} of the requests change`);
}); // prettier-ignore

t.test('every reported change is real', async (t) => {
  let confirmed = 0;
  const details = await fc.check(
    fc.asyncProperty(pair, async ([first, second]) => {
      const [a, b] = [loaded(first), loaded(second)];
      const { diff } = await diffPolicies(a, { loaded: b, fileOf: () => b.file });
      const simulators = [new Simulator(a, null), new Simulator(b, null)] as const;
      for (const row of [...diff.newly_allowed, ...diff.newly_refused])
        // Further conditions exist only as text.
        if (row.conditions.length === 0) confirmed += await confirm(row, simulators);
    }),
    options(100),
  );
  t.notOk(details.failed, told(details));
  t.ok(confirmed > 300, `${confirmed} decisions`);
});

/**
 * Simulates a row's requests on both sides.
 * @returns the number of requests confirmed
 */
async function confirm(row: ChangedDecisions, [now, then]: readonly [Simulator, Simulator]): Promise<number> {
  let count = 0;
  for (const route of row.routes) {
    for (const method of Object.keys(route.examples)) {
      for (const as of await personsOf(row, route, method, [now, then])) {
        const request = requestOf(route, method);
        const [a, b] = [
          await now.simulate({ ...request, as }, 0),
          await then.simulate({ ...request, as }, 0),
        ];
        count += 1;
        if (a.verdict.allowed === (row.change === 'newly_refused') && b.verdict.allowed !== a.verdict.allowed)
          continue;
        throw new Error([method, request.target, as, a.verdict, b.verdict, row].map((each) => JSON.stringify(each)).join('\n')); // prettier-ignore
      }
    }
  }
  return count;
}

function requestOf({ examples, host }: ChangedRoute, method: string) {
  // Each side may take the service from another place, and the two may name different services.
  const fields = ['Host', host ?? 'api.example', 'Service-Id', 'S1'];
  return { method, target: `${examples[method]}?service=S2`, fields };
}

/** The first and the last role, with every credential of a row. */
async function personsOf(
  row: ChangedDecisions,
  route: ChangedRoute,
  method: string,
  simulators: readonly [Simulator, Simulator],
) {
  if (row.everybody || row.anonymous) return ['anonymous' as const];
  const persons: { subject: Subject }[] = [];
  for (const role of new Set([row.roles[0] ?? '', row.roles.at(-1) ?? ''])) {
    // A customer in the path is the user's own.
    const user = syntheticUser(role, route.examples[method]?.split('/')[2] ?? 'customer');
    if (row.sessions) persons.push({ subject: syntheticSession(user) });
    const request = { ...requestOf(route, method), as: { subject: syntheticSession(user) } };
    const [a, b] = await Promise.all(simulators.map(async (each) => (await each.simulate(request, 0)).service));
    const services: Record<ServiceLimit, (string | null | undefined)[]> = { none: [], any: ['other'], other: ['other'], named: [a, b], named_by_config: [a], named_by_against: [b] };
    for (const scope of row.scopes)
      for (const limit of row.service_limits) {
        const own = services[limit].filter((each): each is string => typeof each === 'string');
        const scopes = scope.includes(OTHER) ? [...scope.replace(OTHER, '').trim().split(' '), OTHER] : scope.split(' ');
        persons.push({ subject: syntheticToken(user, scopes.filter((each) => each !== ''), own) });
      }
  }
  return persons;
} // prettier-ignore

function missing(diff: PolicyDiff, sent: Sent, a: Explanation, b: Explanation): string {
  const rows = [...diff.newly_allowed, ...diff.newly_refused].map((row) => JSON.stringify(row));
  return [
    targetOf(sent),
    ...[sent, a.route, a.verdict, b.route, b.verdict].map((each) => JSON.stringify(each)),
    ...rows,
  ].join('\n');
}
