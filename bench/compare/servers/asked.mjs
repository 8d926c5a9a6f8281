// A small authentication service for proxies to consult: 204 for a known key, else 401. Started
// with: port, file of keys.
import { createServer } from 'node:http';
import { readKeys } from './keys.mjs';

const [port, file] = process.argv.slice(2);
const keys = readKeys(file);
createServer({ keepAliveTimeout: 600_000 }, (req, res) => {
  const user = keys.get(req.headers['service-key']);
  if (user === undefined) res.writeHead(401).end();
  else res.writeHead(204, { 'X-Auth-User-Id': user }).end();
}).listen(Number(port), '127.0.0.1', 4096);
