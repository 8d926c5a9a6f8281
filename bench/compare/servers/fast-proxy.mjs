// fast-proxy behind a check of the key, with undici, which its documentation calls fastest. Started
// with: port, upstream's port, file of keys.
import { createServer } from 'node:http';
import fastProxy from 'fast-proxy';
import { admits, readKeys } from './keys.mjs';

const [port, upstreamPort, file] = process.argv.slice(2);
const keys = readKeys(file);
const peer = fastProxy({
  base: `http://127.0.0.1:${upstreamPort}`,
  undici: { connections: 256, pipelining: 1 },
});
createServer({ keepAliveTimeout: 600_000 }, (req, res) => {
  if (admits(keys, req, res)) peer.proxy(req, res, req.url, {});
}).listen(Number(port), '127.0.0.1', 4096);
