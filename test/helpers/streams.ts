import { request } from 'node:http';
import { WebSocket, WebSocketServer } from 'ws';
import { serveHttp } from './http.js';

/** Starts an upstream whose responses and WebSockets stay open until the client ends them. */
export async function startStreams(t: { teardown: (fn: () => void) => void }) {
  const { url, server } = await serveHttp(t, (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' });
    const timer = setInterval(() => res.write('data: x\n\n'), 50);
    res.on('close', () => clearInterval(timer));
  });
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket) => {
    const timer = setInterval(() => socket.send('x'), 50);
    socket.on('close', () => clearInterval(timer)).on('error', () => undefined);
  });
  return url;
}

/**
 * Opens an event stream and a WebSocket. Reports when each ended and whether it looked complete.
 */
export function openBoth(url: string, headers: Record<string, string>) {
  const startedAt = Date.now();
  const events = new Promise<{ ms: number; whole: boolean }>((resolve, reject) => {
    request(`${url}/events`, { headers, agent: false }, (res) => {
      if (res.statusCode !== 200) reject(new Error(`${res.statusCode}`));
      open += 1;
      res.resume().on('error', () => undefined);
      res.on('close', () => resolve({ ms: Date.now() - startedAt, whole: res.complete }));
    })
      .on('error', reject)
      .end();
  });
  const socket = new WebSocket(`${url.replace('http', 'ws')}/socket`, { headers });
  const tunnel = new Promise<{ ms: number }>((resolve, reject) => {
    socket.on('close', () => resolve({ ms: Date.now() - startedAt })).on('error', reject);
  });
  let over = 0;
  let open = 0;
  socket.on('open', () => open++);
  void events.then(() => over++);
  void tunnel.then(() => over++);
  return { events, tunnel, open: () => open, over: () => over, end: () => socket.terminate() };
}
