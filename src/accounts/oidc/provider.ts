import type { Configuration } from 'openid-client';
import type { EpochMs } from '../../util/time.js';
import { RefreshedValue } from '../../net/refreshed-value.js';
import { createKeySource } from '../jwt/key-source.js';
import type { Claims } from './claims.js';
import { discoverProvider, loginUrl, logoutUrl, type Proofs, redeem } from './client.js';
import { CLOCK_SKEW_SECONDS, LoginFailed, type ProviderSettings } from './settings.js';
import { type LoggedOut, SignedTokens } from './signed.js';

/** @param error undefined if it succeeded */
export type OnDiscovery = (provider: string, error: unknown) => void;

const DISCOVERY = { after: 10 * 60_000, retry: 1_000 };

/** Loaded on demand, with its libraries: most servers have no provider. */
export class Provider {
  readonly settings: ProviderSettings;
  readonly #redirectUri: string;
  readonly #forwarded: readonly string[];
  readonly #discovered: RefreshedValue<Configuration>;
  readonly #signed: SignedTokens;

  /** @param redirectUri as browsers see it */
  constructor(
    settings: ProviderSettings,
    redirectUri: string,
    forwarded: readonly string[],
    onDiscovery: OnDiscovery,
  ) {
    this.settings = settings;
    this.#forwarded = forwarded;
    this.#redirectUri = redirectUri;
    this.#discovered = new RefreshedValue(
      async () => discoverProvider(settings),
      DISCOVERY,
      (error) => onDiscovery(settings.name, error),
    );
    this.#signed = new SignedTokens(settings, async () => {
      const { jwks_uri: url = '' } = (await this.#client()).serverMetadata();
      return createKeySource(settings, { url })();
    });
  }

  /** @throws LoginFailed */
  async loginUrl(proofs: Proofs, fresh: boolean): Promise<string> {
    return loginUrl(await this.#client(), this.settings, this.#redirectUri, proofs, fresh);
  }

  /** @throws LoginFailed */
  async logoutUrl(backTo: string, idToken: string | undefined): Promise<string | undefined> {
    if (!this.settings.provider_logout) return undefined;
    return logoutUrl(await this.#client(), backTo, idToken);
  }

  /**
   * @param expected `freshSince`: since when the provider must have asked for the login; null: whenever it did
   * @throws LoginFailed
   */
  async claimsOf(
    query: string,
    expected: Proofs & { readonly freshSince: EpochMs | null },
    now: EpochMs,
  ): Promise<{ readonly claims: Claims; readonly idToken: string }> {
    const callback = new URL(this.#redirectUri);
    callback.search = query;
    const { idToken, accessToken, moreClaims } = await redeem(
      await this.#client(),
      this.settings,
      callback,
      expected,
      this.#forwarded,
    );
    const claims = await this.#signed.claimsOf(idToken, accessToken, now);
    if (expected.freshSince !== null && !isFresh(claims, expected.freshSince, now))
      throw new LoginFailed('not_fresh', 'the claim auth_time shows no login since this one began');
    return { claims: await moreClaims(claims), idToken };
  }

  /** Returns why, if the token is not valid. @throws Unavailable, LoginFailed */
  async loggedOut(token: string, now: EpochMs): Promise<LoggedOut | string> {
    return this.#signed.loggedOut(token, now);
  }

  async #client(): Promise<Configuration> {
    try {
      return await this.#discovered.get();
    } catch (cause) {
      throw new LoginFailed('provider_unavailable', 'the provider cannot be reached', { cause });
    }
  }
}

/** `auth_time` is in whole seconds of the provider's clock. */
function isFresh({ auth_time: at }: Claims, since: EpochMs, now: EpochMs): boolean {
  if (typeof at !== 'number') return false;
  return at >= Math.floor(since / 1000) - CLOCK_SKEW_SECONDS && at <= now / 1000 + CLOCK_SKEW_SECONDS;
}
