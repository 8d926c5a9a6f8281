import type { AuditEvent } from '../domain/audit.js';
import { type GrantCode, type Refusal, Unavailable, withAuditEvents } from '../domain/refusal.js';
import { loginKey, type User } from '../domain/user.js';
import { networkOf } from '../util/addresses.js';
import { idsOf, otpAccepted, reporting } from './audit-events.js';
import type { Accounts, Checked } from './stored-accounts.js';
import type { Attempted, AttemptOutcome, LoginThrottle, Reservation } from './login-throttle.js';
import { confirmation, credentials, readBy } from './parameters.js';
import { LoginQueue } from './passwords.js';

/** A login attempt's proof of identity. */
export interface LoginAttempt {
  /** Absent: the caller's. */
  readonly login: string | undefined;
  readonly password: string | undefined;
  readonly otp: string | undefined;
  readonly address: string;
  /** The user of the request's credential, whose login name and password must match. */
  readonly caller?: User | undefined;
}

type CompleteAttempt = LoginAttempt & { readonly login: string; readonly password: string };

export interface LoggedIn<Granted> {
  readonly user: User;
  readonly granted: Granted;
  readonly auditEvents: readonly AuditEvent[];
}

export type Grant<Granted> = (user: User) => Promise<Granted | Refusal | 'owner_changed'>;

/**
 * When the next login has to wait. An unknown name (null) takes as long, or responses would tell names apart.
 */
export type OnLockedOut = (user: User | null, wait: number) => Promise<void>;

type WrongStatus = 400 | 401 | 403;

const OTHER_USER = {
  refusal: 'other_user',
  detail: 'The username does not match the credential',
} as const;

/** Per account in this process. */
const MAX_WAITING_PER_ACCOUNT = 20;

/** Attempts for one account run one at a time, so that they cannot all see the same failure count. */
export class Logins {
  readonly #accounts: Accounts;
  readonly #throttle: LoginThrottle;
  readonly #onOutcome: (outcome: string) => void;
  readonly #onLockedOut: OnLockedOut;
  readonly #perAccount = new Map<string, LoginQueue>();

  /** @param onOutcome gets `succeeded`, the code or tag of the refusal, or `unavailable` */
  constructor(
    accounts: Accounts,
    throttle: LoginThrottle,
    onOutcome: (outcome: string) => void,
    onLockedOut: OnLockedOut = async () => undefined,
  ) {
    this.#onLockedOut = onLockedOut;
    this.#accounts = accounts;
    this.#throttle = throttle;
    this.#onOutcome = onOutcome;
  }

  /** @param wrongStatus of `invalid_grant`: 401 at POST /login, 400 at POST /tokens, 403 at POST /sudo */
  async check<Granted extends object | null>(
    attempt: LoginAttempt,
    wrongStatus: WrongStatus,
    grant: Grant<Granted>,
  ): Promise<LoggedIn<Granted> | Refusal> {
    try {
      const checked = await this.#check(attempt, wrongStatus, grant);
      this.#onOutcome('refusal' in checked ? outcomeOf(checked) : 'succeeded');
      return checked;
    } catch (error) {
      const isUnknown = error instanceof Unavailable && error.refusal.refusal === 'outcome_unknown';
      this.#onOutcome(isUnknown ? 'outcome_unknown' : 'unavailable');
      throw error;
    }
  }

  async #check<Granted extends object | null>(
    attempt: LoginAttempt,
    wrongStatus: WrongStatus,
    grant: Grant<Granted>,
  ): Promise<LoggedIn<Granted> | Refusal> {
    const { password, caller, address } = attempt;
    const given = readBy(
      caller === undefined ? credentials : confirmation,
      { login: attempt.login ?? caller?.login, password },
      { status: 400, code: 'invalid_request' },
    );
    if ('refusal' in given) return given;
    const { login } = given.value;
    // Before anything is counted: a credential must not help to lock or guess another account.
    if (caller !== undefined && loginKey(login) !== loginKey(caller.login)) return OTHER_USER;
    const complete = { ...attempt, ...given.value, otp: attempt.otp?.trim() || undefined };
    const attempted = { login, address, hasCode: complete.otp !== undefined };
    const { wait, known } = await this.#throttle.look(attempted, Date.now());
    if (wait > 0) return throttledRefusal(wait);
    const network = networkOf(address);
    try {
      return await this.#oneAtATime(loginKey(login), network, () =>
        this.#accounts.queue.run(network, () =>
          this.#try(complete, { ...attempted, known }, wrongStatus, grant),
        ),
      );
    } catch (error) {
      if (error instanceof Unavailable && error.refusal.refusal === 'overloaded') return error.refusal;
      throw error;
    }
  }

  /** Counts the attempt as a failure first, and takes it back if it was not one. */
  async #try<Granted extends object | null>(
    attempt: CompleteAttempt,
    { known, ...attempted }: Attempted & { readonly known: boolean },
    wrongStatus: WrongStatus,
    grant: Grant<Granted>,
  ): Promise<LoggedIn<Granted> | Refusal> {
    const { login, password, otp } = attempt;
    // Asked together with the reservation, to wait for the store once.
    const found = this.#accounts.find(login);
    found.catch(() => undefined);
    const reserved = await this.#throttle.reserve(attempted, Date.now(), known);
    if (typeof reserved === 'number') return throttledRefusal(reserved);
    let attemptOutcome: AttemptOutcome | 'settled' = 'not_checked';
    let settling: Promise<void> | undefined;
    try {
      const checked = await this.#accounts.check({ login, password, otp }, found);
      if (checked.verdict !== 'right') {
        attemptOutcome = 'settled';
        return await this.#refuse(checked, reserved, wrongStatus);
      }
      attemptOutcome = 'right_password';
      const { user } = checked;
      const auditEvents = succeededLogin(checked);
      // The login name may have been given to someone else since the credential was looked up.
      if (attempt.caller !== undefined && user.id !== attempt.caller.id)
        return withAuditEvents(OTHER_USER, auditEvents);
      attemptOutcome = 'settled';
      // Together with the grant, to wait for the store once.
      settling = settle(reserved, 'succeeded');
      const granted = await reporting(auditEvents, async () => grant(user));
      if (granted === 'owner_changed') {
        await settling;
        // Its password may have been changed, so the attempt counts as a failure after all.
        const again = await this.#throttle.reserve(attempted, Date.now(), known);
        if (typeof again === 'number') return throttledRefusal(again);
        return await this.#refuse({ ...checked, verdict: 'wrong' }, again, wrongStatus);
      }
      await this.#accounts.loggedIn(user, password).catch(ignoreUnavailable);
      if (granted !== null && 'refusal' in granted) return withAuditEvents(granted, auditEvents);
      return { user, granted, auditEvents };
    } finally {
      if (attemptOutcome !== 'settled') settling = settle(reserved, attemptOutcome);
      await settling;
    }
  }

  async #refuse(checked: Failed, reserved: Reservation, wrongStatus: WrongStatus): Promise<Refusal> {
    const { attemptOutcome, refusal } = failureOf(checked, wrongStatus);
    // First, so that the next wait is that of what stays counted.
    await settle(reserved, attemptOutcome);
    const wait =
      attemptOutcome === 'right_password'
        ? 0
        : await reporting(failedLogin(checked, 0), async () => reserved.nextWait(Date.now()));
    if (wait > 0) await this.#onLockedOut(checked.user, wait);
    return { ...refusal, auditEvents: failedLogin(checked, wait) };
  }

  async #oneAtATime<T>(key: string, network: string, work: () => Promise<T>): Promise<T> {
    let queue = this.#perAccount.get(key);
    if (queue === undefined) this.#perAccount.set(key, (queue = new LoginQueue(1, MAX_WAITING_PER_ACCOUNT)));
    try {
      return await queue.run(network, work);
    } finally {
      if (queue.isIdle) this.#perAccount.delete(key);
    }
  }
}

/** Returns how a failed attempt counts, and its refusal. */
function failureOf(checked: Failed, wrongStatus: WrongStatus) {
  const failure = (attemptOutcome: AttemptOutcome, status: WrongStatus, code: GrantCode, detail: string) => ({
    attemptOutcome,
    refusal: { refusal: 'grant', status, code, detail } as const,
  });
  switch (checked.verdict) {
    case 'wrong':
      return failure('wrong_password', wrongStatus, 'invalid_grant', 'The username and password combination is wrong');
    case 'locked':
      return failure('right_password', 400, 'account_locked', 'The account is locked');
    case 'needs_otp': {
      const attemptOutcome = checked.otp === 'missing' ? 'right_password' : 'wrong_code';
      return failure(attemptOutcome, 400, '2fa.verify', 'Invalid one-time password');
    }
  }
} // prettier-ignore

/** An attempt that cannot be taken back stays counted, which locks nobody out for long. */
async function settle(reserved: Reservation, attemptOutcome: AttemptOutcome): Promise<void> {
  await reserved.settle(attemptOutcome, Date.now()).catch(ignoreUnavailable);
}

export function throttledRefusal(wait: number): Refusal {
  const throttled: AuditEvent = { event: 'login.throttled', outcome: 'denied', retry_after: wait };
  return { refusal: 'login_throttled', retryAfter: wait, auditEvents: [throttled] };
}

export function ignoreUnavailable(error: unknown): void {
  if (!(error instanceof Unavailable)) throw error;
}

function outcomeOf(refusal: Refusal): string {
  return refusal.refusal === 'grant' ? refusal.code : refusal.refusal;
}

type Right = Extract<Checked, { verdict: 'right' }>;
type Failed = Exclude<Checked, Right>;

export function succeededLogin({ user, otp, auditEvents = [] }: Right): AuditEvent[] {
  const succeeded: AuditEvent = { event: 'login.succeeded', outcome: 'success', target: idsOf(user) };
  return [...auditEvents, succeeded, ...(otp === null ? [] : [otpAccepted(user)])];
}

/** The login name is omitted, because people type passwords there. @param wait seconds; 0 for none */
function failedLogin(checked: Failed, wait: number): AuditEvent[] {
  const target = idsOf(checked.user);
  const auditEvents: AuditEvent[] = [...(checked.auditEvents ?? [])];
  if (checked.verdict === 'needs_otp') {
    auditEvents.push({ event: 'otp.refused', outcome: 'failure', reason: checked.otp, target });
  } else {
    const reason =
      checked.verdict === 'locked' ? 'locked' : checked.user === null ? 'unknown_login' : 'wrong_password';
    auditEvents.push({ event: 'login.failed', outcome: 'failure', reason, target });
  }
  if (wait > 0) auditEvents.push({ event: 'login.locked_out', outcome: 'denied', retry_after: wait, target });
  return auditEvents;
}
