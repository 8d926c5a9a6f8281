import t from 'tap';
import { WebSocketServer } from 'ws';
import { startChromium } from '../helpers/chromium.js';
import { startFixture } from '../helpers/fixture.js';

const { url, token, upstream } = await startFixture(t, { routes: [{ path: '/open', auth: 'none' }] });
/** The subprotocols that the upstream was offered. */
const offered: (string | undefined)[] = [];
// It chooses the first one that it is offered.
const sockets = new WebSocketServer({ server: upstream.server });
sockets.on('connection', (socket, req) => {
  offered.push(req.headers['sec-websocket-protocol']);
  socket.send(String(req.headers['x-auth-login']));
});

t.test('a page sends a token as a subprotocol', async (t) => {
  const browser = await startChromium(t);
  const page = await browser.newPage();
  await page.goto(`${url}/open`);
  const key = await token('engineer');
  const carrier = `latchkey.bearer.${key}`;
  const open = (protocols: readonly string[]) =>
    page.evaluate(`new Promise((resolve) => {
      const socket = new WebSocket('/live', ${JSON.stringify(protocols)});
      socket.onmessage = ({ data }) => resolve(socket.protocol + ' ' + data);
      socket.onclose = () => resolve('closed');
    })`);
  t.equal(await open([carrier]), `${carrier} engineer@example.com`, 'alone, the handshake accepts it');
  t.equal(await open([carrier, 'chat', 'v2']), 'chat engineer@example.com', 'beside others, the API chooses');
  t.equal(await open([carrier, `latchkey.bearer.lk${'0'.repeat(38)}`]), 'closed', 'two different tokens');
  t.equal(await open(['latchkey.bearer.x']), 'closed', 'no token');
  t.equal(await open(['chat']), 'closed', 'without one');
  t.same(offered, [undefined, 'chat, v2'], 'the API sees the others only');
});
