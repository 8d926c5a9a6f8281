import { createCheck, type NodeRequest } from './node.js';
import type { VerifyOptions } from './options.js';

interface FastifyRequestLike {
  readonly raw: NodeRequest;
  readonly originalUrl: string;
}

interface FastifyReplyLike {
  code(status: number): FastifyReplyLike;
  header(name: string, value: string): FastifyReplyLike;
  send(body: unknown): unknown;
}

/** What is used of Fastify's instance. */
export interface FastifyLike {
  addHook(
    name: 'onRequest',
    hook: (request: FastifyRequestLike, reply: FastifyReplyLike) => Promise<unknown>,
  ): unknown;
}

/**
 * Plugin for Fastify 5: `await app.register(fastifyPlugin, options)`, before the routes. It holds for the instance that it
 * is registered with and all below it, and also for requests that no route takes.
 */
export async function fastifyPlugin(instance: FastifyLike, options: VerifyOptions): Promise<void> {
  const check = createCheck(options);
  instance.addHook('onRequest', async (request, reply) => {
    const { raw, originalUrl } = request;
    const { method, rawHeaders, headers } = raw;
    const refusal = await check(raw, { method, rawHeaders, headers, originalUrl });
    if (refusal === undefined) return undefined;
    reply.code(refusal.status).header('Content-Type', 'application/json').header('Cache-Control', 'no-store');
    return reply.send(JSON.stringify(refusal.body));
  });
}

// As fastify-plugin does it: the hook belongs to the instance that registers this, not to a child of its own.
Object.assign(fastifyPlugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'latchkey-verify',
  [Symbol.for('plugin-meta')]: { name: 'latchkey-verify', fastify: '5.x' },
});
