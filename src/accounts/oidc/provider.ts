import type { Configuration } from 'openid-client';
import type { EpochMs } from '../../domain/time.js';
import { createKeySource } from '../jwt/key-source.js';
import type { Claims } from './claims.js';
import type { Proofs } from './client.js';
import { CLOCK_SKEW_SECONDS, LoginFailed, type ProviderSettings } from './settings.js';
import type { LoggedOut, SignedTokens } from './signed.js';

/** Told how the configuration of a provider was fetched. @param error undefined when it was */
export type Discovered = (provider: string, error: unknown) => void;

/** A login as it is checked. */
interface Expected extends Proofs {
  /** When it began, where the provider has to have asked since then. */
  readonly freshSince: EpochMs | null;
}

// Most servers have no provider and need not wait for it.
const client = async () => import('./client.js');

/** An OpenID Connect provider, as this client of it sees it. */
export class Provider {
  readonly settings: ProviderSettings;
  readonly #redirectUri: string;
  readonly #discovered: Renewed<Configuration>;
  #signed: Promise<SignedTokens> | undefined;

  /** @param redirectUri the address of the callback, as browsers see it */
  constructor(settings: ProviderSettings, redirectUri: string, discovered: Discovered) {
    this.settings = settings;
    this.#redirectUri = redirectUri;
    this.#discovered = new Renewed(async () => {
      const { discoverProvider } = await client();
      const found = await discoverProvider(settings).catch((error: unknown) => {
        discovered(settings.name, error);
        throw error;
      });
      discovered(settings.name, undefined);
      return found;
    });
  }

  /** Where a browser is sent to log in. @throws LoginFailed */
  async loginUrl(proofs: Proofs, fresh: boolean): Promise<string> {
    const { loginUrl } = await client();
    return loginUrl(await this.#client(), this.settings, this.#redirectUri, proofs, fresh);
  }

  /** Where a browser is sent to log out there; undefined when it has no such place. @throws LoginFailed */
  async logoutUrl(backTo: string): Promise<string | undefined> {
    const { logoutUrl } = await client();
    return logoutUrl(await this.#client(), backTo);
  }

  /** What the provider says of the person who came back. @param query as the browser brought it @throws LoginFailed */
  async claimsOf(query: string, expected: Expected, now: EpochMs): Promise<Claims> {
    const { redeem } = await client();
    const callback = new URL(this.#redirectUri);
    callback.search = query;
    const { idToken, accessToken, moreClaims } = await redeem(
      await this.#client(),
      this.settings,
      callback,
      expected,
    );
    const claims = await (await this.#signedTokens()).claimsOf(idToken, accessToken, now);
    if (expected.freshSince !== null && !isFresh(claims, expected.freshSince, now))
      throw new LoginFailed('not_fresh', 'the claim auth_time shows no login since this one began');
    return moreClaims(claims);
  }

  /** The person that a logout token names; undefined for an invalid one. @throws Unavailable, LoginFailed */
  async loggedOut(token: string, now: EpochMs): Promise<LoggedOut | undefined> {
    return (await this.#signedTokens()).loggedOut(token, now);
  }

  async #client(): Promise<Configuration> {
    try {
      return await this.#discovered.get();
    } catch (cause) {
      throw new LoginFailed('provider_unavailable', 'the provider cannot be asked', { cause });
    }
  }

  async #signedTokens(): Promise<SignedTokens> {
    this.#signed ??= import('./signed.js').then(
      ({ SignedTokens }) =>
        new SignedTokens(this.settings, async () => {
          const { jwks_uri: url = '' } = (await this.#client()).serverMetadata();
          return createKeySource(this.settings.issuer, { url })();
        }),
    );
    return this.#signed;
  }
}

/** Whether the provider asked for the login since a moment. It tells whole seconds of its own clock. */
function isFresh({ auth_time: at }: Claims, since: EpochMs, now: EpochMs): boolean {
  if (typeof at !== 'number') return false;
  return at >= Math.floor(since / 1000) - CLOCK_SKEW_SECONDS && at <= now / 1000 + CLOCK_SKEW_SECONDS;
}

/** From this age on a value is made anew while the one known goes on serving. */
const REFRESH_MS = 10 * 60_000;
/** Least time between two tries. */
const COOLDOWN_MS = 1_000;

/** A value that is made when it is needed first, renewed in the background, and kept while that fails. */
export class Renewed<T> {
  readonly #make: () => Promise<T>;
  readonly #clock: () => number;
  #value: { readonly value: T } | undefined;
  #error: unknown;
  #madeAt = -Infinity;
  #triedAt = -Infinity;
  #making: Promise<void> | undefined;

  /** @param clock milliseconds that only grow */
  constructor(make: () => Promise<T>, clock: () => number = () => performance.now()) {
    this.#make = make;
    this.#clock = clock;
  }

  /** @throws what making it threw, while there is none */
  async get(): Promise<T> {
    const now = this.#clock();
    const isDue = now - this.#madeAt >= REFRESH_MS && now - this.#triedAt >= COOLDOWN_MS;
    if (isDue || this.#making !== undefined) {
      this.#making ??= this.#tryOnce().finally(() => (this.#making = undefined));
      if (this.#value === undefined) await this.#making;
    }
    if (this.#value === undefined) throw this.#error;
    return this.#value.value;
  }

  async #tryOnce(): Promise<void> {
    this.#triedAt = this.#clock();
    try {
      this.#value = { value: await this.#make() };
      this.#madeAt = this.#clock();
    } catch (error) {
      this.#error = error;
    }
  }
}
