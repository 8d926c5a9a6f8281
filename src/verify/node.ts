import { AssertionRefused, KeysUnavailable, type RefusalBody } from './errors.js';
import {
  type AssertionClaims,
  type HeaderOptions,
  type IdentityHeaders,
  identityHeaders,
  requireHeaderOptions,
  requireOptions,
  type VerifyOptions,
} from './options.js';
import { type VerifiableRequest, verifyRequest } from './verify.js';

/** A request of `node:http`, the HTTP/2 compatibility API, or Express. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly originalUrl?: string | undefined;
  rawHeaders: string[];
  headers: Record<string, string | string[] | undefined>;
  headersDistinct?: Record<string, string[] | undefined> | undefined;
}

export interface NodeResponse {
  writeHead(status: number, headers: Record<string, string | number>): unknown;
  end(body: string): unknown;
}

/**
 * Replaces the identity headers of a request, in every spelling, with those that its assertion vouches for.
 */
export function applyIdentity(request: NodeRequest, claims: AssertionClaims, options: HeaderOptions): void {
  requireHeaderOptions(options);
  acceptIdentity(request, claims, identityHeaders(options));
}

export function acceptIdentity(request: NodeRequest, claims: AssertionClaims, names: IdentityHeaders): void {
  // Node derives both from rawHeaders on first access, by the number of fields received.
  const { headers, headersDistinct, rawHeaders } = request;
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (!names.isReplaced(rawHeaders[i] as string)) kept.push(rawHeaders[i] as string, rawHeaders[i + 1] as string);
  }
  const fields = names.of(claims);
  // In place: code that already holds the list must not see forged fields.
  rawHeaders.splice(0, Infinity, ...kept, ...fields);
  for (const each of [headers, headersDistinct ?? {}])
    for (const name of Object.keys(each)) if (names.isReplaced(name)) delete each[name];
  for (let i = 0; i < fields.length; i += 2) {
    const [name, value] = [(fields[i] as string).toLowerCase(), fields[i + 1] as string];
    headers[name] = value;
    if (headersDistinct !== undefined) headersDistinct[name] = [value];
  }
  claimsByRequest.set(request, claims);
} // prettier-ignore

type Refused = AssertionRefused | KeysUnavailable | undefined;
type Accept = (claims: AssertionClaims, names: IdentityHeaders) => void;

/** Returns a function that resolves with undefined or the refusal. @throws TypeError for wrong options */
export function createCheck(
  options: VerifyOptions,
): (seen: VerifiableRequest, accept: Accept) => Promise<Refused> {
  requireOptions(options);
  const names = identityHeaders(options);
  return async (seen, accept) => {
    try {
      accept(await verifyRequest(seen, options), names);
      return undefined;
    } catch (error) {
      if (error instanceof AssertionRefused || error instanceof KeysUnavailable) return error;
      throw error;
    }
  };
}

/**
 * Middleware for `node:http`, and for Express 4 and 5. It answers a request without a valid assertion
 * with 401, or 503 while no key is known, and does not call `next`.
 */
export function nodeMiddleware(
  options: VerifyOptions,
): (request: NodeRequest, response: NodeResponse, next: (error?: unknown) => void) => Promise<void> {
  const check = createCheck(options);
  return async (request, response, next) => {
    let refusal: Refused;
    try {
      refusal = await check(request, (claims, names) => acceptIdentity(request, claims, names));
    } catch (error) {
      next(error);
      return;
    }
    if (refusal === undefined) next();
    else answer(response, refusal.status, refusal.body);
  };
}

function answer(response: NodeResponse, status: number, body: RefusalBody): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': text.length,
    'Cache-Control': 'no-store',
  });
  response.end(text);
}

/** The claims of verified requests. Nothing that a client sends is stored here. */
export const claimsByRequest = new WeakMap<object, AssertionClaims>();

/**
 * Returns the claims of a request of `node:http`, Express or Fastify, or of a Hono context.
 * @throws Error when no middleware verified it, so that an unprotected route is noticed
 */
export function identityOf(request: object): AssertionClaims {
  const { raw, req } = request as { raw?: object; req?: { raw?: object } };
  for (const each of [request, raw, req?.raw]) {
    const claims = each === undefined ? undefined : claimsByRequest.get(each);
    if (claims !== undefined) return claims;
  }
  throw new Error('latchkey/verify: no middleware has verified this request');
}
