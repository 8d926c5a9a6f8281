import {
  errors,
  jwtVerify,
  type JWTVerifyOptions,
  createLocalJWKSet,
  createRemoteJWKSet,
  customFetch,
  type FetchImplementation,
  type JSONWebKeySet,
  type JWTVerifyGetKey,
} from 'jose';
import { foldName } from '../http/protected-fields.js';
import { AssertionRefused, KeysUnavailable, type RefusalCode } from './errors.js';
import {
  type AssertionClaims,
  DEFAULT_CLOCK_SKEW,
  DEFAULT_HEADER,
  requireOptions,
  type VerifyOptions,
} from './options.js';

/** Maximum lifetime of an assertion that Latchkey can be configured to sign, in seconds. */
const MAX_AGE = 3_600;
const TEXTS = ['customer_id', 'login', 'role', 'scope', 'credential'] as const;

/**
 * Verifies the assertion of a request, without changing it (see `applyIdentity`).
 * @throws AssertionRefused (401), KeysUnavailable (503), or TypeError for wrong options
 */
export async function verifyAssertion(
  request: VerifiableRequest,
  options: VerifyOptions,
): Promise<AssertionClaims> {
  requireOptions(options);
  return verifyRequest(request, options);
}

export async function verifyRequest(
  request: VerifiableRequest,
  options: VerifyOptions,
): Promise<AssertionClaims> {
  const fields = fieldsOf(request);
  const { folded, exact } = valuesOf(fields, options.header ?? DEFAULT_HEADER);
  const [assertion = ''] = exact;
  if (assertion === '') throw new AssertionRefused('assertion_missing');
  // Other spellings count: Latchkey lets none through, and some readers would use one of them.
  if (folded > 1) throw new AssertionRefused('assertion_repeated');
  const claims = await verifiedClaims(assertion, options);
  if (claims.dev !== undefined && options.allowDev !== true) throw new AssertionRefused('assertion_dev');
  const { htm, htu, rid } = claims;
  if (htm !== undefined || htu !== undefined || rid !== undefined)
    await checkBinding(claims, request, fields);
  else if (options.bound === 'required') throw new AssertionRefused('assertion_unbound');
  return claims;
}

async function verifiedClaims(assertion: string, options: VerifyOptions): Promise<AssertionClaims> {
  const { issuer, audience, clockSkew = DEFAULT_CLOCK_SKEW } = options;
  const keys = keysOf(options.jwks);
  const settings: JWTVerifyOptions = {
    algorithms: ['EdDSA', 'ES256'],
    issuer,
    audience,
    requiredClaims: ['exp', 'iat', 'sub'],
    maxTokenAge: MAX_AGE,
    clockTolerance: clockSkew,
  };
  try {
    const { payload } = await jwtVerify(
      assertion,
      (header, token) => {
        if (typeof header.kid !== 'string') throw new AssertionRefused('assertion_key_unknown');
        return keys(header, token);
      },
      settings,
    );
    if (!isComplete(payload)) throw new AssertionRefused('assertion_claims');
    return payload;
  } catch (error) {
    if (error instanceof AssertionRefused || error instanceof KeysUnavailable) throw error;
    throw new AssertionRefused(codeOf(error));
  }
}

/** An upstream must not accept an assertion that is only half bound. */
async function checkBinding(
  { htm, htu, rid }: AssertionClaims,
  request: VerifiableRequest,
  fields: readonly string[],
): Promise<void> {
  if (typeof htm !== 'string' || typeof htu !== 'string' || typeof rid !== 'string')
    throw new AssertionRefused('assertion_claims');
  if (request.method !== htm) throw new AssertionRefused('assertion_method');
  if ((await digestOf(targetOf(request))) !== htu) throw new AssertionRefused('assertion_target');
  const { folded, exact } = valuesOf(fields, 'X-Request-Id');
  if (folded !== 1 || exact[0] !== rid) throw new AssertionRefused('assertion_request_id');
}

async function digestOf(target: string): Promise<string> {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(target));
  const base64 = btoa(String.fromCharCode(...new Uint8Array(digest)));
  return base64.replaceAll('+', '-').replaceAll('/', '_').replace('=', '');
}

function isComplete(claims: Record<string, unknown>): claims is Record<string, unknown> & AssertionClaims {
  const { sub, services, token_id: tokenId, dev } = claims;
  return (
    typeof sub === 'string' &&
    sub !== '' &&
    TEXTS.every((name) => typeof claims[name] === 'string') &&
    (services === undefined ||
      (Array.isArray(services) && services.every((each) => typeof each === 'string'))) &&
    (tokenId === undefined || typeof tokenId === 'string') &&
    (dev === undefined || dev === true)
  );
}

function codeOf(error: unknown): RefusalCode {
  if (error instanceof errors.JWTExpired) return 'assertion_expired';
  if (error instanceof errors.JWTClaimValidationFailed) return codeOfClaim(error);
  if (error instanceof errors.JWSSignatureVerificationFailed) return 'assertion_signature';
  if (error instanceof errors.JOSEAlgNotAllowed) return 'assertion_algorithm';
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys)
    return 'assertion_key_unknown';
  return 'assertion_malformed';
}

function codeOfClaim({ claim, reason }: errors.JWTClaimValidationFailed): RefusalCode {
  if (reason !== 'check_failed') return 'assertion_claims';
  if (claim === 'iss') return 'assertion_issuer';
  if (claim === 'aud') return 'assertion_audience';
  return claim === 'iat' || claim === 'nbf' ? 'assertion_not_yet_valid' : 'assertion_claims';
}

/** A request of `node:http`, Express or Fastify, a Fetch `Request`, or any object like these. */
export interface VerifiableRequest {
  readonly method?: string | undefined;
  /** The target as received, or a whole URL. */
  readonly url?: string | undefined;
  /** The target before a framework changed it. */
  readonly originalUrl?: string | undefined;
  /** Alternating names and values. */
  readonly rawHeaders?: readonly string[] | undefined;
  readonly headers: FetchHeaders | Readonly<Record<string, string | readonly string[] | undefined>>;
}

/** The parts of `Headers` that are used. Its types differ between platforms. */
interface FetchHeaders {
  forEach(each: (value: string, name: string) => void): void;
}

/** Returns alternating names and values, with repeated fields where the request preserves them. */
function fieldsOf({ rawHeaders, headers }: VerifiableRequest): readonly string[] {
  if (rawHeaders !== undefined) return rawHeaders;
  const fields: string[] = [];
  if (isFetchHeaders(headers)) headers.forEach((value, name) => fields.push(name, value));
  else
    for (const [name, value] of Object.entries(headers))
      for (const each of [value ?? []].flat()) fields.push(name, each);
  return fields;
}

function targetOf({ originalUrl, url = '', rawHeaders, headers }: VerifiableRequest): string {
  if (originalUrl !== undefined) return originalUrl;
  // Only a Request has a whole URL; Latchkey never sends a target in absolute form.
  if (rawHeaders !== undefined || !isFetchHeaders(headers)) return url;
  const [origin] = /^https?:\/\/[^/?#]*/i.exec(url) ?? [''];
  return url.slice(origin.length);
}

/** Returns the number of fields that some reader takes for a name, and the values of exact ones. */
function valuesOf(fields: readonly string[], name: string): { folded: number; exact: string[] } {
  const lower = name.toLowerCase();
  const wanted = foldName(name);
  const exact: string[] = [];
  let folded = 0;
  for (let i = 0; i < fields.length; i += 2) {
    const each = fields[i] as string;
    if (foldName(each) !== wanted) continue;
    folded += 1;
    if (each.toLowerCase() === lower) exact.push(fields[i + 1] as string);
  }
  return { folded, exact };
}

function isFetchHeaders(headers: VerifiableRequest['headers']): headers is FetchHeaders {
  return typeof headers['forEach' as keyof typeof headers] === 'function';
}

const FETCH_MS = 5_000;
const MAX_BYTES = 1 << 20;
/** As long as Latchkey's responses say (`Cache-Control: max-age`). */
const MAX_AGE_MS = 300_000;
/** Minimum time between fetches, however many unknown key ids arrive. */
const COOLDOWN_MS = 5_000;
/** While their URL does not respond, fetched keys are used for this long. */
const MAX_STALE_MS = 3_600_000;

const local = new WeakMap<JSONWebKeySet, JWTVerifyGetKey>();
const remote = new Map<string, JWTVerifyGetKey>();

/** Returns the keys of a URL or key set. Keys of one URL are shared within the process. */
function keysOf(jwks: string | URL | JSONWebKeySet): JWTVerifyGetKey {
  if (typeof jwks === 'string' || jwks instanceof URL) {
    const url = String(jwks);
    const known = remote.get(url) ?? remoteKeys(url);
    remote.set(url, known);
    return known;
  }
  const known = local.get(jwks) ?? createLocalJWKSet(jwks);
  local.set(jwks, known);
  return known;
}

function remoteKeys(url: string): JWTVerifyGetKey {
  const find = createRemoteJWKSet(new URL(url), {
    timeoutDuration: FETCH_MS,
    cacheMaxAge: MAX_AGE_MS,
    cooldownDuration: COOLDOWN_MS,
    [customFetch]: reusingLast(),
  });
  return async (header, token) =>
    find(header, token).catch((error: unknown) => {
      const isNotOfSet =
        error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
      throw isNotOfSet ? error : new KeysUnavailable(error);
    });
}

/** Fetches a key set. While that fails, the last one is used again, and few fetches are tried. */
function reusingLast(): FetchImplementation {
  let last = '';
  let fetchedAt = -Infinity;
  let failedAt = -Infinity;
  let failure: unknown;
  return async (url, options) => {
    try {
      if (performance.now() < failedAt + COOLDOWN_MS) throw failure;
      const text = await fetchText(url, options);
      createLocalJWKSet(JSON.parse(text) as JSONWebKeySet);
      [last, fetchedAt] = [text, performance.now()];
    } catch (error) {
      if (error !== failure) [failure, failedAt] = [error, performance.now()];
      if (performance.now() >= fetchedAt + MAX_STALE_MS) throw error;
    }
    return new Response(last);
  };
}

async function fetchText(...[url, options]: Parameters<FetchImplementation>): Promise<string> {
  const { status, body } = await fetch(url, options);
  if (status !== 200) throw new Error(`${url} responded with ${status}`);
  const decoder = new TextDecoder();
  let [text, size] = ['', 0];
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw new Error('the key set is too large');
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
