import { createHash } from 'node:crypto';
import type { AuditEvent } from '../../domain/audit.js';
import type { EpochMs } from '../../domain/time.js';
import { isSameUser, lockOf, type User } from '../../domain/user.js';
import type { DirectoryStore } from '../../store/directory-store.js';
import { type Claims, type Person, personOf, roleOf } from './claims.js';
import { type LoginFailure, LoginFailed, type ProviderSettings } from './settings.js';

/** Two logins of one person at once may both want to write the user's record. */
const MAX_ATTEMPTS = 3;

/** A user who may log in, or the reason why not, with what was changed. */
type Admission =
  | { readonly user: User; readonly auditEvents: readonly AuditEvent[] }
  | { readonly failure: LoginFailure; readonly user: User | null; readonly auditEvents: readonly AuditEvent[] }; // prettier-ignore

/** The id of the user who is a person at an issuer: always the same, so that nothing has to be looked for. */
export function idOfPerson(issuer: string, subject: string): string {
  return `oidc${createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')
    .slice(0, 40)}`;
}

/**
 * Users whom providers vouch for. A person is known by issuer and subject alone, so nobody gets the account of somebody
 * else by a login name or an email, whichever of the two was there first.
 */
export class ProviderUsers {
  readonly #directory: DirectoryStore;
  readonly #precision: number;

  /** @param precision milliseconds that the time of the last login may be early, so that not every login is a write */
  constructor(directory: DirectoryStore, precision: number) {
    this.#directory = directory;
    this.#precision = precision;
  }

  /** The user of a person whom a provider let in, made or brought up to date. Whoever has no role is locked. */
  async admit(claims: Claims, settings: ProviderSettings, now: EpochMs): Promise<Admission> {
    const person = personOf(claims, settings);
    const role = roleOf(claims, settings);
    for (let attempts = 1; ; attempts++) {
      const before = await this.#directory.getUser(idOfPerson(settings.issuer, person.subject));
      const admission = await this.#admitOnce(person, role, before, settings, now);
      if (admission !== undefined) return admission;
      if (attempts === MAX_ATTEMPTS)
        throw new LoginFailed('provider_unavailable', 'the user keeps being changed; try again');
    }
  }

  /** @returns undefined when somebody else changed the user meanwhile */
  async #admitOnce(
    person: Person,
    role: string | undefined,
    before: User | undefined,
    settings: ProviderSettings,
    now: EpochMs,
  ): Promise<Admission | undefined> {
    const failed = (failure: LoginFailure, auditEvents: readonly AuditEvent[] = []): Admission => ({ failure, user: before ?? null, auditEvents });
    if (before !== undefined && (before.lockedBy === 'operator' || before.deletionPending === true)) return failed('locked');
    // Somebody wrote the id into the directory file.
    if (before !== undefined && before.provider?.subject !== person.subject) return failed('login_taken');
    if (role === undefined) {
      if (before === undefined || before.locked) return failed('no_role');
      const locked = await this.#write({ ...before, locked: true, updatedAt: later(now, before) }, before, now);
      return locked === 'written' ? failed('no_role', [changedEvent(before, 'no_role')]) : undefined;
    }
    if ((await this.#directory.getCustomer(settings.customer_id)) === undefined) return failed('unknown_customer');
    const holder = await this.#directory.getUserByLogin(person.login);
    const user = userOf(person, role, before, settings, this.#precision, now);
    if (holder !== undefined && holder.id !== user.id) return failed('login_taken');
    if (before !== undefined && isSameUser(before, user)) return { user: before, auditEvents: [] };
    const written = await this.#write(user, before, now);
    if (written === 'login_taken') return failed('login_taken');
    return written === 'written' ? { user, auditEvents: eventsOf(user, before) } : undefined;
  } // prettier-ignore

  async #write(
    user: User,
    before: User | undefined,
    now: EpochMs,
  ): Promise<'written' | 'login_taken' | 'again'> {
    const basedOn = new Map([[user.id, before?.updatedAt ?? null]]);
    const refused = await this.#directory.change({ users: [user], basedOn }, now);
    if (refused === undefined) return 'written';
    return refused.reason === 'login_taken' ? 'login_taken' : 'again';
  }
}

function userOf(
  { subject, login, name }: Person,
  role: string,
  before: User | undefined,
  { name: provider, issuer, customer_id: customerId }: ProviderSettings,
  precision: number,
  now: EpochMs,
): User {
  const known = before?.provider;
  const isRecent = known !== undefined && now - known.loginAt < precision && known.loginAt <= now;
  return {
    id: idOfPerson(issuer, subject),
    customerId,
    login,
    name,
    role,
    passwordHash: null,
    otpSecret: null,
    ...lockOf(false, before),
    provider: { name: provider, issuer, subject, loginAt: isRecent ? known.loginAt : now },
    createdAt: before?.createdAt ?? now,
    updatedAt: later(now, before),
  };
}

function later(now: EpochMs, before: User | undefined): EpochMs {
  return Math.max(now, (before?.updatedAt ?? 0) + 1);
}

/** What of a change an operator wants to know: not that the person logged in again. */
function eventsOf(user: User, before: User | undefined): AuditEvent[] {
  if (before === undefined)
    return [{ event: 'user.created', outcome: 'success', target: targetOf(user), reason: 'provider' }];
  const reasons = [
    ...(before.role === user.role ? [] : ['role']),
    ...(before.login === user.login ? [] : ['login']),
    ...(before.customerId === user.customerId ? [] : ['customer']),
    ...(before.locked === user.locked ? [] : ['unlocked']),
  ];
  return reasons.map((reason) => changedEvent(user, reason));
}

function changedEvent(user: User, reason: string): AuditEvent {
  return { event: 'user.changed', outcome: 'success', target: targetOf(user), reason };
}

function targetOf({ id, customerId }: User) {
  return { user_id: id, customer_id: customerId };
}
