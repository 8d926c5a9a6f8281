// node:http, with WebSockets. Needs: npm install latchkey ws
import { createServer } from 'node:http';
import { applyIdentity, identityOf, nodeMiddleware, verifyAssertion } from 'latchkey/verify';
import { WebSocketServer } from 'ws';
import { options, port } from './settings.mjs';

const verify = nodeMiddleware(options);

const server = createServer((req, res) => {
  void verify(req, res, (error) => {
    if (error !== undefined) {
      res.writeHead(500).end();
      return;
    }
    const { login, role } = identityOf(req);
    res.writeHead(200, { 'Content-Type': 'application/json' });
    res.end(JSON.stringify({ login, role, headers: req.headers, rawHeaders: req.rawHeaders }));
  });
});

// A WebSocket handshake has no response object, so it does not go through the middleware.
const webSockets = new WebSocketServer({ noServer: true });
server.on('upgrade', (req, socket, head) => {
  socket.on('error', () => socket.destroy());
  verifyAssertion(req, options).then(
    (claims) => {
      applyIdentity(req, claims, options);
      webSockets.handleUpgrade(req, socket, head, (ws) => ws.send(`hello ${identityOf(req).login}`));
    },
    () => socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n'),
  );
});

server.listen(port, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
