import { errors, jwtVerify, type JWTVerifyOptions } from 'jose';
import { AssertionRefused, KeysUnavailable, type RefusalCode } from './errors.js';
import { keysOf } from './keys.js';
import {
  type AssertionClaims,
  DEFAULT_CLOCK_SKEW,
  DEFAULT_HEADER,
  requireOptions,
  type VerifyOptions,
} from './options.js';
import { fieldsOf, targetOf, valuesOf, type VerifiableRequest } from './request.js';

/** Maximum lifetime of an assertion that Latchkey can be configured to sign, in seconds. */
const MAX_AGE = 3_600;
const TEXTS = ['customer_id', 'login', 'role', 'scope', 'credential'] as const;

/**
 * Verifies the assertion of a request. A bound assertion must match the request.
 *
 * The request is not modified; `applyIdentity` replaces its plain identity headers.
 *
 * @throws AssertionRefused (401)
 * @throws KeysUnavailable (503)
 * @throws TypeError for wrong options
 */
export async function verifyAssertion(
  request: VerifiableRequest,
  options: VerifyOptions,
): Promise<AssertionClaims> {
  requireOptions(options);
  return verifyRequest(request, options);
}

/** Verifies like {@link verifyAssertion}, with options that were checked. */
export async function verifyRequest(
  request: VerifiableRequest,
  options: VerifyOptions,
): Promise<AssertionClaims> {
  const fields = fieldsOf(request);
  const { folded, exact } = valuesOf(fields, options.header ?? DEFAULT_HEADER);
  const [assertion = ''] = exact;
  if (assertion === '') throw new AssertionRefused('assertion_missing');
  // Other spellings count too: Latchkey lets none through, and some readers would use one of them
  // instead.
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

/**
 * Checks that an assertion is bound to this request.
 *
 * It must carry all three claims: an upstream must not accept an assertion that is only half bound.
 */
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

/** Base64url SHA-256 of a target. */
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
