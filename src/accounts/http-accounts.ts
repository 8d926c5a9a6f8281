import type { Config } from '../config/schema/config.js';
import { z } from 'zod';
import { parseUntrustedJson } from '../util/json.js';
import { isStorable, MAX_NAME, storableName } from '../domain/limits.js';
import { ConnectionFailed } from '../util/system-error.js';
import { Unavailable } from '../domain/refusal.js';
import { ID, isSameUser, lockOf, loginKey, type User } from '../domain/user.js';
import type { AuditEvent } from '../domain/audit.js';
import { fetchLimited, openAgent } from '../net/fetch-limited.js';
import type { Changes } from '../store/core/directory-checks.js';
import type { DirectoryStore } from '../store/core/directory.js';
import type { Accounts, Checked, Proof } from './stored-accounts.js';
import { isGlobalApiTokenUser } from './declared-records.js';
import { LoginQueue } from './passwords.js';
import { reportingUnknown, userChangedEvent, userWrittenEvents } from './audit-events.js';

const MAX_ANSWER = 64 * 1024;
const MAX_CONNECTIONS = 32;
/** Concurrent logins of one user may both try to store it. */
const MAX_ATTEMPTS = 3;

type Settings = NonNullable<Config['directory']['http']>;

const id = z.union([z.string(), z.int().transform(String)]).pipe(z.string().regex(ID));
const answer = z.object({
  id,
  customer_id: id,
  name: z.string().nullish(),
  role: z.string().min(1).max(MAX_NAME).refine(isStorable),
  locked: z.boolean().nullish(),
  two_factor: z.boolean().nullish(),
});
type Account = z.output<typeof answer>;

/**
 * Users from an external API, asked at every login. The response is stored as the user's record, against
 * which tokens and sessions are checked.
 */
export class HttpAccounts implements Accounts {
  readonly #directory: DirectoryStore;
  readonly #settings: Settings;
  readonly queue = new LoginQueue(MAX_CONNECTIONS);
  #agent: ReturnType<typeof openAgent> | undefined;

  constructor(directory: DirectoryStore, settings: Settings) {
    this.#directory = directory;
    this.#settings = settings;
  }

  async find(): Promise<undefined> {
    return undefined;
  }

  async check(proof: Proof): Promise<Checked> {
    const account = await this.#request(proof);
    if (account === 'wrong') return { verdict: account, user: await this.#known(proof.login) };
    const otp = proof.otp ? 'wrong' : 'missing';
    if (account === 'needs_otp') return { verdict: account, user: await this.#known(proof.login), otp };
    const kept = await this.#keep(account, proof.login);
    if (kept.user.locked) return { verdict: 'locked', ...kept };
    // A 200 response vouches for the one-time password in the request; without one, it cannot.
    if (account.two_factor !== true) return { verdict: 'right', ...kept, otp: null };
    return proof.otp
      ? { verdict: 'right', ...kept, otp: 'accepted' }
      : { verdict: 'needs_otp', ...kept, otp };
  }

  /** The source stores the passwords. */
  async loggedIn(): Promise<void> {}

  async #known(login: string): Promise<User | null> {
    return (await this.#directory.getUserByLogin(login)) ?? null;
  }

  async close(): Promise<void> {
    await (await this.#agent)?.close();
  }

  async #request({ login, password, otp }: Proof): Promise<Account | 'wrong' | 'needs_otp'> {
    const { status, json } = await this.#post(JSON.stringify({ login, password, otp: otp ?? null }));
    if (status === 200) {
      const account = answer.safeParse(json);
      if (account.success) return account.data;
      const fields = account.error.issues.map(({ path }) => path.join('.') || 'the whole body').join(', ');
      throw this.#unavailable(`its response has invalid fields: ${fields}`);
    }
    const needsOtp = (json as { code?: unknown } | null | undefined)?.code === '2fa.verify';
    if (needsOtp && status >= 400 && status < 500) return 'needs_otp';
    if (status === 401 || status === 403 || status === 404) return 'wrong';
    throw this.#unavailable(`it responded with ${status}`);
  }

  async #post(body: string): Promise<{ status: number; json: unknown }> {
    const { url, timeout } = this.#settings;
    const limits = { timeout, maxBody: MAX_ANSWER };
    try {
      const { status, text } = await fetchLimited(url, {
        ...limits,
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/json' },
        body,
        agent: await (this.#agent ??= openAgent(limits, MAX_CONNECTIONS)),
      });
      return { status, json: parseJson(text) };
    } catch (cause) {
      throw this.#unavailable(cause instanceof ConnectionFailed ? cause.reason : String(cause), cause);
    }
  }

  #unavailable(reason: string, cause?: unknown): Unavailable {
    // The user info, password or query of the URL may be a credential.
    const { origin, pathname } = new URL(this.#settings.url);
    const message = `directory.http: ${origin}${pathname}: ${reason}`;
    return new Unavailable({ refusal: 'account_source_unavailable' }, message, { cause });
  }

  /** An id of another customer's user would get that user's tokens. */
  #refuseClash(account: Account, before: User | undefined): void {
    if (before === undefined) return;
    if (isGlobalApiTokenUser(before)) throw this.#ownsLegacyKeys(before);
    const { id, customerId } = before;
    if (customerId !== account.customer_id)
      throw this.#unavailable(
        `it returned customer ${account.customer_id} for user ${id}, who belongs to customer ` +
          `${customerId}; an id must be unique across customers (after a move, run latchkey user delete ${id})`,
      );
  }

  #ownsLegacyKeys({ id }: User): Unavailable {
    return this.#unavailable(`the user ${id} owns legacy keys and cannot log in`);
  }

  async #keep(account: Account, login: string): Promise<{ user: User; auditEvents: readonly AuditEvent[] }> {
    for (let attempts = 1; ; attempts++) {
      const now = Date.now();
      const before = await this.#directory.getUser(account.id);
      this.#refuseClash(account, before);
      const user = userOf(account, login, before, now);
      // An operator's lock refuses the login, whatever the source says.
      if (before !== undefined && (before.lockedBy === 'operator' || isSameUser(before, user)))
        return { user: before, auditEvents: [] };
      const holder = await this.#directory.getUserByLogin(login);
      if (holder !== undefined && isGlobalApiTokenUser(holder)) throw this.#ownsLegacyKeys(holder);
      const known = await this.#directory.getCustomer(user.customerId);
      const others = holder === undefined || holder.id === user.id ? [] : [holder];
      const changes: Changes = {
        users: [user, ...others.map((other) => withoutLogin(other, now))],
        ...(known === undefined ? { customers: [{ id: user.customerId, name: user.customerId }] } : {}),
        // Never a later read of the same user: a change between the two would be lost.
        basedOn: new Map<string, number | null>([
          [user.id, before?.updatedAt ?? null],
          ...others.map(({ id, updatedAt }) => [id, updatedAt] as const),
        ]),
      };
      const auditEvents = [
        ...userWrittenEvents(before, user, 'account_source'),
        ...others.map((other) => userChangedEvent(other, 'login')),
      ];
      const refused = await reportingUnknown(auditEvents, async () => this.#directory.change(changes, now));
      if (refused === undefined) return { user, auditEvents };
      if (attempts === MAX_ATTEMPTS)
        throw this.#unavailable(`the user ${user.id} cannot be stored (${refused.reason})`);
    }
  }
}

function userOf(account: Account, login: string, before: User | undefined, now: number): User {
  return {
    id: account.id,
    customerId: account.customer_id,
    login: before !== undefined && loginKey(before.login) === loginKey(login) ? before.login : login.trim(),
    name: storableName(account.name ?? ''),
    role: account.role,
    passwordHash: null,
    otpSecret: null,
    ...lockOf(account.locked === true, before),
    createdAt: before?.createdAt ?? now,
    updatedAt: Math.max(now, (before?.updatedAt ?? 0) + 1),
  };
}

/** Frees the login of a user whom the source previously knew by it; another user has it now. */
function withoutLogin(user: User, now: number): User {
  return { ...user, login: `${user.login}#${user.id}`, updatedAt: Math.max(now, user.updatedAt + 1) };
}

function parseJson(text: string): unknown {
  try {
    return parseUntrustedJson(text);
  } catch {
    return undefined;
  }
}
