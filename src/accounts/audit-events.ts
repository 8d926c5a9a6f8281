import type { AuditEvent } from '../domain/audit.js';
import { formatTime } from '../util/time.js';
import type { Token, TokenRestrictions } from '../domain/token.js';
import { maskTokens, printable } from '../util/text.js';
import type { TokenWithUse } from '../store/core/token-records.js';
import type { RestrictionChange } from './parameters.js';
import type { User } from '../domain/user.js';
import type { MaybePromise } from '../util/async.js';
import { Unavailable, withAuditEvents } from '../domain/refusal.js';
import { OutcomeUnknown } from '../store/faults.js';

export function tokenCreatedEvent(token: Token, customerId: string): AuditEvent {
  return {
    event: 'token.created',
    outcome: 'success',
    target: {
      token_id: token.id,
      user_id: token.userId,
      customer_id: customerId,
      scopes: token.scopes,
      services: token.services,
      expires_at: token.expiresAt === null ? null : formatTime(token.expiresAt),
      ...(token.predecessorId === undefined ? {} : { predecessor_id: token.predecessorId }),
      ...limitsOf(token.restrictions ?? {}),
    },
  };
}

/** @param ancestorId the token that was changed, if this one only came from it by rotation */
export function tokenChangedEvent(id: string, change: RestrictionChange, ancestorId?: string): AuditEvent {
  const target = { token_id: id, ...limitsOf(change), ...ancestor(ancestorId) };
  return { event: 'token.changed', outcome: 'success', target };
}

function ancestor(id: string | undefined) {
  return id === undefined ? {} : { ancestor_id: id };
}

export function tokenExpiringEvent({ token, use }: TokenWithUse, customerId: string | null): AuditEvent {
  return {
    event: 'token.expiring',
    outcome: 'success',
    target: {
      token_id: token.id,
      user_id: token.userId,
      customer_id: customerId,
      expires_at: token.expiresAt === null ? null : formatTime(token.expiresAt),
      last_seen_at: use === null ? null : formatTime(use.at),
      user_agent: use?.userAgent ?? null,
    },
  };
}

function limitsOf({ suspended, rate, addresses }: RestrictionChange | TokenRestrictions) {
  return {
    ...(suspended === undefined ? {} : { suspended: String(suspended) }),
    ...(rate === undefined ? {} : { rate }),
    ...(addresses === undefined ? {} : { addresses }),
  };
}

/** @param ancestorId the token that was revoked, if this one only came from it by rotation */
export function tokenRevokedEvent(id: string, found?: TokenWithUse, ancestorId?: string): AuditEvent {
  const evidence = found?.token.rotated === undefined ? {} : evidenceOf(found);
  const target = { token_id: id, ...evidence, ...ancestor(ancestorId) };
  return { event: 'token.revoked', outcome: 'success', target };
}

export function rotationRepeatedEvent({ id, userId, rotated }: Token, customerId: string): AuditEvent {
  const target = {
    token_id: id,
    user_id: userId,
    customer_id: customerId,
    successor_id: rotated?.to ?? null,
  };
  return { event: 'token.rotation_repeated', outcome: 'denied', target };
}

export function overlapEndedEvent(found: TokenWithUse): AuditEvent {
  const { id, userId, expiresAt } = found.token;
  const target = {
    token_id: id,
    user_id: userId,
    ...evidenceOf(found),
    expires_at: formatTime(expiresAt ?? 0),
  };
  return { event: 'token.expired', outcome: 'success', reason: 'rotated', target };
}

/** The User-Agent is masked: a client can send anything. */
function evidenceOf({ token, use }: TokenWithUse) {
  const userAgent = use?.userAgent ?? null;
  return {
    successor_id: token.rotated?.to ?? null,
    last_used_at: use === null ? null : formatTime(use.at),
    last_ip: use?.ip ?? null,
    last_user_agent: userAgent === null ? null : printable(maskTokens(userAgent)),
  };
}

type Ids = Pick<User, 'id'> & { readonly customerId: string | null };

/**
 * Logins and names are omitted: people typed them. @param source what created the user, if not an operator
 */
export function userWrittenEvents(before: User | undefined, user: User, source?: string): AuditEvent[] {
  if (before === undefined) {
    const created = { event: 'user.created', outcome: 'success' } as const;
    const target = { ...idsOf(user), role: user.role };
    return [{ ...created, target, ...(source === undefined ? {} : { reason: source }) }];
  }
  const reasons = [
    ...(before.login === user.login ? [] : ['login']),
    ...(before.name === user.name ? [] : ['name']),
    ...(before.passwordHash === user.passwordHash ? [] : ['password']),
    ...(before.otpSecret === user.otpSecret ? [] : ['one_time_password']),
    ...(before.locked === user.locked ? [] : [user.locked ? 'locked' : 'unlocked']),
    ...(before.deletionPending === user.deletionPending
      ? []
      : [user.deletionPending ? 'deletion_pending' : 'deletion_withdrawn']),
  ];
  return [
    ...(before.role === user.role
      ? []
      : [userChangedEvent(user, 'role', { role: user.role, previous_role: before.role })]),
    ...(before.customerId === user.customerId
      ? []
      : [userChangedEvent(user, 'customer', { previous_customer_id: before.customerId })]),
    ...reasons.map((reason) => userChangedEvent(user, reason)),
  ];
}

export function userChangedEvent(user: Ids, reason: string, more: AuditEvent['target'] = {}): AuditEvent {
  return { event: 'user.changed', outcome: 'success', target: { ...idsOf(user), ...more }, reason };
}

export function userDeletedEvent(user: Ids, reason?: string): AuditEvent {
  const deleted = { event: 'user.deleted', outcome: 'success', target: idsOf(user) } as const;
  return reason === undefined ? deleted : { ...deleted, reason };
}

export function otpAccepted(user: User): AuditEvent {
  return { event: 'otp.accepted', outcome: 'success', target: idsOf(user) };
}

export function idsOf(user: Ids | null) {
  return { user_id: user?.id ?? null, customer_id: user?.customerId ?? null };
}

export function unknown(auditEvents: readonly AuditEvent[]): AuditEvent[] {
  return auditEvents.map((event) => ({ ...event, outcome: 'unknown' }));
}

/** Work after a change: if it is unavailable, the error still reports the change. */
export async function reporting<T>(auditEvents: readonly AuditEvent[], work: () => MaybePromise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof Unavailable) throw withEvents(cause, auditEvents);
    throw cause;
  }
} // prettier-ignore

/** A change: if it is not confirmed, the error reports it with the outcome `unknown`. */
export async function reportingUnknown<T>(auditEvents: readonly AuditEvent[], change: () => Promise<T>): Promise<T> {
  try {
    return await change();
  } catch (cause) {
    if (cause instanceof OutcomeUnknown) throw withEvents(cause, unknown(auditEvents));
    throw cause;
  }
} // prettier-ignore

function withEvents(cause: Unavailable, auditEvents: readonly AuditEvent[]): Unavailable {
  return new Unavailable(withAuditEvents(cause.refusal, auditEvents), cause.message, { cause });
}
