import { formatTime } from '../util/time.js';
import { counted } from '../util/text.js';
import type { Token } from '../domain/token.js';
import type { Customer, Service, User } from '../domain/user.js';
import type { Changes } from '../store/core/directory-checks.js';
import { isGlobalApiTokenUser } from './declared-records.js';
import type { AuditEvent, AuditOutcome } from '../domain/audit.js';
import { tokenCreatedEvent, tokenRevokedEvent, userDeletedEvent, userWrittenEvents } from './audit-events.js';

/** What a directory file can declare, by id. */
export interface Known {
  readonly customers: ReadonlyMap<string, Customer>;
  readonly services: ReadonlyMap<string, Service>;
  readonly users: ReadonlyMap<string, User>;
  /** By digest. */
  readonly legacyKeys: ReadonlyMap<string, Token>;
  readonly declaredTokens: ReadonlyMap<string, Token>;
}

/** A change, described for people. It never contains a secret. */
export interface Difference {
  readonly change: 'add' | 'update' | 'remove';
  readonly kind: 'customer' | 'service' | 'user' | 'legacy_keys' | 'token';
  /** For legacy keys, the id of their customer. */
  readonly id: string;
  /** Such as `role engineer -> billing`. */
  readonly details: readonly string[];
  readonly auditEvents?: readonly AuditEvent[];
}

export function differencesOf(changes: Changes, known: Known): Difference[] {
  const { customers = [], services = [], users = [], tokens = [] } = changes;
  const added = new Map(users.map((user) => [user.id, user]));
  const customerOf = (userId: string) => (known.users.get(userId) ?? added.get(userId))?.customerId ?? '';
  return [
    ...customers.map(({ id, name }) => named('customer', id, known.customers.get(id)?.name, name)),
    ...services.map(({ id, name }) => named('service', id, known.services.get(id)?.name, name)),
    ...users
      .filter((user) => !isGlobalApiTokenUser(user) || user.deletionPending)
      .map((user) => userDifference(known.users.get(user.id), user)),
    ...keyDifferences('add', tokens, customerOf),
    ...keyDifferences('remove', removedKeys(changes, known), customerOf),
    ...(changes.declared ?? []).map((token) =>
      tokenDifference(known.declaredTokens.get(token.id), token, customerOf(token.userId)),
    ),
    ...removals('token', changes.revokeDeclared, (id) =>
      JSON.stringify(known.declaredTokens.get(id)?.name ?? ''),
    ).map((each) => ({ ...each, auditEvents: [{ ...tokenRevokedEvent(each.id), reason: UNDECLARED }] })),
    ...removals('user', changes.removeUsers, (id) => known.users.get(id)?.login).map((each) => ({
      ...each,
      auditEvents: [userDeletedEvent({ id: each.id, customerId: customerOf(each.id) }, UNDECLARED)],
    })),
    ...removals('service', changes.removeServices, (id) => known.services.get(id)?.name),
    ...removals('customer', changes.removeCustomers, (id) => known.customers.get(id)?.name),
  ];
}

function named(
  kind: 'customer' | 'service',
  id: string,
  before: string | undefined,
  name: string,
): Difference {
  if (before === undefined) return { change: 'add', kind, id, details: [JSON.stringify(name)] };
  const what =
    before === name ? 'customer' : `name ${JSON.stringify(before)} -> ${JSON.stringify(name)}`;
  return { change: 'update', kind, id, details: [what] };
} // prettier-ignore

function userDifference(before: User | undefined, user: User): Difference {
  const { id } = user;
  const auditEvents = userWrittenEvents(before, user, 'directory');
  if (before === undefined)
    return { change: 'add', kind: 'user', id, details: [user.login, `role ${user.role}`], auditEvents };
  const details: string[] = [];
  const shown = ['login', 'name', 'role', 'customerId'] as const;
  for (const key of shown) {
    if (before[key] !== user[key])
      details.push(`${key === 'customerId' ? 'customer' : key} ${before[key]} -> ${user[key]}`);
  }
  if (before.passwordHash !== user.passwordHash) details.push('password');
  if (before.otpSecret !== user.otpSecret) details.push('one-time password');
  if (before.locked !== user.locked) details.push(user.locked ? 'locked' : 'unlocked');
  if (before.deletionPending !== user.deletionPending)
    details.push(user.deletionPending ? 'deletion pending until its active tokens end' : 'not to be deleted');
  return { change: 'update', kind: 'user', id, details, auditEvents };
}

function tokenDifference(before: Token | undefined, token: Token, customerId: string): Difference {
  const { id, name, userId, digest } = token;
  const after = termsOf(token);
  if (before === undefined) {
    const details = [JSON.stringify(name), `of user ${userId}`, ...after.filter((term) => term !== null)];
    return { change: 'add', kind: 'token', id, details, auditEvents: [tokenCreatedEvent(token, customerId)] };
  }
  const details = termsOf(before).flatMap((term, i) =>
    term === after[i] ? [] : [`${term ?? 'none'} -> ${after[i] ?? 'none'}`],
  );
  if (before.name !== name) details.unshift(`name ${JSON.stringify(before.name)} -> ${JSON.stringify(name)}`);
  if (before.digest !== digest) details.push('secret');
  return { change: 'update', kind: 'token', id, details: details.length > 0 ? details : ['token'] };
}

/** Null for a limit that it does not have. */
function termsOf({ scopes, services, expiresAt, restrictions = {} }: Token): (string | null)[] {
  const { rate, addresses, suspended } = restrictions;
  return [
    `scope ${scopes.join(' ')}`,
    services.length === 0 ? 'all services' : `services ${services.join(' ')}`,
    expiresAt === null ? 'no expiry' : `expires ${formatTime(expiresAt)}`,
    rate === undefined ? null : `rate ${rate}`,
    addresses === undefined ? null : `addresses ${addresses.join(' ')}`,
    suspended === true ? 'suspended' : null,
  ];
}

function removedKeys({ removeTokens = [] }: Changes, { legacyKeys }: Known): Token[] {
  const removed = new Set(removeTokens);
  return [...legacyKeys.values()].filter(({ id }) => removed.has(id));
}

function keyDifferences(
  change: 'add' | 'remove',
  tokens: readonly Token[],
  customerOf: (userId: string) => string,
): Difference[] {
  const counts = new Map<string, number>();
  for (const { userId } of tokens) {
    const customerId = customerOf(userId);
    counts.set(customerId, (counts.get(customerId) ?? 0) + 1);
  }
  return [...counts].map(([id, count]) => ({
    change,
    kind: 'legacy_keys',
    id,
    details: [counted(count, 'key')],
  }));
}

function removals(
  kind: Difference['kind'],
  ids: readonly string[] | undefined,
  nameOf: (id: string) => string | undefined,
): Difference[] {
  return (ids ?? []).map((id) => ({ change: 'remove', kind, id, details: [nameOf(id) ?? ''] }));
}

export const UNDECLARED = 'not_in_directory';

const MAX_NAMED = 100;

/** Returns an event for the whole directory, and those of its users and tokens; none if nothing changed. */
export function directoryAuditEvents(
  differences: readonly Difference[],
  outcome: AuditOutcome = 'success',
): AuditEvent[] {
  if (differences.length === 0) return [];
  const count = (change: Difference['change']) => differences.filter((each) => each.change === change).length;
  const applied: AuditEvent = {
    event: 'directory.applied',
    outcome,
    target: {
      added: count('add'),
      updated: count('update'),
      removed: count('remove'),
      records: differences.slice(0, MAX_NAMED).map(({ change, kind, id }) => `${change} ${kind} ${id}`),
    },
  };
  const ofRecords = differences.flatMap(({ auditEvents = [] }) => auditEvents);
  return [applied, ...ofRecords.map((event) => ({ ...event, outcome }))];
}
