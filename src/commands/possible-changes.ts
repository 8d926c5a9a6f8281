import { segmentAt } from '../domain/path.js';
import { isExpired } from '../domain/token.js';
import type { User } from '../domain/user.js';
import type { SimulatedCaller } from '../pipeline/simulate.js';
import { routeChanges, rulesToAllow, rulesToRefuse } from './possible-rules.js';
import {
  type Change,
  change,
  type Decided,
  isJwt,
  tokenOf,
  userOf,
  withRestrictions,
  withToken,
  withUser,
} from './situation.js';
import { syntheticSession, syntheticToken } from './synthetic-subject.js';

/**
 * Returns changes that could allow a refused request, those to the caller first. None has been
 * tried yet.
 */
export function changesToAllow(decided: Decided): Change[] {
  const { as, explanation } = decided;
  const caller =
    userOf(as) === null ? missingCredentials(decided) : [...ofUser(decided), ...ofToken(decided)];
  return [...caller, ...rulesToAllow(decided), ...routeChanges(decided, explanation.route?.auth === 'deny')];
}

/**
 * Returns changes that could refuse an allowed request: a removal, a restriction, or another role.
 */
export function changesToRefuse(decided: Decided): Change[] {
  const { as, explanation } = decided;
  const token = tokenOf(as);
  const scopes = (token?.scopes ?? []).map((scope) =>
    change('scope', 'the token does not have the scope', scope, (s) =>
      withToken(s, (t) => ({ ...t, scopes: t.scopes.filter((each) => each !== scope) })),
    ),
  );
  const { service } = explanation;
  const services =
    service !== null && (token?.services.length ?? 0) > 1
      ? [change('services', 'the token may not use the service', service, (s) =>
          withToken(s, (t) => ({ ...t, services: t.services.filter((each) => each !== service) })))]
      : [];
  const ends =
    as !== 'anonymous' && 'record' in as && as.record !== undefined
      ? [
          change('limits', 'the token is suspended', null, (s) => withRestrictions(s, { suspended: true })),
          change('lifetime', 'the token is expired', null, (s) => withToken(s, (t) => ({ ...t, expiresAt: 0 }))),
        ]
      : [];
  const user = userOf(as);
  const lock =
    user === null || isJwt(as)
      ? []
      : [change('user', 'the user is locked', null, (s) => withUser(s, (u) => ({ ...u, locked: true })))];
  return [
    ...scopes,
    ...services,
    ...(user === null ? [] : otherRoles(decided, user)),
    ...ends,
    ...lock,
    ...rulesToRefuse(decided),
    ...routeChanges(decided, explanation.route?.auth === 'none'),
  ];
} // prettier-ignore

/** Credentials that a request without one could have. */
function missingCredentials({ loaded, explanation }: Decided): Change[] {
  const { roles, scopes } = loaded.config.policy;
  // The customer matters only at endpoints that name one in their path.
  const customerId = segmentAt(explanation.path ?? '', 1) ?? '';
  const sessions = Object.keys(roles).map((role) =>
    change('credential', 'the request has a session of a user with the role', role, ({ config }) => ({
      config,
      as: { subject: syntheticSession(someone(role, customerId)) },
    })),
  );
  const tokens = Object.keys(scopes).flatMap((scope) =>
    Object.keys(roles).map((role) =>
      change(
        'credential',
        `the request has an API token with the scope ${scope} of a user with the role`,
        role,
        ({ config }) => ({ config, as: tokenAs(someone(role, customerId), scope) }),
      ),
    ),
  );
  return [...sessions, ...tokens];
}

function someone(role: string, customerId: string): User {
  const login = 'someone@example.com';
  const never = { passwordHash: null, otpSecret: null, locked: false, createdAt: 0, updatedAt: 0 };
  return { id: 'someone', customerId, login, name: '', role, ...never };
}

function tokenAs(user: User, scope: string): SimulatedCaller {
  return { record: { owner: user, token: syntheticToken(user, scope, []).token } };
}

function otherRoles({ loaded }: Decided, { role: own }: User): Change[] {
  const others = Object.keys(loaded.config.policy.roles).filter((role) => role !== own);
  return others.map((role) =>
    change('role', 'the user has the role', role, (s) => withUser(s, (user) => ({ ...user, role }))),
  );
}

function ofUser(decided: Decided): Change[] {
  const { as, loaded, explanation, now } = decided;
  const user = userOf(as) as User;
  const isSession = tokenOf(as) === null;
  const kinds = isSession
    ? Object.keys(loaded.config.policy.scopes).map((scope) =>
        change('credential', 'the request has an API token of the same user with the scope', scope, (s) => ({ ...s, as: tokenAs(userOf(s.as) ?? user, scope) })))
    : isJwt(as) ? []
      : [change('credential', 'the request has a session of the same user', null, (s) => ({ ...s, as: { subject: syntheticSession(userOf(s.as) ?? user) } }))];
  const customer = segmentAt(explanation.path ?? '', 1) ?? '';
  return [
    ...(user.locked ? [change('user', 'the user is not locked', null, (s) => withUser(s, (u) => ({ ...u, locked: false })))] : []),
    ...(user.provider === undefined
      ? []
      : [change('user', 'the user has just logged in at the identity provider', null, (s) =>
          withUser(s, ({ provider, ...u }) => (provider === undefined ? u : { ...u, provider: { ...provider, loginAt: now } })))]),
    ...otherRoles(decided, user),
    ...(explanation.verdict.outcome === 'other_customer'
      ? [change('user', 'the user belongs to the customer', customer, (s) => withUser(s, (u) => ({ ...u, customerId: customer })))]
      : []),
    ...kinds,
  ];
} // prettier-ignore

function ofToken({ as, loaded, explanation, address, now }: Decided): Change[] {
  const token = tokenOf(as);
  if (token === null) return [];
  const { service } = explanation;
  const { scopes, services, restrictions } = token;
  const defaults = loaded.config.tokens.limits.addresses;
  const addresses = restrictions?.addresses ?? defaults;
  const more = Object.keys(loaded.config.policy.scopes).filter((scope) => !scopes.includes(scope));
  return [
    ...(restrictions?.suspended === true ? [change('limits', 'the token is not suspended', null, (s) => withRestrictions(s, { suspended: undefined }))] : []),
    ...(isExpired(token, now) ? [change('lifetime', 'the token is not expired', null, (s) => withToken(s, (t) => ({ ...t, expiresAt: null })))] : []),
    ...more.map((scope) =>
      change('scope', 'the token also has the scope', scope, (s) => withToken(s, (t) => ({ ...t, scopes: [...t.scopes, scope] })))),
    ...(services.length > 0 && service !== null && !services.includes(service)
      ? [change('services', 'the token may also use the service', service, (s) => withToken(s, (t) => ({ ...t, services: [...t.services, service] })))]
      : []),
    ...(services.length > 0 ? [change('services', 'the token is not limited to services', null, (s) => withToken(s, (t) => ({ ...t, services: [] })))] : []),
    ...(addresses !== null && address !== null && explanation.verdict.outcome === 'address'
      ? [change('limits', 'the token is also accepted from the address', address, (s) => withRestrictions(s, { addresses: [...addresses, address] }))]
      : []),
  ];
} // prettier-ignore
