// @fastify/http-proxy behind a check of the key. Started with: port, upstream's port, file of keys.
import fastifyProxy from '@fastify/http-proxy';
import fastify from 'fastify';
import { readKeys } from './keys.mjs';

const [port, upstreamPort, file] = process.argv.slice(2);
const keys = readKeys(file);
const app = fastify({ keepAliveTimeout: 600_000, bodyLimit: 1024 * 1024 * 1024 });
await app.register(fastifyProxy, {
  upstream: `http://127.0.0.1:${upstreamPort}`,
  undici: { connections: 256, pipelining: 1 },
  preHandler(request, reply, done) {
    if (keys.has(request.headers['service-key'])) done();
    else reply.code(401).send({ msg: 'Provided credentials are missing or invalid' });
  },
});
await app.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 });
