import t from 'tap';
import type { Subject } from '../../src/domain/credential.js';
import type { Token } from '../../src/domain/token.js';
import type { User } from '../../src/domain/user.js';
import { covers, Policy } from '../../src/policy/decide.js';
import { forEachRow } from '../helpers/table.js';

const policy = new Policy({
  roles: {
    superuser: { allow: ['*'] },
    engineer: { allow: ['*'], deny: ['billing:*', 'user:write', 'token:*'] },
    billing: { allow: ['*:read', 'billing:*', 'token:write'] },
  },
  scopes: {
    global: { allow: ['*'] },
    'global:read': { allow: ['*:read'] },
    purge_select: { allow: ['purge:select'] },
    purge_all: { allow: ['purge:all'] },
  },
  service_limited: { deny: ['user:write'] },
});

function user(role: string): User {
  return {
    id: 'U',
    customerId: 'C',
    login: 'u@example.com',
    name: 'U',
    role,
    passwordHash: null,
    otpSecret: null,
    locked: false,
    createdAt: 0,
    updatedAt: 0,
  };
}

function token(role: string, scopes: string[], services: string[] = []): Subject {
  const token: Token = {
    id: 'T',
    digest: 'D',
    kind: 'token',
    userId: 'U',
    name: '',
    scopes,
    services,
    serviceId: null,
    createdAt: 0,
    updatedAt: 0,
    expiresAt: null,
  };
  return { credential: 'token', user: user(role), token };
}

function session(role: string): Subject {
  const session = {
    digest: 'D', id: 'S', userId: 'U', customerId: 'C', createdAt: 0, endsAt: 1, idleEndsAt: 1, lastSeenAt: 0, ip: '',
    userAgent: null,
  }; // prettier-ignore
  return { credential: 'session', user: user(role), session };
}

/** Returns the check that refused, or undefined. */
function refusalOf(subject: Subject, action: string, service: string | null | undefined) {
  const decision = policy.decide(subject, action, service);
  return decision.allowed ? undefined : decision.reason;
}

t.test('a pattern covers an action', async (t) => {
  forEachRow(
    [
      ['*', 'a:read', true],
      ['a:read', 'a:read', true],
      ['a:*', 'a:read', true],
      ['*:read', 'a:read', true],
      ['*:*', 'a:read', true],
      ['a:read', 'a:write', false],
      ['a:*', 'ab:read', false],
      ['*:read', 'a:write', false],
    ] as const,
    ([pattern, action, expected]) => t.equal(covers(pattern, action), expected, `${pattern} ${action}`),
  );
});

t.test('scope, role, service and the four forbidden actions each refuse independently', async (t) => {
  forEachRow<[string, Subject, string, string | null | undefined, string | undefined]>(
    [
      ['global superuser', token('superuser', ['global']), 'billing:write', null, undefined],
      ['read only', token('superuser', ['global:read']), 'service:write', 'S1', 'scope'],
      ['read-only reads', token('superuser', ['global:read']), 'service:read', 'S1', undefined],
      ['purge_select does not purge all', token('superuser', ['purge_select']), 'purge:all', 'S1', 'scope'],
      ['purge_select does not read', token('superuser', ['purge_select']), 'service:read', 'S1', 'scope'],
      [
        'two scopes are their union',
        token('superuser', ['purge_select', 'purge_all']),
        'purge:all',
        'S1',
        undefined,
      ],
      ['a removed scope grants nothing', token('superuser', ['old']), 'service:read', 'S1', 'scope'],
      ['no scope grants nothing', token('superuser', []), 'service:read', 'S1', 'scope'],
      ['engineer and billing', token('engineer', ['global']), 'billing:read', null, 'role'],
      ['billing writes billing', token('billing', ['global']), 'billing:write', null, undefined],
      ['billing does not write services', token('billing', ['global']), 'service:write', 'S1', 'role'],
      ['a removed role', token('old', ['global']), 'service:read', 'S1', 'role'],
      ['a prototype name is no role', token('constructor', ['global']), 'service:read', 'S1', 'role'],
      ['other service', token('superuser', ['global'], ['S1']), 'service:read', 'S2', 'service'],
      ['ids are compared exactly', token('superuser', ['global'], ['S1']), 'service:read', 's1', 'service'],
      [
        'a request that does not name its service',
        token('superuser', ['global'], ['S1']),
        'service:read',
        undefined,
        'service',
      ],
      ['own service', token('superuser', ['global'], ['S1', 'S2']), 'service:read', 'S2', undefined],
      ['limited, non-service endpoint', token('superuser', ['global'], ['S1']), 'api:read', null, undefined],
      [
        'limited, forbidden action',
        token('superuser', ['global'], ['S1']),
        'user:write',
        null,
        'service_limited',
      ],
      ['unlimited, same action', token('superuser', ['global']), 'user:write', null, undefined],
    ],
    ([name, subject, action, service, expected]) =>
      t.equal(refusalOf(subject, action, service), expected, name),
  );
});

t.test('a rule that allows nothing allows nothing, whatever it denies', async (t) => {
  const bare = new Policy({
    roles: { none: { deny: ['a:read'] }, some: { allow: ['b:*'] } },
    scopes: { none: {}, some: { allow: ['b:*'] } },
    service_limited: { deny: [] },
  });
  for (const allows of [bare.someRoleAllows.bind(bare), bare.someScopeAllows.bind(bare)])
    t.same([allows('a:read'), allows('a:write'), allows('b:read')], [false, false, true]);
  t.equal(bare.decide(session('none'), 'a:write', null).allowed, false);
  t.equal(bare.sessionScope, 'none some', 'without a scope that allows everything, a session has all scopes');
});

t.test('a token includes another whose scopes and services allow no more', async (t) => {
  const of = (scopes: string[], services: string[] = []) => {
    const subject = token('superuser', scopes, services);
    if (subject.credential === 'session') throw new Error('it is no token');
    return subject.token;
  };
  forEachRow(
    [
      [of(['global']), of(['global:read']), true],
      [of(['global:read']), of(['global']), false],
      [of(['global:read']), of(['global:read', 'purge_all']), false],
      [of(['purge_select', 'purge_all']), of(['purge_all']), true],
      [of([]), of(['global:read']), false],
      [of(['global']), of(['global'], ['S1']), true],
      [of(['global'], ['S1']), of(['global']), false],
      [of(['global'], ['S1']), of(['global'], ['S1', 'S2']), false],
      [of(['global'], ['S1', 'S2']), of(['global:read'], ['S2']), true],
    ] as const,
    ([wide, narrow, expected]) =>
      t.equal(
        policy.tokenIncludes(wide, narrow),
        expected,
        JSON.stringify([wide.scopes, wide.services, narrow.scopes, narrow.services]),
      ),
  );
});

t.test('keeps the text about read-only tokens, which clients rely on', async (t) => {
  t.match(policy.decide(token('superuser', ['global:read']), 'service:write', null), {
    detail: 'Read only tokens are not allowed to access this endpoint',
  });
});

t.test('a session has every scope', async (t) => {
  const subject = session('superuser');
  t.equal(policy.decide(subject, 'purge:all', 'S1').allowed, true);
  t.equal(policy.sessionScope, 'global');
});

t.test('a decision names the check, the rule and its line', async (t) => {
  const lines = { 'policy.roles.engineer.deny.1': 7, 'policy.scopes.global': 3 };
  const tables = {
    roles: { engineer: { allow: ['*'], deny: ['billing:*', 'user:write'] } },
    scopes: { global: { allow: ['a:*'] } },
    service_limited: { deny: ['a:write'] },
  };
  const lined = new Policy(tables, lines);
  t.match(lined.decide(token('engineer', ['global']), 'a:read', null), {
    allowed: true,
    reason: 'role',
    rule: { effect: 'allow', pattern: '*', position: { path: 'policy.roles.engineer.allow.0', line: null } },
  });
  t.match(lined.decide(token('engineer', ['global']), 'b:read', null), {
    allowed: false,
    reason: 'scope',
    rule: { effect: 'no_allow', pattern: null, position: { path: 'policy.scopes.global', line: 3 } },
  });
  t.match(lined.decide(session('engineer'), 'user:write', null), {
    allowed: false,
    reason: 'role',
    rule: {
      effect: 'deny',
      pattern: 'user:write',
      position: { path: 'policy.roles.engineer.deny.1', line: 7 },
    },
  });
  t.match(lined.decide(token('engineer', ['global'], ['S1']), 'a:write', 'S1'), {
    reason: 'service_limited',
    rule: { effect: 'deny', pattern: 'a:write', position: { path: 'policy.service_limited.deny.0' } },
  });
  t.match(lined.decide(session('nobody'), 'a:read', null), {
    reason: 'role',
    rule: { effect: 'unknown', position: { path: 'policy.roles' } },
  });
});

t.test('an explanation ends with the same result as the decision', async (t) => {
  const subjects = ['superuser', 'engineer', 'billing', 'old'].flatMap((role) => [
    session(role),
    ...[['global'], ['global:read'], ['purge_select', 'purge_all'], [], ['old']].flatMap((scopes) => [
      token(role, scopes),
      token(role, scopes, ['S1', 'S2']),
    ]),
  ]);
  let count = 0;
  for (const subject of subjects) {
    for (const action of [
      'service:read',
      'service:write',
      'purge:all',
      'purge:select',
      'user:write',
      'billing:read',
    ]) {
      for (const service of ['S1', 'S3', null, undefined]) {
        const all = policy.explainChecks(subject, action, service);
        const settled = all.find(({ allowed }) => !allowed) ?? all.at(-1);
        t.same(policy.decide(subject, action, service), settled);
        count += 1;
      }
    }
  }
  t.ok(count > 500);
});

t.test('a decision takes well under 2 microseconds', async (t) => {
  const subject = token('engineer', ['purge_select', 'global'], ['S1', 'S2']);
  const runs = 10_000;
  let allowed = 0;
  const batches = Array.from({ length: 20 }, () => {
    const startedAt = performance.now();
    for (let i = 0; i < runs; i++) if (policy.decide(subject, 'service:write', 'S2').allowed) allowed += 1;
    return ((performance.now() - startedAt) * 1000) / runs;
  });
  // Slower batches waited for the processor.
  const each = Math.min(...batches);
  t.equal(allowed, runs * batches.length);
  t.ok(each < 2, `${each.toFixed(3)} us`);
  t.comment(`${each.toFixed(3)} us a decision`);
});
