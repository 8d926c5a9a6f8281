import { createServer, type Server } from 'node:http';
import { listen } from '../listeners/server.js';

/** Maximum size of the echoed body, in bytes; the rest is left out. */
const MAX_SHOWN = 64 * 1024;

/** Starts an upstream on loopback that echoes each request as `{method, path, headers, body}`. */
export async function startEcho(): Promise<{ server: Server; url: string }> {
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    let size = 0;
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= MAX_SHOWN) chunks.push(chunk);
    });
    req.on('end', () => {
      const body = Buffer.concat(chunks).toString('utf8');
      const json = JSON.stringify({ method: req.method, path: req.url, headers: req.headers, body }, null, 2);
      res.writeHead(200, { 'Content-Type': 'application/json' }).end(`${json}\n`);
    });
  });
  return { server, url: await listen(server, { host: '127.0.0.1', port: 0 }) };
}
