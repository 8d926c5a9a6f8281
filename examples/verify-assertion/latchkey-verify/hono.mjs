// Hono on Node. Needs: npm install latchkey hono @hono/node-server
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { honoMiddleware, identityOf } from 'latchkey/verify';
import { options, port } from './settings.mjs';

const app = new Hono();
app.use(honoMiddleware(options));

app.all('/api/*', (c) => {
  const { login, role } = identityOf(c);
  return c.json({ login, role, headers: c.req.header(), rawHeaders: c.env.incoming.rawHeaders });
});

serve({ fetch: app.fetch, port, hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`listening on http://127.0.0.1:${port}`);
});
