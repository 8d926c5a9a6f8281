// The upstream of a soak: usually responds, sometimes resets, stalls or sends nonsense. A process of
// its own, so that a busy client does not delay its responses beyond the timeout of the server.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { reset } from './reset.mjs';

const [certificate, key] = process.argv.slice(2);

/** @type {import('node:http').RequestListener} */
const answer = (req, res) => {
  req.resume();
  const fate = Math.random();
  if (fate < 0.005) reset(req.socket);
  else if (fate < 0.01)
    res.writeHead(200, { 'Content-Length': 1_000 }).write('half', () => req.socket.destroy());
  else if (fate < 0.012) req.socket.end('nonsense\r\n\r\n');
  else if (fate < 0.03) setTimeout(() => res.end('late'), 200);
  else if (fate < 0.04) res.end(Buffer.alloc(2 * 1024 * 1024));
  else res.end('ok');
};

const options = { keepAliveTimeout: 1_000 };
const server =
  certificate === undefined || key === undefined
    ? createServer(options, answer)
    : createTlsServer({ ...options, cert: readFileSync(certificate), key: readFileSync(key) }, answer);
await once(server.listen(0, '127.0.0.1'), 'listening');
process.send?.(/** @type {import('node:net').AddressInfo} */ (server.address()).port);
process.once('disconnect', () => process.exit());
