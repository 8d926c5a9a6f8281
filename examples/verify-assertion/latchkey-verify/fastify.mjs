// Fastify. Needs: npm install latchkey fastify
import Fastify from 'fastify';
import { fastifyPlugin, identityOf } from 'latchkey/verify';
import { options, port } from './settings.mjs';

const app = Fastify();
await app.register(fastifyPlugin, options);

app.all('/api/*', async (request) => {
  const { login, role } = identityOf(request);
  return { login, role, headers: request.headers, rawHeaders: request.raw.rawHeaders };
});

console.log(`listening on ${await app.listen({ port, host: '127.0.0.1' })}`);
