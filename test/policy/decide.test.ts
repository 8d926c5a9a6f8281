import t from 'tap';
import type { Subject } from '../../src/domain/credential.js';
import type { Token } from '../../src/domain/token.js';
import type { User } from '../../src/domain/user.js';
import { Policy } from '../../src/policy/decide.js';
import { covers } from '../../src/policy/patterns.js';
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
    customerId: 'C',
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

/** The check that refused, or undefined. */
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

t.test('scope, role, service and the four forbidden actions each refuse on their own', async (t) => {
  forEachRow<[string, Subject, string, string | null | undefined, string | undefined]>(
    [
      ['global superuser', token('superuser', ['global']), 'billing:write', null, undefined],
      ['read only', token('superuser', ['global:read']), 'service:write', 'S1', 'scope'],
      ['read only reads', token('superuser', ['global:read']), 'service:read', 'S1', undefined],
      ['purge_select does not purge all', token('superuser', ['purge_select']), 'purge:all', 'S1', 'scope'],
      ['purge_select does not read', token('superuser', ['purge_select']), 'service:read', 'S1', 'scope'],
      [
        'two scopes are their union',
        token('superuser', ['purge_select', 'purge_all']),
        'purge:all',
        'S1',
        undefined,
      ],
      ['a scope that is gone grants nothing', token('superuser', ['old']), 'service:read', 'S1', 'scope'],
      ['no scope grants nothing', token('superuser', []), 'service:read', 'S1', 'scope'],
      ['engineer and billing', token('engineer', ['global']), 'billing:read', null, 'role'],
      ['billing writes billing', token('billing', ['global']), 'billing:write', null, undefined],
      ['billing does not write services', token('billing', ['global']), 'service:write', 'S1', 'role'],
      ['a role that is gone', token('old', ['global']), 'service:read', 'S1', 'role'],
      ['a prototype name is no role', token('constructor', ['global']), 'service:read', 'S1', 'role'],
      ['other service', token('superuser', ['global'], ['S1']), 'service:read', 'S2', 'service'],
      ['ids are compared exactly', token('superuser', ['global'], ['S1']), 'service:read', 's1', 'service'],
      [
        'a service that the request does not name',
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

t.test('clients rely on the words for a read-only token', async (t) => {
  t.match(policy.decide(token('superuser', ['global:read']), 'service:write', null), {
    detail: 'Read only tokens are not allowed to access this endpoint',
  });
});

t.test('a session has every scope', async (t) => {
  const session = {
    digest: 'D',
    id: 'S',
    userId: 'U',
    customerId: 'C',
    createdAt: 0,
    endsAt: 1,
    lastSeenAt: 0,
    ip: '',
    userAgent: null,
  };
  const subject: Subject = { credential: 'session', user: user('superuser'), session };
  t.equal(policy.decide(subject, 'purge:all', 'S1').allowed, true);
  t.equal(policy.sessionScope, 'global');
});
