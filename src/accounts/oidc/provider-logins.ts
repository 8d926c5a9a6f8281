import type { AuditEvent } from '../../domain/audit.js';
import {
  logoutRecords,
  logoutsOfLogin,
  type PendingLogin,
  type ProviderLogin,
  type RecordedLogout,
} from '../../domain/session.js';
import { forwardedClaims } from '../../domain/identity-fields.js';
import { Unavailable } from '../../domain/refusal.js';
import { type EpochMs, HOUR_MS } from '../../util/time.js';
import type { User } from '../../domain/user.js';
import { allUsers, type DirectoryStore } from '../../store/directory-store.js';
import { type Claims, sidOf } from './claims.js';
import type { IdTokens } from './id-tokens.js';
import type { LoginLimits } from './login-limits.js';
import { LOGIN_TIME_MS, type LoginState, type LoginStates } from './login-states.js';
import type { LogoutTokens } from './logout-tokens.js';
import { type OnDiscovery, Provider } from './provider.js';
import { idOfPerson, ProviderUsers } from './provider-users.js';
import { looksForged, LoginFailed, type LoginFailure, type ProviderSettings } from './settings.js';

/** Receives events, for metrics and the log. */
export interface OidcEvents {
  readonly discovered: OnDiscovery;
  /** @param error the cause of a failure, for the log; undefined if the login succeeded */
  readonly loggedIn: (provider: string, outcome: 'succeeded' | LoginFailure, error?: LoginFailed) => void;
  /** @param refused why the logout token is not accepted; undefined if it is */
  readonly loggedOut: (provider: string, refused: string | undefined) => void;
}

/** A login that a browser is about to begin: the URL to visit, and the cookie to keep meanwhile. */
interface BegunLogin {
  readonly url: string;
  readonly state: string;
  readonly cookie: string;
}

/** The outcome of a login. */
export interface EndedLogin {
  /** Where the browser goes; null: to the web page. */
  readonly returnTo: string | null;
  readonly auditEvents: readonly AuditEvent[];
  readonly result:
    | { readonly failure: LoginFailure; readonly user: User | null }
    /** The attempt was throttled and not checked: seconds to wait. */
    | { readonly wait: number }
    | {
        readonly user: User;
        readonly login: ProviderLogin & { readonly pending: PendingLogin };
        readonly fresh: boolean;
      };
}

/** Why a logout token is refused. */
type LogoutRefusal = 'invalid_token' | 'repeated_token';

/** The users and sessions that a provider logged out. */
export interface ProviderLogout {
  readonly userIds: readonly string[];
  /**
   * Ids of the provider's own sessions; null for a login without one.
   *
   * Undefined: all sessions of the users.
   */
  readonly sids: readonly (string | null)[] | undefined;
  /** The record of the logout for logins in progress, and when it expires. */
  readonly noted: readonly RecordedLogout[];
  readonly until: EpochMs;
  /** Marks the logout token as used; it is not valid afterwards. */
  readonly done: () => Promise<void>;
}

/**
 * How long a logout is kept, in milliseconds.
 *
 * By then, every login that began before the logout has ended.
 */
const LOGOUT_NOTED_MS = 1.5 * LOGIN_TIME_MS;

/**
 * Logins at OpenID Connect providers.
 *
 * They use the authorization code flow with PKCE, state and nonce (RFC 9700 2.1).
 */
export class ProviderLogins {
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #states: LoginStates;
  readonly #directory: DirectoryStore;
  readonly #logoutTokens: LogoutTokens;
  readonly #limits: LoginLimits;
  readonly #users: ProviderUsers;
  readonly #events: OidcEvents;
  readonly #idTokens: IdTokens;
  readonly #forwarded: readonly string[];

  /**
   * @param base URL of the web page as browsers see it, with a trailing slash
   * @param forwarded names of the claims that upstreams receive
   * @param ownerLoginWithin milliseconds since the last login for which tokens are accepted; null:
   *   no limit
   */
  constructor(
    settings: readonly ProviderSettings[],
    base: string,
    forwarded: readonly string[],
    states: LoginStates,
    directory: DirectoryStore,
    logoutTokens: LogoutTokens,
    limits: LoginLimits,
    idTokens: IdTokens,
    ownerLoginWithin: number | null,
    events: OidcEvents,
  ) {
    const providers = settings.map((each) => {
      const callback = `${base}oidc/${each.name}/callback`;
      return [each.name, new Provider(each, callback, forwarded, events.discovered)] as const;
    });
    this.#providers = new Map(providers);
    this.#states = states;
    this.#directory = directory;
    this.#logoutTokens = logoutTokens;
    this.#limits = limits;
    this.#idTokens = idTokens;
    this.#forwarded = forwarded;
    this.#users = new ProviderUsers(directory, Math.min(HOUR_MS, (ownerLoginWithin ?? Infinity) / 24));
    this.#events = events;
  }

  /** Name and title of each provider, in the order of the configuration. */
  get list(): { readonly name: string; readonly title: string }[] {
    return [...this.#providers.values()].map(({ settings: { name, title } }) => ({ name, title }));
  }

  /**
   * Returns the name and title of an issuer's provider; undefined if it is not configured any more.
   *
   * Its name in the configuration may have changed since a user logged in.
   */
  ofIssuer(issuer: string): { readonly name: string; readonly title: string } | undefined {
    const found = [...this.#providers.values()].find(({ settings }) => settings.issuer === issuer);
    return found === undefined ? undefined : { name: found.settings.name, title: found.settings.title };
  }

  has(name: string): boolean {
    return this.#providers.has(name);
  }

  /**
   * Begins a login.
   *
   * @param returnTo a path of this origin; null: to the web page
   * @param fresh whether the provider must ask for the login again
   * @param address IP address of the client
   */
  async begin(
    name: string,
    returnTo: string | null,
    fresh: boolean,
    address: string,
    now: EpochMs,
  ): Promise<BegunLogin | LoginFailure | { readonly wait: number }> {
    const wait = await this.#limits.request(address, now);
    if (wait > 0) return { wait };
    const state = this.#states.begin(returnTo, fresh, now);
    try {
      const url = await this.#limits.run(name, async () => this.#named(name).loginUrl(state, fresh));
      return { url, state: state.state, cookie: this.#states.seal(state, name) };
    } catch (error) {
      return this.#failureOf(name, error);
    }
  }

  /**
   * Completes a login with the callback of a browser.
   *
   * @param cookie the value that the browser has kept since the login began
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
      // Not counted as a failure if another browser began the login: any page can send a browser
      // here with such a query.
      if (state === undefined || new URLSearchParams(query).get('state') !== state.state)
        throw noPendingLogin();
      const wait = await this.#limits.attempt(address, now);
      if (wait > 0) return ended({ wait });
      const provider = this.#named(name);
      const { claims, idToken } = await this.#redeem(provider, query, state, now).catch(
        async (error: unknown) => {
          if (!looksForged(error)) await this.#limits.release(address, now);
          throw error;
        },
      );
      await this.#limits.release(address, now);
      const admission = await this.#users.admit(claims, provider.settings, now);
      const { auditEvents, user } = admission;
      if ('failure' in admission) {
        this.#failureOf(name, new LoginFailed(admission.failure, admission.reason));
        return ended({ failure: admission.failure, user }, auditEvents);
      }
      const login = {
        ...loginOf(provider.settings, admission.user, claims, state.begunAt),
        idToken: this.#idTokens.seal(idToken, provider.settings),
        claims: forwardedClaims(claims, this.#forwarded),
      };
      return ended({ user: admission.user, login, fresh: state.fresh }, auditEvents);
    } catch (error) {
      return ended({ failure: this.#failureOf(name, error), user: null });
    }
  }

  async #redeem(provider: Provider, query: string, state: LoginState, now: EpochMs) {
    const expected = { ...state, freshSince: state.fresh ? state.begunAt : null };
    return this.#limits.run(provider.settings.name, async () => {
      // Only now, so that a login that was refused as one too many can be completed later.
      if (!(await this.#states.take(state, now))) throw noPendingLogin();
      return provider.claimsOf(query, expected, now);
    });
  }

  /** Reports an admitted login by whether it started a session. */
  report(name: string, outcome: 'succeeded' | LoginFailure): void {
    if (outcome === 'succeeded') this.#events.loggedIn(name, outcome);
    else
      this.#failureOf(
        name,
        new LoginFailed(outcome, 'the user changed, or was logged out, during the login'),
      );
  }

  /**
   * Returns the URL for a logout at the provider; undefined if there is none, or it does not respond.
   *
   * @param login of the session to end there; null if it is unknown
   */
  async logoutUrl(name: string, backTo: string, login: ProviderLogin | null): Promise<string | undefined> {
    const provider = this.#named(name);
    const idToken = this.#idTokens.open(login?.idToken, provider.settings);
    try {
      return await this.#limits.run(name, async () => provider.logoutUrl(backTo, idToken));
    } catch (error) {
      if (error instanceof LoginFailed || error instanceof Unavailable) return undefined;
      throw error;
    }
  }

  /**
   * Returns the sessions that a logout token ends, or why it is refused.
   *
   * @throws Unavailable
   */
  async loggedOut(name: string, token: string, now: EpochMs): Promise<ProviderLogout | LogoutRefusal> {
    const refused = (refusal: LogoutRefusal, reason: string) => {
      this.#events.loggedOut(name, reason);
      return refusal;
    };
    const provider = this.#named(name);
    const { settings } = provider;
    const named = await provider.loggedOut(token, now);
    if (typeof named === 'string') return refused('invalid_token', named);
    const { subject, sid, jti, issuedAt } = named;
    const { issuer } = settings;
    if (await this.#logoutTokens.tookEffect(issuer, jti, now))
      return refused('repeated_token', 'it took effect before');
    this.#events.loggedOut(name, undefined);
    const userId = subject === undefined ? undefined : idOfPerson(issuer, subject);
    return {
      userIds: userId === undefined ? await this.#usersOf(settings) : [userId],
      sids: sid === undefined ? undefined : userId === undefined ? [sid] : [sid, null],
      noted: logoutRecords(issuer, { userId, sid }, issuedAt, now),
      until: now + LOGOUT_NOTED_MS,
      done: async () => this.#logoutTokens.note(issuer, jti, now),
    };
  }

  /**
   * Returns the ids of a provider's users, from all customers.
   *
   * The configured customer may have changed; users move to it at their next login.
   */
  async #usersOf({ issuer }: ProviderSettings): Promise<string[]> {
    const users = await allUsers(this.#directory);
    return users.filter(({ provider }) => provider?.issuer === issuer).map(({ id }) => id);
  }

  #named(name: string): Provider {
    const provider = this.#providers.get(name);
    if (provider === undefined) throw new Error(`no provider is named ${name}`);
    return provider;
  }

  /**
   * Reports and returns the failure of a login.
   *
   * @throws any error that is not a LoginFailed
   */
  #failureOf(name: string, error: unknown): LoginFailure {
    if (!(error instanceof LoginFailed)) throw error;
    this.#events.loggedIn(name, error.failure, error);
    return error.failure;
  }
}

function noPendingLogin(): LoginFailed {
  return new LoginFailed('not_begun', 'no such login is in progress in this browser');
}

function loginOf(settings: ProviderSettings, { id }: User, claims: Claims, begunAt: EpochMs) {
  const { name, issuer } = settings;
  const sid = sidOf(claims);
  const issuedAt = typeof claims['iat'] === 'number' ? claims['iat'] * 1000 : 0;
  return { name, sid, pending: { logouts: logoutsOfLogin(issuer, id, sid), issuedAt, begunAt } };
}
