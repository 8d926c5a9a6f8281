// src/accounts/oidc: logins at OpenID Connect providers.
// May import what accounts may.
// `provider.ts` speaks the protocol; loaded only where it is configured.

import type { AuditEvent } from '../../domain/audit.js';
import {
  logoutRecords,
  logoutsOfLogin,
  type ProviderLogin,
  type RecordedLogout,
} from '../../domain/session.js';
import { forwardedClaims } from '../../domain/identity-fields.js';
import { Unavailable } from '../../domain/refusal.js';
import { type EpochMs, HOUR_MS } from '../../util/time.js';
import type { User } from '../../domain/user.js';
import { allUsers, type DirectoryStore } from '../../store/core/directory.js';
import { sidOf } from './claims.js';
import {
  LOGIN_TIME_MS,
  LoginLimits,
  type LoginState,
  newLoginState,
  openedBy,
  openLoginState,
} from './login-states.js';
import type { OnDiscovery, Provider } from './provider.js';
import { idOfPerson, ProviderUsers } from './provider-users.js';
import {
  looksForged,
  LoginFailed,
  type LoginFailure,
  MAX_TOKEN_AGE,
  type ProviderSettings,
} from './settings.js';
import type { Config } from '../../config/schema/config.js';
import { digestOf } from '../../domain/secret.js';
import type { Store } from '../../store/core/store.js';
import type { Sealer } from '../sealing.js';
import type { StartingLogin } from '../sessions.js';

export interface OidcEvents {
  readonly discovered: OnDiscovery;
  /** @param error the cause of a failure, for the log; undefined if the login succeeded */
  readonly loggedIn: (provider: string, outcome: 'succeeded' | LoginFailure, error?: LoginFailed) => void;
  /** @param refused why the logout token is not accepted; undefined if it is */
  readonly loggedOut: (provider: string, refused: string | undefined) => void;
}

export interface EndedLogin {
  /** Where the browser goes; null: to the web page. */
  readonly returnTo: string | null;
  readonly auditEvents: readonly AuditEvent[];
  readonly result:
    | { readonly failure: LoginFailure; readonly user: User | null }
    /** The attempt was throttled and not checked: seconds to wait. */
    | { readonly wait: number }
    | (StartingLogin & { readonly user: User; readonly fresh: boolean });
}

type LogoutRefusal = 'invalid_token' | 'repeated_token';

/** The users and sessions that a provider logged out. */
export interface ProviderLogout {
  readonly userIds: readonly string[];
  /** Ids of the provider's own sessions, null for a login without one; undefined: all of the users. */
  readonly sids: readonly (string | null)[] | undefined;
  /** The record of the logout for logins in progress, and when it expires. */
  readonly noted: readonly RecordedLogout[];
  readonly until: EpochMs;
  /** Marks the logout token as used; it is not valid afterwards. */
  readonly done: () => Promise<void>;
}

/** Longer ones are not kept for the logout at the provider. */
const MAX_ID_TOKEN = 4 * 1024;

/** By then, every login that began before the logout has ended. */
const LOGOUT_NOTED_MS = 1.5 * LOGIN_TIME_MS;

/**
 * Longer than a logout token is valid. Each takes effect once in the fleet (OpenID Connect Back-Channel
 * Logout 2.6 and 8): it is noted after its sessions ended, so that a provider that received no response may
 * send it again.
 */
const LOGOUT_TOKEN_KEPT_MS = 2 * MAX_TOKEN_AGE * 1000;

/** The authorization code flow with PKCE, state and nonce (RFC 9700 2.1). */
export class ProviderLogins {
  readonly #settings: ReadonlyMap<string, ProviderSettings>;
  readonly #opened = new Map<string, Promise<Provider>>();
  readonly #base: string;
  readonly #directory: DirectoryStore;
  readonly #states: Sealer;
  readonly #limits: LoginLimits;
  readonly #users: ProviderUsers;
  readonly #events: OidcEvents;
  /** Seals the ID tokens that sessions keep: others may accept one as a credential. */
  readonly #idTokens: Sealer;
  /** Names of the claims that upstreams receive. */
  readonly #forwarded: readonly string[];

  /** @param base URL of the web page as browsers see it, with a trailing slash */
  constructor(
    { login, identity, tokens }: Pick<Config, 'login' | 'identity' | 'tokens'>,
    base: string,
    store: Pick<Store, 'directory' | 'loginThrottle'>,
    sealer: Sealer,
    events: OidcEvents,
  ) {
    this.#settings = new Map(login.oidc.map((each) => [each.name, each]));
    this.#base = base;
    this.#directory = store.directory;
    this.#states = sealer.derive('latchkey oidc login state');
    this.#limits = new LoginLimits(store.loginThrottle, login);
    this.#idTokens = sealer.derive('latchkey oidc id token');
    this.#forwarded = Object.values(identity.claims);
    const precision = Math.min(HOUR_MS, (tokens.owner_login_within ?? Infinity) / 24);
    this.#users = new ProviderUsers(store.directory, precision);
    this.#events = events;
  }

  /** Name and title of each provider, in the order of the configuration. */
  get list(): { readonly name: string; readonly title: string }[] {
    return [...this.#settings.values()].map(({ name, title }) => ({ name, title }));
  }

  /** The name in the configuration may have changed since a user logged in. */
  ofIssuer(issuer: string): { readonly name: string; readonly title: string } | undefined {
    const found = [...this.#settings.values()].find((each) => each.issuer === issuer);
    return found && { name: found.name, title: found.title };
  }

  has(name: string): boolean {
    return this.#settings.has(name);
  }

  /**
   * Begins a login; returns the URL to visit, and the cookie to keep meanwhile.
   * @param returnTo a path of this origin; null: to the web page
   * @param fresh whether the provider must ask for the login again
   */
  async begin(name: string, returnTo: string | null, fresh: boolean, address: string, now: EpochMs) {
    const wait = await this.#limits.request(address, now);
    if (wait > 0) return { wait };
    const state = newLoginState(returnTo, fresh, now);
    try {
      const url = await this.#limits.run(name, async () => (await this.#open(name)).loginUrl(state, fresh));
      return { url, state: state.state, cookie: this.#states.seal(JSON.stringify(state), name) };
    } catch (error) {
      return this.#failureOf(name, error);
    }
  }

  /**
   * Completes a login with the callback of a browser.
   * @param cookie the value that the browser has kept since the login began
   */
  async end(
    name: string,
    query: string,
    cookie: string | undefined,
    address: string,
    now: EpochMs,
  ): Promise<EndedLogin> {
    const state = cookie === undefined ? undefined : openLoginState(this.#states, cookie, name, now);
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
      const provider = await this.#open(name);
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
      const { issuer, provider_logout: needsToken } = provider.settings;
      const isKept = needsToken && idToken.length <= MAX_ID_TOKEN;
      const sid = sidOf(claims);
      const login = {
        name,
        sid,
        ...(isKept ? { idToken: this.#idTokens.seal(idToken, issuer) } : {}),
        claims: forwardedClaims(claims, this.#forwarded),
      };
      const issuedAt = typeof claims['iat'] === 'number' ? claims['iat'] * 1000 : 0;
      const logouts = logoutsOfLogin(issuer, admission.user.id, sid);
      const pending = { logouts, issuedAt, begunAt: state.begunAt };
      return ended({ user: admission.user, login, pending, fresh: state.fresh }, auditEvents);
    } catch (error) {
      return ended({ failure: this.#failureOf(name, error), user: null });
    }
  }

  async #redeem(provider: Provider, query: string, state: LoginState, now: EpochMs) {
    const expected = { ...state, freshSince: state.fresh ? state.begunAt : null };
    return this.#limits.run(provider.settings.name, async () => {
      // Only now, so that a login that was refused as one too many can be completed later.
      if (!(await this.#limits.take(`oidc:${digestOf(state.state)}`, 2 * LOGIN_TIME_MS, now)))
        throw noPendingLogin();
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
   * @param login of the session to end there; null if it is unknown
   */
  async logoutUrl(name: string, backTo: string, login: ProviderLogin | null): Promise<string | undefined> {
    const provider = await this.#open(name);
    const sealed = login?.idToken;
    const idToken = sealed && openedBy(this.#idTokens, sealed, provider.settings.issuer);
    try {
      return await this.#limits.run(name, async () => provider.logoutUrl(backTo, idToken));
    } catch (error) {
      if (error instanceof LoginFailed || error instanceof Unavailable) return undefined;
      throw error;
    }
  }

  /** Returns the sessions that a logout token ends, or why it is refused. @throws Unavailable */
  async loggedOut(name: string, token: string, now: EpochMs): Promise<ProviderLogout | LogoutRefusal> {
    const refused = (refusal: LogoutRefusal, reason: string) => {
      this.#events.loggedOut(name, reason);
      return refusal;
    };
    const provider = await this.#open(name);
    const { settings } = provider;
    const named = await provider.signed.loggedOut(token, now);
    if (typeof named === 'string') return refused('invalid_token', named);
    const { subject, sid, jti, issuedAt } = named;
    const { issuer } = settings;
    const key = `oidc logout:${digestOf(JSON.stringify([issuer, jti]))}`;
    if (await this.#limits.wasTaken(key, LOGOUT_TOKEN_KEPT_MS, now))
      return refused('repeated_token', 'it took effect before');
    this.#events.loggedOut(name, undefined);
    const userId = subject === undefined ? undefined : idOfPerson(issuer, subject);
    return {
      userIds: userId === undefined ? await this.#usersOf(settings) : [userId],
      sids: sid === undefined ? undefined : userId === undefined ? [sid] : [sid, null],
      noted: logoutRecords(issuer, { userId, sid }, issuedAt, now),
      until: now + LOGOUT_NOTED_MS,
      done: async () => void (await this.#limits.take(key, LOGOUT_TOKEN_KEPT_MS, now)),
    };
  }

  /** From all customers: the configured one may have changed, and users move to it at their next login. */
  async #usersOf({ issuer }: ProviderSettings): Promise<string[]> {
    const users = await allUsers(this.#directory);
    return users.filter(({ provider }) => provider?.issuer === issuer).map(({ id }) => id);
  }

  async #open(name: string): Promise<Provider> {
    const settings = this.#settings.get(name);
    if (settings === undefined) throw new Error(`no provider is named ${name}`);
    const callback = `${this.#base}oidc/${name}/callback`;
    const opened =
      this.#opened.get(name) ??
      import('./provider.js').then(
        ({ Provider }) => new Provider(settings, callback, this.#forwarded, this.#events.discovered),
      );
    this.#opened.set(name, opened);
    return opened;
  }

  /** @throws any error that is not a LoginFailed */
  #failureOf(name: string, error: unknown): LoginFailure {
    if (!(error instanceof LoginFailed)) throw error;
    this.#events.loggedIn(name, error.failure, error);
    return error.failure;
  }
}

function noPendingLogin(): LoginFailed {
  return new LoginFailed('not_begun', 'no such login is in progress in this browser');
}
