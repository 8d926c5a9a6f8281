// http-proxy behind a check of the key, with persistent connections to the upstream. Started with:
// port, upstream's port, file of keys.
import { Agent, createServer } from 'node:http';
import httpProxy from 'http-proxy';
import { admits, readKeys } from './keys.mjs';

const [port, upstreamPort, file] = process.argv.slice(2);
const keys = readKeys(file);
const proxy = httpProxy.createProxyServer({
  target: `http://127.0.0.1:${upstreamPort}`,
  agent: new Agent({ keepAlive: true, maxSockets: 256 }),
});
proxy.on('error', (_error, _req, res) => 'writeHead' in res && res.writeHead(502).end());
createServer({ keepAliveTimeout: 600_000 }, (req, res) => {
  if (admits(keys, req, res)) proxy.web(req, res);
}).listen(Number(port), '127.0.0.1', 4096);
