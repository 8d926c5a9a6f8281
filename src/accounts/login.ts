import pLimit from 'p-limit';
import type { AuditFact } from '../domain/audit.js';
import type { GrantCode, Refusal } from '../domain/refusal.js';
import { loginKey, type User } from '../domain/user.js';
import type { Accounts } from './accounts.js';
import { failedLogin, succeededLogin, throttled } from './login-facts.js';
import type { BackOff } from './back-off.js';
import { confirmation, credentials, readBy } from './parameters.js';
import { PasswordsBusy } from './passwords.js';

/** What someone sent to prove who they are. */
export interface LoginAttempt {
  /** undefined when none was sent: then it is the caller's. */
  readonly login: string | undefined;
  readonly password: string | undefined;
  readonly otp: string | undefined;
  /** IP address of the client. */
  readonly address: string;
  /** Whose credential came with it, and so whose login name and password it has to be; absent when that plays no part. */
  readonly caller?: User | undefined;
}

/** An attempt with everything that it needs. */
type WholeAttempt = LoginAttempt & { readonly login: string; readonly password: string };

/** Who logged in, and what the audit log is told of it. */
export interface LoggedIn {
  readonly user: User;
  readonly facts: readonly AuditFact[];
}

type WrongStatus = 400 | 401 | 403;

const OTHER_USER = {
  refusal: 'other_user',
  detail: 'The username is not that of the credential that was sent',
} as const;

/** Tries of one account that may wait in this process; beyond it they are refused at once. */
const MAX_WAITING_PER_ACCOUNT = 20;

/**
 * Checks a login name, a password and, where the account asks for it, a one-time password.
 *
 * The tries of one account run one after the other, so that many at once can't each see the same count of failures.
 */
export class Logins {
  readonly #accounts: Accounts;
  readonly #backOff: BackOff;
  readonly #onOutcome: (outcome: string) => void;
  readonly #perAccount = new Map<string, ReturnType<typeof pLimit>>();

  /**
   * @param onOutcome told how each check ended: `succeeded`, the code or tag of its refusal, or `unavailable` when it
   * could not be made
   */
  constructor(accounts: Accounts, backOff: BackOff, onOutcome: (outcome: string) => void) {
    this.#accounts = accounts;
    this.#backOff = backOff;
    this.#onOutcome = onOutcome;
  }

  /**
   * Returns the user, or the refusal to answer with.
   *
   * @param wrongStatus status of `invalid_grant`: 401 at POST /login, 400 at POST /tokens, 403 at POST /sudo
   */
  async check(attempt: LoginAttempt, wrongStatus: WrongStatus): Promise<LoggedIn | Refusal> {
    try {
      const checked = await this.#check(attempt, wrongStatus);
      this.#onOutcome('refusal' in checked ? outcomeOf(checked) : 'succeeded');
      return checked;
    } catch (error) {
      this.#onOutcome('unavailable');
      throw error;
    }
  }

  async #check(attempt: LoginAttempt, wrongStatus: WrongStatus): Promise<LoggedIn | Refusal> {
    const { password, caller } = attempt;
    const given = readBy(
      caller === undefined ? credentials : confirmation,
      { login: attempt.login ?? caller?.login, password },
      { status: 400, code: 'invalid_request' },
    );
    if ('refusal' in given) return given;
    const { login } = given.value;
    // Before anything is counted: whoever has a credential can't block another account, nor try its passwords.
    if (caller !== undefined && loginKey(login) !== loginKey(caller.login)) return OTHER_USER;
    try {
      return await this.#oneAtATime(loginKey(login), () =>
        this.#try({ ...attempt, ...given.value }, wrongStatus),
      );
    } catch (error) {
      if (error instanceof PasswordsBusy) return { refusal: 'overloaded', detail: 'Too many logins at once' };
      throw error;
    }
  }

  async #try(
    { login, password, otp, address, caller }: WholeAttempt,
    wrongStatus: WrongStatus,
  ): Promise<LoggedIn | Refusal> {
    const wait = await this.#backOff.secondsToWait(login, address, Date.now());
    if (wait > 0) return { refusal: 'login_throttled', retryAfter: wait, facts: [throttled(wait)] };

    const checked = await this.#accounts.check({ login, password, otp: otp?.trim() });
    const now = Date.now();
    switch (checked.verdict) {
      case 'wrong': {
        const facts = failedLogin(checked, await this.#backOff.failed(login, address, now));
        const detail = 'The username and password combination is wrong';
        return { ...grant(wrongStatus, 'invalid_grant', detail), facts };
      }
      case 'locked':
        return { ...grant(400, 'account_locked', 'The account is locked'), facts: failedLogin(checked, 0) };
      case 'needs_otp': {
        const wait = checked.otp === 'missing' ? 0 : await this.#backOff.failed(login, address, now);
        return {
          ...grant(400, '2fa.verify', 'Invalid one-time password'),
          facts: failedLogin(checked, wait),
        };
      }
      case 'right':
        // The name may have gone to somebody else since the credential was looked up.
        if (caller !== undefined && checked.user.id !== caller.id) return OTHER_USER;
        await this.#backOff.succeeded(login, now);
        return { user: checked.user, facts: succeededLogin(checked) };
    }
  }

  async #oneAtATime<T>(key: string, work: () => Promise<T>): Promise<T> {
    let limit = this.#perAccount.get(key);
    if (limit === undefined) this.#perAccount.set(key, (limit = pLimit(1)));
    if (limit.pendingCount >= MAX_WAITING_PER_ACCOUNT) throw new PasswordsBusy();
    try {
      return await limit(work);
    } finally {
      if (limit.activeCount === 0 && limit.pendingCount === 0) this.#perAccount.delete(key);
    }
  }
}

function outcomeOf(refusal: Refusal): string {
  return refusal.refusal === 'grant' ? refusal.code : refusal.refusal;
}

function grant(status: WrongStatus, code: GrantCode, detail: string) {
  return { refusal: 'grant', status, code, detail } as const;
}
