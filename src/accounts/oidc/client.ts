import {
  allowInsecureRequests,
  authorizationCodeGrant,
  AuthorizationResponseError,
  buildAuthorizationUrl,
  buildEndSessionUrl,
  calculatePKCECodeChallenge,
  ClientSecretBasic,
  ClientSecretPost,
  clockTolerance,
  type Configuration,
  customFetch,
  type CustomFetchOptions,
  discovery,
  fetchUserInfo,
  None,
  type ServerMetadata,
} from 'openid-client';
import { isKeySetUrl } from '../../config/schema/urls.js';
import { type Claims, isComplete, withMore } from './claims.js';
import { CLOCK_SKEW_SECONDS, LoginFailed, type ProviderSettings } from './settings.js';
import { parseForeignJson } from '../../domain/json.js';

/** Values that were made for a login and have to come back with its answer. */
export interface Proofs {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** What a provider answered to a code. Nothing of it has a checked signature yet. */
interface Granted {
  readonly idToken: string;
  readonly accessToken: string;
  /** Asks the provider for the claims that a person has besides those in the ID token. */
  readonly moreClaims: (claims: Claims) => Promise<Claims>;
}

/** Fetches the configuration of a provider. @throws Error that says why not */
export async function discoverProvider(settings: ProviderSettings): Promise<Configuration> {
  const { issuer, client_id: id } = settings;
  // The fetch lets http:// through to loopback addresses only.
  const found = await discovery(new URL(issuer), id, { [clockTolerance]: CLOCK_SKEW_SECONDS }, None(), {
    [customFetch]: fetchFromProvider,
    execute: [allowInsecureRequests],
  });
  const metadata = found.serverMetadata();
  if (metadata.issuer !== issuer) throw new Error('its configuration names another issuer');
  for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const) {
    const url = metadata[name];
    if (url === undefined || !URL.canParse(url) || !isKeySetUrl(new URL(url)))
      throw new Error(`its configuration has no ${name} with https://`);
  }
  return withAuthentication(found, metadata, settings);
}

async function withAuthentication(
  found: Configuration,
  metadata: ServerMetadata,
  { client_id: id, client_secret: secret }: ProviderSettings,
): Promise<Configuration> {
  if (secret === null) return found;
  const { Configuration } = await import('openid-client');
  // Without a list it is client_secret_basic (OpenID Connect Discovery 3).
  const methods = metadata.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  const authentication = methods.includes('client_secret_basic') ? ClientSecretBasic : ClientSecretPost;
  const client = new Configuration(metadata, id, { client_secret: secret, [clockTolerance]: CLOCK_SKEW_SECONDS }, authentication(secret));
  client[customFetch] = fetchFromProvider;
  allowInsecureRequests(client);
  return client;
} // prettier-ignore

/** Where a browser is sent to log in. @param fresh the provider must ask for the login anew */
export async function loginUrl(
  client: Configuration,
  { scopes }: ProviderSettings,
  redirectUri: string,
  { state, nonce, verifier }: Proofs,
  fresh: boolean,
): Promise<string> {
  const url = buildAuthorizationUrl(client, {
    redirect_uri: redirectUri,
    scope: scopes.join(' '),
    state,
    nonce,
    code_challenge: await calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    // Not every provider knows both.
    ...(fresh ? { max_age: '0', prompt: 'login' } : {}),
  });
  return url.href;
}

/** Where a browser is sent to log out at the provider; undefined when it has no such place. */
export function logoutUrl(client: Configuration, backTo: string): string | undefined {
  const { end_session_endpoint: endpoint } = client.serverMetadata();
  if (endpoint === undefined || !URL.canParse(endpoint) || !isKeySetUrl(new URL(endpoint))) return undefined;
  return buildEndSessionUrl(client, { post_logout_redirect_uri: backTo }).href;
}

/**
 * Checks what a browser brought back, and exchanges its code.
 *
 * @param callback the address that it came back to, with its query
 * @throws LoginFailed
 */
export async function redeem(
  client: Configuration,
  settings: ProviderSettings,
  callback: URL,
  { state, nonce, verifier }: Proofs,
): Promise<Granted> {
  const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true };
  const tokens = await authorizationCodeGrant(client, callback, checks).catch(failed);
  const { id_token: idToken, access_token: accessToken } = tokens;
  if (idToken === undefined) throw new LoginFailed('invalid_answer', 'there is no ID token');
  return {
    idToken,
    accessToken,
    moreClaims: async (claims) => {
      const asks = client.serverMetadata().userinfo_endpoint !== undefined && !isComplete(claims, settings);
      if (!asks) return claims;
      return withMore(claims, await fetchUserInfo(client, accessToken, String(claims['sub'])).catch(failed));
    },
  };
} // prettier-ignore

function failed(cause: unknown): never {
  if (cause instanceof AuthorizationResponseError)
    throw new LoginFailed('provider_refused', `the provider answered ${cause.error}`, { cause });
  const reasons = reasonsOf(cause);
  const isAway = reasons.some((each) => each instanceof ProviderUnreachable);
  throw new LoginFailed(
    isAway ? 'provider_unavailable' : 'invalid_answer',
    reasons.map(({ message }) => message).join(': '),
    { cause },
  );
}

/** An error and those that led to it. */
function reasonsOf(error: unknown): Error[] {
  return error instanceof Error ? [error, ...reasonsOf(error.cause)] : [];
}

/** Longest answer of a provider that is read, in bytes. */
const MAX_ANSWER = 256 * 1024;
/** Milliseconds for one request, from the connection to the last byte. */
const TIMEOUT_MS = 5_000;

/** A provider did not answer, or its answer cannot be used. */
export class ProviderUnreachable extends Error {}

/**
 * Asks a provider. It follows no redirect, and reads so much and no longer.
 *
 * @throws ProviderUnreachable; RangeError, SyntaxError for an answer that must not be read
 */
export async function fetchFromProvider(url: string, asked: CustomFetchOptions): Promise<Response> {
  const { origin, pathname } = new URL(url);
  if (!isKeySetUrl(new URL(url)))
    throw new ProviderUnreachable(`${origin}${pathname} is not at an https:// URL`);
  const { status, type, text } = await ask(url, asked).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ProviderUnreachable(`${origin}${pathname}: ${reason}`, { cause });
  });
  if (status >= 500 || status === 429)
    throw new ProviderUnreachable(`${origin}${pathname} answered ${status}`);
  if (/json/i.test(type)) parseForeignJson(text);
  return new Response(hasContent(status) ? text : null, { status, headers: { 'Content-Type': type } });
}

async function ask(url: string, { method, headers, body }: CustomFetchOptions) {
  const { Agent, request } = await import('undici');
  const dispatcher = new Agent({ maxResponseSize: MAX_ANSWER, connect: { timeout: TIMEOUT_MS } });
  try {
    const answer = await request(url, {
      dispatcher,
      method: method as 'GET' | 'POST',
      headers,
      ...(body instanceof URLSearchParams ? { body: body.toString() } : {}),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const type = [answer.headers['content-type']].flat()[0] ?? '';
    return { status: answer.statusCode, type, text: await answer.body.text() };
  } finally {
    // The rest of the answer is not needed.
    void dispatcher.destroy();
  }
}

/** A `Response` takes no body for the others. */
function hasContent(status: number): boolean {
  return status !== 204 && status !== 205 && status !== 304;
}
