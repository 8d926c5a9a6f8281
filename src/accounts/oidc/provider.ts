import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  calculatePKCECodeChallenge,
  type Configuration,
  fetchUserInfo,
} from 'openid-client';
import { isKeySetUrl } from '../../config/schema/units.js';
import type { EpochMs } from '../../util/time.js';
import { quoted } from '../../util/text.js';
import { RefreshedValue } from '../../net/refreshed-value.js';
import { createKeySource } from '../jwt/key-source.js';
import { type Claims, isComplete, mergeUserInfo } from './claims.js';
import { discoverProvider, failed } from './client.js';
import type { LoginState } from './login-states.js';
import { CLOCK_SKEW_SECONDS, LoginFailed, type ProviderSettings } from './settings.js';
import { SignedTokens } from './signed.js';

/** @param error undefined if it succeeded */
export type OnDiscovery = (provider: string, error: unknown) => void;

/** Which a callback must match. */
type Proofs = Pick<LoginState, 'state' | 'nonce' | 'verifier'>;

const DISCOVERY = { after: 10 * 60_000, retry: 1_000 };

/** The issuers of Amazon Cognito, which refuses a logout without its own parameter. */
const COGNITO = /^https:\/\/cognito-idp\.[a-z\d-]+\.amazonaws\.com(?:\.cn)?\//;

/** Loaded on demand, with its libraries: most servers have no provider. */
export class Provider {
  readonly settings: ProviderSettings;
  readonly signed: SignedTokens;
  readonly #redirectUri: string;
  readonly #forwarded: readonly string[];
  readonly #discovered: RefreshedValue<Configuration>;

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
    this.signed = new SignedTokens(settings, async () => {
      const { jwks_uri: url = '' } = (await this.#client()).serverMetadata();
      return createKeySource(settings, { url })();
    });
  }

  /** @throws LoginFailed */
  async loginUrl({ state, nonce, verifier }: Proofs, fresh: boolean): Promise<string> {
    const { scopes, authorization } = this.settings;
    const url = buildAuthorizationUrl(await this.#client(), {
      ...authorization,
      redirect_uri: this.#redirectUri,
      scope: scopes.join(' '),
      state,
      nonce,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      // Sent together, because some providers support only one of them.
      ...(fresh ? { max_age: '0', prompt: 'login' } : {}),
    });
    return url.href;
  }

  /**
   * @param idToken tells the provider which session to end, so that it need not ask
   * @throws LoginFailed
   */
  async logoutUrl(backTo: string, idToken: string | undefined): Promise<string | undefined> {
    if (!this.settings.provider_logout) return undefined;
    const client = await this.#client();
    const { end_session_endpoint: endpoint, issuer } = client.serverMetadata();
    if (endpoint === undefined || !URL.canParse(endpoint) || !isKeySetUrl(new URL(endpoint)))
      return undefined;
    if (COGNITO.test(issuer)) return buildEndSessionUrl(client, { logout_uri: backTo }).href;
    const hint = idToken === undefined ? {} : { id_token_hint: idToken };
    return buildEndSessionUrl(client, { post_logout_redirect_uri: backTo, ...hint }).href;
  }

  /**
   * @param expected `freshSince`: since when the provider must have asked for the login; null: whenever it did
   * @throws LoginFailed
   */
  async claimsOf(
    query: string,
    { state, nonce, verifier, freshSince }: Proofs & { readonly freshSince: EpochMs | null },
    now: EpochMs,
  ): Promise<{ readonly claims: Claims; readonly idToken: string }> {
    const client = await this.#client();
    const callback = new URL(this.#redirectUri);
    callback.search = query;
    const issuer = callback.searchParams.get('iss') ?? '';
    if (issuer !== '' && issuer !== this.settings.issuer)
      throw new LoginFailed(
        'invalid_answer',
        `the callback names the issuer ${quoted(issuer)}, not ${this.settings.issuer}`,
      );
    const { id_token: idToken, access_token: accessToken } = await authorizationCodeGrant(client, callback, {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      idTokenExpected: true,
    }).catch(failed);
    if (idToken === undefined) throw new LoginFailed('invalid_answer', 'the response has no ID token');
    const claims = await this.signed.claimsOf(idToken, accessToken, now);
    if (freshSince !== null && !isFresh(claims, freshSince, now))
      throw new LoginFailed('not_fresh', 'the claim auth_time shows no login since this one began');
    const hasUserInfo = client.serverMetadata().userinfo_endpoint !== undefined;
    if (!hasUserInfo || isComplete(claims, this.settings, this.#forwarded)) return { claims, idToken };
    const userInfo = await fetchUserInfo(client, accessToken, String(claims['sub'])).catch(failed);
    return { claims: mergeUserInfo(claims, userInfo), idToken };
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
