import type { AssertionClaims, IdentityHeaders, VerifyOptions } from './options.js';
import { acceptIdentity, claimsByRequest, createCheck, type NodeRequest } from './node.js';

interface FastifyRequestLike {
  readonly raw: NodeRequest;
  readonly originalUrl: string;
}

interface FastifyReplyLike {
  code(status: number): FastifyReplyLike;
  header(name: string, value: string): FastifyReplyLike;
  send(body: unknown): unknown;
}

export interface FastifyLike {
  addHook(
    name: 'onRequest',
    hook: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<unknown>,
  ): unknown;
}

/**
 * Plugin for Fastify 5: `await app.register(fastifyPlugin, options)`, before the routes. It applies
 * to the instance and its children, including requests that match no route.
 */
export async function fastifyPlugin(instance: FastifyLike, options: VerifyOptions): Promise<void> {
  const check = createCheck(options);
  instance.addHook('onRequest', async (request, reply) => {
    const { raw, originalUrl } = request;
    const { method, rawHeaders, headers } = raw;
    const refusal = await check({ method, rawHeaders, headers, originalUrl }, (claims, names) =>
      acceptIdentity(raw, claims, names),
    );
    if (refusal === undefined) return undefined;
    reply.code(refusal.status).header('Content-Type', 'application/json').header('Cache-Control', 'no-store');
    return reply.send(JSON.stringify(refusal.body));
  });
}

// Same effect as fastify-plugin: the hook is added to the registering instance, not to a child.
Object.assign(fastifyPlugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'latchkey-verify',
  [Symbol.for('plugin-meta')]: { name: 'latchkey-verify', fastify: '5.x' },
});

export interface HonoContextLike {
  readonly req: { raw: Request };
  readonly env: unknown;
}

/**
 * Middleware for Hono: `app.use(honoMiddleware(options))`. With `@hono/node-server` it sees the
 * target as it was received, elsewhere the URL that the platform built from it.
 */
export function honoMiddleware(
  options: VerifyOptions,
): (context: HonoContextLike, next: () => Promise<void>) => Promise<Response | undefined> {
  const check = createCheck(options);
  return async (context, next) => {
    const { incoming } = (context.env ?? {}) as { incoming?: NodeRequest };
    const refusal = await check(incoming ?? context.req.raw, (claims, names) => {
      if (incoming !== undefined) acceptIdentity(incoming, claims, names);
      adopt(context, claims, names);
    });
    if (refusal !== undefined)
      return Response.json(refusal.body, {
        status: refusal.status,
        headers: { 'Cache-Control': 'no-store' },
      });
    await next();
    return undefined;
  };
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
