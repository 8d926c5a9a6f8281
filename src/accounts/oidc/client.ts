import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { importPKCS8 } from 'jose';
import {
  allowInsecureRequests,
  AuthorizationResponseError,
  type ClientAuth,
  ClientError,
  ClientSecretBasic,
  ClientSecretPost,
  clockTolerance,
  Configuration,
  customFetch,
  type CustomFetchOptions,
  modifyAssertion,
  None,
  PrivateKeyJwt,
  ResponseBodyError,
  type ServerMetadata,
  WWWAuthenticateChallengeError,
} from 'openid-client';
import { isKeySetUrl } from '../../config/schema/units.js';
import { readRegularFile } from '../../files/files.js';
import { authoritiesOf, fetchConfiguration, type IssuerAddress } from '../jwt/key-source.js';
import type { Claims } from './claims.js';
import { CLOCK_SKEW_SECONDS, clientKeyAlgorithm, LoginFailed, type ProviderSettings } from './settings.js';
import { parseUntrustedJson } from '../../util/json.js';
import { quoted } from '../../util/text.js';
import { forbidsContent } from '../../domain/methods.js';
import type { ConnectionFailed } from '../../util/system-error.js';
import { fetchLimited } from '../../net/fetch-limited.js';

/** @throws Error that gives the reason */
export async function discoverProvider(settings: ProviderSettings): Promise<Configuration> {
  const { client_id: id, client_secret: secret } = settings;
  const metadata = (await fetchConfiguration(settings)) as unknown as ServerMetadata;
  for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const) {
    const url = metadata[name];
    if (url === undefined || !URL.canParse(url) || !isKeySetUrl(new URL(url)))
      throw new Error(`its configuration has no ${name} with https://`);
  }
  const more = {
    ...(secret === null ? {} : { client_secret: secret }),
    [clockTolerance]: CLOCK_SKEW_SECONDS,
  };
  const client = new Configuration(metadata, id, more, await authenticationOf(metadata, settings));
  client[customFetch] = fetchFrom(settings);
  // fetchFrom allows http:// only for loopback addresses.
  allowInsecureRequests(client);
  return client;
}

async function authenticationOf(
  { token_endpoint_auth_methods_supported: supported, token_endpoint: url }: ServerMetadata,
  { client_auth: method, client_secret: secret, client_key: file }: ProviderSettings,
): Promise<ClientAuth> {
  if (file !== null) return signedAuthentication(readRegularFile(file).toString(), url);
  if (secret === null) return None();
  // Without a list, the method is client_secret_basic (OpenID Connect Discovery 3).
  const isBasic = method === null ? (supported?.includes('client_secret_basic') ?? true) : method === 'basic';
  return isBasic ? ClientSecretBasic(secret) : ClientSecretPost(secret);
}

/**
 * OpenID Connect Core 9, private_key_jwt.
 * @param pem the private key, and the certificate by which Entra ID recognizes it
 */
async function signedAuthentication(pem: string, tokenEndpoint: string | undefined): Promise<ClientAuth> {
  const key = createPrivateKey(pem);
  const pkcs8 = key.export({ type: 'pkcs8', format: 'pem' }).toString();
  const signingKey = await importPKCS8(pkcs8, clientKeyAlgorithm(key) ?? '');
  const certificate = pem.includes('-----BEGIN CERTIFICATE-----') ? new X509Certificate(pem) : undefined;
  return PrivateKeyJwt(signingKey, {
    [modifyAssertion]: (header, payload) => {
      // Okta and Entra ID accept only this audience.
      if (tokenEndpoint !== undefined) payload['aud'] = tokenEndpoint;
      if (certificate === undefined) return;
      header['x5t'] = thumbprint(certificate, 'sha1');
      header['x5t#S256'] = thumbprint(certificate, 'sha256');
    },
  });
}

function thumbprint({ raw }: X509Certificate, hash: string): string {
  return createHash(hash).update(raw).digest('base64url');
}

/** @throws LoginFailed */
export function failed(cause: unknown): never {
  if (cause instanceof AuthorizationResponseError)
    throw new LoginFailed('provider_refused', `the provider returned ${quotedError(cause)}`, { cause });
  const isAway = causesOf(cause).some((each) => each instanceof ProviderUnreachable);
  const failure = isAway ? 'provider_unavailable' : 'invalid_answer';
  throw new LoginFailed(failure, reasonFor(cause), { isOfProvider: isOfProvider(cause) });
}

/**
 * Whether a response is wrong whatever the authorization code: it is none of OAuth, or refuses the client
 * (RFC 6749 5.2).
 */
function isOfProvider(error: unknown): boolean {
  return causesOf(error).some((each) => {
    if (each instanceof ResponseBodyError) return CLIENT_REFUSED.has(each.error);
    return each instanceof Response || each instanceof SyntaxError || each instanceof RangeError;
  });
}

const CLIENT_REFUSED: ReadonlySet<string> = new Set(['invalid_client', 'unauthorized_client']);

/** The last one may be a response. The message of a {@link ProviderUnreachable} includes its cause. */
function causesOf(error: unknown): unknown[] {
  if (error === undefined) return [];
  const hasCause = error instanceof Error && !(error instanceof ProviderUnreachable);
  return hasCause ? [error, ...causesOf(error.cause)] : [error];
}

function reasonFor(error: unknown): string {
  const reasons = causesOf(error).flatMap((each) => {
    // Without a code, openid-client's message for an error that is not its own is "something went wrong".
    if (each instanceof ClientError && each.code === undefined && each.cause instanceof Error) return [];
    if (each instanceof ResponseBodyError) return [each.message, sourceOf(each.response), quotedError(each)];
    if (each instanceof WWWAuthenticateChallengeError) return [each.message, sourceOf(each.response)];
    if (each instanceof Error) return each.message;
    if (each instanceof Response) return sourceOf(each);
    const { claim, claims, expected } = Object(each) as {
      claim?: string;
      claims?: Claims;
      expected?: string;
    };
    return claim === 'iss' ? `the claim iss is ${quoted(String(claims?.[claim]))}, not ${expected}` : [];
  });
  return [...new Set(reasons)].join(': ');
}

function quotedError({
  error,
  error_description: text,
}: AuthorizationResponseError | ResponseBodyError): string {
  return text === undefined ? quoted(error) : `${quoted(error)} (${quoted(text)})`;
}

/** Without query. */
const urls = new WeakMap<Response, string>();

function sourceOf(response: Response): string {
  return `${urls.get(response) ?? 'the provider'} responded with ${response.status}`;
}

const MAX_ANSWER = 256 * 1024;
/** From the connection to the last byte. */
const TIMEOUT_MS = 5_000;

class ProviderUnreachable extends Error {}

/** Follows no redirects. */
function fetchFrom(address: IssuerAddress) {
  return async (url: string, options: CustomFetchOptions) => fetchFromProvider(url, options, address);
}

/** @throws ProviderUnreachable; RangeError or SyntaxError if the JSON of the response is rejected */
async function fetchFromProvider(
  url: string,
  options: CustomFetchOptions,
  provider: IssuerAddress,
): Promise<Response> {
  const { origin, pathname } = new URL(url);
  if (!isKeySetUrl(new URL(url)))
    throw new ProviderUnreachable(`${origin}${pathname} is not an https:// URL`);
  const { status, headers, text } = await fetchLimited(url, {
    method: options.method as 'GET' | 'POST',
    headers: options.headers,
    ...(options.body instanceof URLSearchParams ? { body: options.body.toString() } : {}),
    timeout: TIMEOUT_MS,
    maxBody: MAX_ANSWER,
    ca: authoritiesOf(provider),
  }).catch((cause: ConnectionFailed) => {
    throw new ProviderUnreachable(`${origin}${pathname}: ${cause.reason}`, { cause });
  });
  const type = headers['content-type'] ?? '';
  if (status >= 500 || status === 429)
    throw new ProviderUnreachable(`${origin}${pathname} responded with ${status}`);
  if (/json/i.test(type)) parseUntrustedJson(text);
  const response = new Response(forbidsContent(status) ? null : text, {
    status,
    headers: { 'Content-Type': type },
  });
  urls.set(response, `${origin}${pathname}`);
  return response;
}
