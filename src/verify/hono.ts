import type { AssertionRefused, KeysUnavailable } from './errors.js';
import { identityHeaders, type IdentityHeaders } from './identity.js';
import { asRefusal, claimsByRequest, createCheck, identityOf, type NodeRequest } from './node.js';
import type { AssertionClaims, VerifyOptions } from './options.js';
import { verifyRequest } from './verify.js';

export interface HonoContextLike {
  readonly req: { raw: Request };
  readonly env: unknown;
}

type Refused = AssertionRefused | KeysUnavailable | undefined;

/**
 * Middleware for Hono: `app.use(honoMiddleware(options))`. With `@hono/node-server` it sees the
 * target as it was received, elsewhere the URL that the platform built from it.
 */
export function honoMiddleware(
  options: VerifyOptions,
): (context: HonoContextLike, next: () => Promise<void>) => Promise<Response | undefined> {
  const check = createCheck(options);
  const names = identityHeaders(options);
  return async (context, next) => {
    const { incoming } = (context.env ?? {}) as { incoming?: NodeRequest };
    const refusal =
      incoming === undefined ? await checkFetch(context, options, names) : await check(incoming);
    if (refusal !== undefined)
      return Response.json(refusal.body, {
        status: refusal.status,
        headers: { 'Cache-Control': 'no-store' },
      });
    if (incoming !== undefined) adopt(context, identityOf(incoming), names);
    await next();
    return undefined;
  };
}

async function checkFetch(
  context: HonoContextLike,
  options: VerifyOptions,
  names: IdentityHeaders,
): Promise<Refused> {
  try {
    adopt(context, await verifyRequest(context.req.raw, options), names);
    return undefined;
  } catch (error) {
    return asRefusal(error);
  }
}

function adopt(context: HonoContextLike, claims: AssertionClaims, names: IdentityHeaders): void {
  const { req } = context;
  try {
    replaceHeaders(req.raw.headers, claims, names);
  } catch {
    // On some platforms, the headers of a received request are immutable.
    const headers = new Headers(req.raw.headers);
    replaceHeaders(headers, claims, names);
    req.raw = new Request(req.raw, { headers });
  }
  claimsByRequest.set(context, claims);
  claimsByRequest.set(req.raw, claims);
}

function replaceHeaders(headers: Headers, claims: AssertionClaims, names: IdentityHeaders): void {
  const replaced: string[] = [];
  headers.forEach((_value, name) => {
    if (names.isReplaced(name)) replaced.push(name);
  });
  for (const name of replaced) headers.delete(name);
  const fields = names.of(claims);
  for (let i = 0; i < fields.length; i += 2) headers.set(fields[i] as string, fields[i + 1] as string);
}
