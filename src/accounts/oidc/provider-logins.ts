import type { AuditEvent } from '../../domain/audit.js';
import {
  type LoginUnderWay,
  logoutsOfLogin,
  type NotedLogout,
  notedLogouts,
} from '../../domain/provider-logout.js';
import type { ProviderLogin } from '../../domain/session.js';
import { type EpochMs, HOUR_MS } from '../../domain/time.js';
import type { User } from '../../domain/user.js';
import type { DirectoryStore } from '../../store/directory-store.js';
import { type Claims, sidOf } from './claims.js';
import type { LoginLimits } from './login-limits.js';
import { LOGIN_TIME_MS, type LoginState, type LoginStates } from './login-states.js';
import type { LogoutTokens } from './logout-tokens.js';
import { type Discovered, Provider } from './provider.js';
import { idOfPerson, ProviderUsers } from './provider-users.js';
import { isGuess, LoginFailed, type LoginFailure, type ProviderSettings } from './settings.js';

/** Receives events, for metrics and the log. */
export interface OidcEvents {
  readonly discovered: Discovered;
  /** @param error what it failed by, for the log; undefined when it succeeded */
  readonly loggedIn: (provider: string, outcome: 'succeeded' | LoginFailure, error?: LoginFailed) => void;
}

/** A login that a browser begins: where it goes, and what it keeps until it comes back. */
interface BegunLogin {
  readonly url: string;
  readonly cookie: string;
}

/** The outcome of a login. */
export interface EndedLogin {
  /** Where the browser goes; null: to the web page. */
  readonly returnTo: string | null;
  readonly auditEvents: readonly AuditEvent[];
  readonly result:
    | { readonly failure: LoginFailure; readonly user: User | null }
    /** It came too early and was not checked: the seconds to wait. */
    | { readonly wait: number }
    | {
        readonly user: User;
        readonly login: ProviderLogin & { readonly underWay: LoginUnderWay };
        readonly fresh: boolean;
      };
}

/** Whose sessions a provider ended. */
export interface ProviderLogout {
  readonly userIds: readonly string[];
  /** The provider's own sessions, null for a login without any; undefined: all of the user's. */
  readonly sids: readonly (string | null)[] | undefined;
  /** What is kept of it for logins that are under way, and until when. */
  readonly noted: readonly NotedLogout[];
  readonly until: EpochMs;
  /** Says that it took effect: from then on its token does not hold. */
  readonly done: () => Promise<void>;
}

/** A login that began before a logout has ended when that is forgotten. */
const LOGOUT_NOTED_MS = 1.5 * LOGIN_TIME_MS;

/** Logins at OpenID Connect providers: the authorization code flow with PKCE, state and nonce (RFC 9700 2.1). */
export class ProviderLogins {
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #states: LoginStates;
  readonly #directory: DirectoryStore;
  readonly #logoutTokens: LogoutTokens;
  readonly #limits: LoginLimits;
  readonly #users: ProviderUsers;
  readonly #events: OidcEvents;

  /**
   * @param base the address of the web page as browsers see it, with a slash at its end
   * @param ownerLoginWithin milliseconds since a login for which tokens work; null: for good
   */
  constructor(
    settings: readonly ProviderSettings[],
    base: string,
    states: LoginStates,
    directory: DirectoryStore,
    logoutTokens: LogoutTokens,
    limits: LoginLimits,
    ownerLoginWithin: number | null,
    events: OidcEvents,
  ) {
    const providers = settings.map((each) => {
      const callback = `${base}oidc/${each.name}/callback`;
      return [each.name, new Provider(each, callback, events.discovered)] as const;
    });
    this.#providers = new Map(providers);
    this.#states = states;
    this.#directory = directory;
    this.#logoutTokens = logoutTokens;
    this.#limits = limits;
    this.#users = new ProviderUsers(directory, Math.min(HOUR_MS, (ownerLoginWithin ?? Infinity) / 24));
    this.#events = events;
  }

  /** Name and title of each, in the order of the configuration. */
  get list(): { readonly name: string; readonly title: string }[] {
    return [...this.#providers.values()].map(({ settings: { name, title } }) => ({ name, title }));
  }

  has(name: string): boolean {
    return this.#providers.has(name);
  }

  /** Begins a login. @param fresh the provider must ask for it anew @param address IP address of the client */
  async begin(
    name: string,
    returnTo: string | undefined,
    fresh: boolean,
    address: string,
    now: EpochMs,
  ): Promise<BegunLogin | LoginFailure | { readonly wait: number }> {
    const wait = await this.#limits.request(address, now);
    if (wait > 0) return { wait };
    const state = this.#states.begin(returnTo, fresh, now);
    try {
      const url = await this.#limits.ask(name, async () => this.#named(name).loginUrl(state, fresh));
      return { url, cookie: this.#states.seal(state, name) };
    } catch (error) {
      return this.#failureOf(name, error);
    }
  }

  /**
   * Ends a login with what a browser came back with.
   *
   * @param cookie what it kept since the beginning
   */
  async end(
    name: string,
    query: string,
    cookie: string | undefined,
    address: string,
    now: EpochMs,
  ): Promise<EndedLogin> {
    const state = cookie === undefined ? undefined : this.#states.open(cookie, name, now);
    const ended = (result: EndedLogin['result'], auditEvents: readonly AuditEvent[] = []): EndedLogin => ({
      returnTo: state?.returnTo ?? null,
      auditEvents,
      result,
    });
    try {
      const early = await this.#limits.request(address, now);
      if (early > 0) return ended({ wait: early });
      // What another browser began counts as no failure: any page can send a browser here with that.
      if (state === undefined || new URLSearchParams(query).get('state') !== state.state) throw notBegun();
      const wait = await this.#limits.attempt(address, now);
      if (wait > 0) return ended({ wait });
      const provider = this.#named(name);
      const claims = await this.#redeem(provider, query, state, now).catch(async (error: unknown) => {
        if (!isGuess(error)) await this.#limits.release(address, now);
        throw error;
      });
      await this.#limits.release(address, now);
      const admission = await this.#users.admit(claims, provider.settings, now);
      const { auditEvents, user } = admission;
      if ('failure' in admission) {
        this.#events.loggedIn(name, admission.failure);
        return ended({ failure: admission.failure, user }, auditEvents);
      }
      const login = loginOf(name, admission.user, claims, state.begunAt);
      return ended({ user: admission.user, login, fresh: state.fresh }, auditEvents);
    } catch (error) {
      return ended({ failure: this.#failureOf(name, error), user: null });
    }
  }

  async #redeem(provider: Provider, query: string, state: LoginState, now: EpochMs): Promise<Claims> {
    if (!(await this.#states.take(state, now))) throw notBegun();
    const expected = { ...state, freshSince: state.fresh ? state.begunAt : null };
    return this.#limits.ask(provider.settings.name, async () => provider.claimsOf(query, expected, now));
  }

  /** Counts a login that was let in, by whether it gave a session. */
  count(name: string, outcome: 'succeeded' | LoginFailure): void {
    this.#events.loggedIn(name, outcome);
  }

  /** Where a browser goes to log out at the provider; undefined when there is no such place. */
  async logoutUrl(name: string, backTo: string): Promise<string | undefined> {
    try {
      return await this.#limits.ask(name, async () => this.#named(name).logoutUrl(backTo));
    } catch (error) {
      if (error instanceof LoginFailed) return undefined;
      throw error;
    }
  }

  /** The sessions that a logout token ends; undefined for an invalid one. @throws Unavailable */
  async loggedOut(name: string, token: string, now: EpochMs): Promise<ProviderLogout | undefined> {
    const provider = this.#named(name);
    const { settings } = provider;
    const told = await provider.loggedOut(token, now);
    if (told === undefined) return undefined;
    const { subject, sid, jti, issuedAt } = told;
    const { issuer } = settings;
    if (await this.#logoutTokens.tookEffect(issuer, jti, now)) return undefined;
    const userId = subject === undefined ? undefined : idOfPerson(issuer, subject);
    return {
      userIds: userId === undefined ? await this.#usersOf(settings) : [userId],
      sids: sid === undefined ? undefined : userId === undefined ? [sid] : [sid, null],
      noted: notedLogouts(name, { userId, sid }, issuedAt, now),
      until: now + LOGOUT_NOTED_MS,
      done: async () => this.#logoutTokens.note(issuer, jti, now),
    };
  }

  /** Its people may be of another customer than it says now: they move with their next login. */
  async #usersOf({ issuer }: ProviderSettings): Promise<string[]> {
    const found: string[] = [];
    for (const customer of await this.#directory.listCustomers())
      for (const { id, provider } of await this.#directory.listUsers(customer.id))
        if (provider?.issuer === issuer) found.push(id);
    return found;
  }

  #named(name: string): Provider {
    const provider = this.#providers.get(name);
    if (provider === undefined) throw new Error(`no provider is named ${name}`);
    return provider;
  }

  /** @throws what is no failure of a login */
  #failureOf(name: string, error: unknown): LoginFailure {
    if (!(error instanceof LoginFailed)) throw error;
    this.#events.loggedIn(name, error.failure, error);
    return error.failure;
  }
}

function notBegun(): LoginFailed {
  return new LoginFailed('not_begun', 'no such login is in progress in this browser');
}

function loginOf(name: string, { id }: User, claims: Claims, begunAt: EpochMs) {
  const sid = sidOf(claims);
  const issuedAt = typeof claims['iat'] === 'number' ? claims['iat'] * 1000 : 0;
  return { name, sid, underWay: { logouts: logoutsOfLogin(name, id, sid), issuedAt, begunAt } };
}
