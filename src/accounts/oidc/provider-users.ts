import { createHash } from 'node:crypto';
import type { AuditEvent } from '../../domain/audit.js';
import type { EpochMs } from '../../util/time.js';
import { isSameUser, lockOf, type User } from '../../domain/user.js';
import type { DirectoryStore } from '../../store/core/directory.js';
import { reportingUnknown, userChangedEvent, userWrittenEvents } from '../audit-events.js';
import { type Claims, describeClaims, type Person, personOf, roleOf } from './claims.js';
import { type LoginFailure, LoginFailed, type ProviderSettings } from './settings.js';

/** Maximum attempts to write a user: concurrent logins of one person may both try to. */
const MAX_ATTEMPTS = 3;

type Admission =
  | { readonly user: User; readonly auditEvents: readonly AuditEvent[] }
  | {
      readonly failure: LoginFailure;
      /** For the log. */
      readonly reason: string;
      readonly user: User | null;
      readonly auditEvents: readonly AuditEvent[];
    };

/** Always the same, so that no search is needed. */
export function idOfPerson(issuer: string, subject: string): string {
  return `oidc${createHash('sha256')
    .update(JSON.stringify([issuer, subject]))
    .digest('hex')
    .slice(0, 40)}`;
}

/**
 * A person is identified only by issuer and subject, so nobody gets another user's account through a login
 * name or an email address.
 */
export class ProviderUsers {
  readonly #directory: DirectoryStore;
  readonly #precision: number;

  /** @param precision milliseconds by which the stored last login may be too early, to save writes */
  constructor(directory: DirectoryStore, precision: number) {
    this.#directory = directory;
    this.#precision = precision;
  }

  /** A person without a role is not admitted, and an existing user is locked. */
  async admit(claims: Claims, settings: ProviderSettings, now: EpochMs): Promise<Admission> {
    const person = personOf(claims, settings);
    const role = roleOf(claims, settings);
    for (let attempts = 1; ; attempts++) {
      const before = await this.#directory.getUser(idOfPerson(settings.issuer, person.subject));
      const admission = await this.#admitOnce(person, role, before, settings, now);
      if (admission !== undefined && 'failure' in admission)
        return { ...admission, reason: `${admission.reason}; ${describeClaims(claims, settings)}` };
      if (admission !== undefined) return admission;
      if (attempts === MAX_ATTEMPTS)
        throw new LoginFailed('provider_unavailable', 'the user is being changed elsewhere; try again');
    }
  }

  /** @returns undefined if the user was changed concurrently */
  async #admitOnce(
    person: Person,
    role: string | undefined,
    before: User | undefined,
    settings: ProviderSettings,
    now: EpochMs,
  ): Promise<Admission | undefined> {
    const failed = (failure: LoginFailure, reason: string, auditEvents: readonly AuditEvent[] = []): Admission => ({ failure, reason, user: before ?? null, auditEvents });
    if (before !== undefined && (before.lockedBy === 'operator' || before.deletionPending === true))
      return failed('locked', before.deletionPending === true ? `the user ${before.id} is being deleted` : `an operator locked the user ${before.id}`);
    if (before !== undefined && before.provider?.subject !== person.subject)
      return failed('login_taken', `the directory file declares a user with the id ${before.id}`);
    const noRole = 'no value of the claim is in roles.map, and there is no roles.default';
    if (role === undefined) {
      if (before === undefined || before.locked) return failed('no_role', noRole);
      const auditEvents = [userChangedEvent(before, 'no_role')];
      const locked = await this.#write({ ...before, locked: true, updatedAt: later(now, before) }, before, auditEvents, now);
      return locked === 'written' ? failed('no_role', noRole, auditEvents) : undefined;
    }
    if ((await this.#directory.getCustomer(settings.customer_id)) === undefined)
      return failed('unknown_customer', `the store has no customer ${settings.customer_id}`);
    const holder = await this.#directory.getUserByLogin(person.login);
    const user = userOf(person, role, before, settings, this.#precision, now);
    const taken = 'another user has the login name';
    if (holder !== undefined && holder.id !== user.id) return failed('login_taken', `${taken}: ${holder.id}`);
    if (before !== undefined && isSameUser(before, user)) return { user: before, auditEvents: [] };
    const auditEvents = userWrittenEvents(before, user, 'provider');
    const written = await this.#write(user, before, auditEvents, now);
    if (written === 'login_taken') return failed('login_taken', taken);
    return written === 'written' ? { user, auditEvents } : undefined;
  } // prettier-ignore

  async #write(
    user: User,
    before: User | undefined,
    auditEvents: readonly AuditEvent[],
    now: EpochMs,
  ): Promise<'written' | 'login_taken' | 'again'> {
    const basedOn = new Map([[user.id, before?.updatedAt ?? null]]);
    const refused = await reportingUnknown(auditEvents, async () =>
      this.#directory.change({ users: [user], basedOn }, now),
    );
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
