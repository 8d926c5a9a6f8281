import { AssertionRefused, KeysUnavailable } from './errors.js';
import type { AssertionClaims } from './options.js';

/** The claims of requests that were verified. Nothing that a client sends gets in here. */
export const claimsBy = new WeakMap<object, AssertionClaims>();

/**
 * The claims of a request that a middleware let through: of `node:http`, Express or Fastify, or the context of Hono.
 *
 * @throws Error when none did, so that a route without the middleware is noticed
 */
export function identityOf(request: object): AssertionClaims {
  const { raw, req } = request as { raw?: object; req?: { raw?: object } };
  for (const each of [request, raw, req?.raw]) {
    const claims = each === undefined ? undefined : claimsBy.get(each);
    if (claims !== undefined) return claims;
  }
  throw new Error('latchkey/verify: no middleware has verified this request');
}

/** What a request is refused with. Any other error is a fault, and thrown. */
export function asRefusal(error: unknown): AssertionRefused | KeysUnavailable {
  if (error instanceof AssertionRefused || error instanceof KeysUnavailable) return error;
  throw error;
}
