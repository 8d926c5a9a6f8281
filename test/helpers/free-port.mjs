import { createServer } from 'node:net';

/**
 * Below the range that systems use for outgoing connections and for port 0 (32768 and up on Linux).
 * A port from that range may be taken before the program that is to use it has started. The same
 * holds for the ports 10,000 above these, where nodes of Redis Cluster listen as well.
 */
const FIRST = 10_000;
const COUNT = 10_000;

/**
 * Returns a port that no process listens on.
 *
 * @returns {Promise<number>}
 */
export async function freePort() {
  const port = FIRST + Math.floor(Math.random() * COUNT);
  const server = createServer();
  const isFree = await new Promise((done) => {
    server.once('error', () => done(false)).listen(port, '127.0.0.1', () => done(true));
  });
  if (!isFree) return freePort();
  await new Promise((done) => server.close(done));
  return port;
}
