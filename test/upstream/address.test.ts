import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { Address } from '../../src/upstream/address.js';
import type { ResponseHandler } from '../../src/upstream/upstream-request.js';
import { serveHttp } from '../helpers/http.js';
import { GET } from '../helpers/upstream-request.js';
import { until } from '../helpers/until.js';

const CONNECTIONS = 60;

/** What a server that names no time keeps its connections for. */
const USUAL_MS = 5_000;

function answered(onResponseEnd: () => void): ResponseHandler {
  return {
    connection: undefined,
    onRequestStart: () => undefined,
    onInformational: () => undefined,
    onResponseStart: () => undefined,
    onResponseData: () => undefined,
    onResponseEnd,
    onResponseError: (error) => {
      throw error;
    },
  };
}

/**
 * Opens many connections at once by as many requests.
 *
 * @param named whether the server says how long it keeps connections; it keeps them for {@link USUAL_MS}
 * @returns when each of them closed, in ms since it was last used, and how many the client closed, not the server
 */
async function idleTimes(t: Test, named: boolean): Promise<{ times: number[]; byClient: number }> {
  const usedAt = new Map<Socket, number>();
  const closed: number[] = [];
  let byClient = 0;
  const answer: RequestListener = (req, res) => {
    // With it, Node adds no Keep-Alive.
    if (!named) res.setHeader('Connection', 'keep-alive');
    setTimeout(() => res.end('x'), 300);
    res.once('finish', () => usedAt.set(req.socket, performance.now()));
  };
  const { url, server } = await serveHttp(t, answer, { keepAliveTimeout: USUAL_MS });
  server.on('connection', (socket: Socket) => {
    socket.once('end', () => (byClient += 1));
    socket.once('close', () => closed.push(performance.now() - (usedAt.get(socket) ?? Infinity)));
  });
  const address = new Address(url, { connect_timeout: 2_000, tls: null });
  await Promise.all(
    Array.from(
      { length: CONNECTIONS },
      () => new Promise<void>((done) => address.pool.dispatch(GET, answered(done))),
    ),
  );
  await until(() => closed.length === CONNECTIONS, 'idle connections close');
  address.pool.destroy();
  return { times: closed.toSorted((a, b) => a - b), byClient };
}

for (const [what, named, least] of [
  ['before a server that says nothing would', false, 3_300],
  ['before a server that says when it would, some two seconds', true, 2_300],
] as const) {
  t.test(`idle connections close ${what}, and not all of them at once`, async (t) => {
    const { times, byClient } = await idleTimes(t, named);
    const [first, last] = [times.at(0) ?? 0, times.at(-1) ?? 0];
    t.ok(first > least, `the first after ${Math.round(first)} ms`);
    t.equal(byClient, CONNECTIONS, `the last after ${Math.round(last)} ms`);
    t.ok(last - first > 200, `over ${Math.round(last - first)} ms`);
  });
}
