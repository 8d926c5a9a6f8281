import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import t from 'tap';
import { Address } from '../../src/proxy/address.js';
import { until } from '../helpers/until.js';

const CONNECTIONS = 60;

/** Opens many connections at once by as many requests, and gives back when each of them closed, in ms since it was last used. */
async function idleTimes(keepAliveTimeout: number): Promise<number[]> {
  const closed: number[] = [];
  const server = createServer({ keepAliveTimeout }, (_, res) => setTimeout(() => res.end('x'), 300));
  server.on('connection', (socket: Socket) => {
    socket.once('close', () => closed.push(performance.now()));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const address = new Address(`http://127.0.0.1:${port}`, {
    connect_timeout: 2_000,
    max_connections: CONNECTIONS,
    tls: null,
  });
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const { body } = await address.pool.request({ path: '/', method: 'GET' });
      await body.text();
    }),
  );
  const usedAt = performance.now();
  await until(() => closed.length === CONNECTIONS, 'idle connections close');
  await address.pool.close();
  server.close();
  return closed.map((at) => at - usedAt).toSorted((a, b) => a - b);
}

for (const [what, serverKeeps, least, most] of [
  ['before a server that says nothing would', 0, 3_300, 4_500],
  ['two seconds before a server that says when it would', 5_000, 2_300, 3_500],
] as const) {
  t.test(`idle connections close ${what}, and not all of them at once`, async (t) => {
    const times = await idleTimes(serverKeeps);
    const [first, last] = [times.at(0) ?? 0, times.at(-1) ?? 0];
    t.ok(first > least, `the first after ${Math.round(first)} ms`);
    t.ok(last < most, `the last after ${Math.round(last)} ms`);
    t.ok(last - first > 200, `over ${Math.round(last - first)} ms`);
  });
}
