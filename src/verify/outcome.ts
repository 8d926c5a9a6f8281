import { AssertionRefused, KeysUnavailable } from './errors.js';
import type { AssertionClaims } from './options.js';

/** The claims of verified requests. Nothing that a client sends is stored here. */
export const claimsByRequest = new WeakMap<object, AssertionClaims>();

/**
 * Returns the claims of a request that a middleware verified.
 *
 * Accepts a request of `node:http`, Express or Fastify, or a Hono context.
 *
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

/** Returns the refusal that an error stands for. Any other error is rethrown. */
export function asRefusal(error: unknown): AssertionRefused | KeysUnavailable {
  if (error instanceof AssertionRefused || error instanceof KeysUnavailable) return error;
  throw error;
}
