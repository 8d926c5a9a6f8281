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
    const refusal = await check(raw, { method, rawHeaders, headers, originalUrl });
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
