import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import t from 'tap';
import type { Refusal } from '../../src/domain/refusal.js';
import { Limiter } from '../../src/domain/limiter.js';
import { loadProxy } from '../../src/upstream/tunnel.js';
import { createUpgrade } from '../../src/upstream/upgrade.js';
import { type Upstream, Waits } from '../../src/upstream/upstreams.js';
import { type Exchange, OPENS, shake } from '../helpers/handshake.js';
import { pause, until } from '../helpers/until.js';

/** Returns all orders of any of these. */
function ordersOf<T>(all: readonly T[]): T[][] {
  return [[], ...all.flatMap((first) => ordersOf(all.filter((each) => each !== first)).map((rest) => [first, ...rest]))];
} // prettier-ignore

t.test('a handshake ends once, and leaves nothing behind, whatever happens in which order', async (t) => {
  const accepted: Socket[] = [];
  const server = createServer((socket) => void accepted.push(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    for (const socket of accepted) socket.destroy();
  });
  const dial = async () => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    await once(socket, 'connect');
    return socket.on('error', () => undefined);
  };
  const upgrade = createUpgrade([]);
  const events = ['client closes', 'revoked', 'connected', 'not connected', 'upstream closes'] as const;
  const orders = ordersOf(events).filter((order) => {
    const at = order.indexOf('connected');
    if (at >= 0) return !order.includes('not connected') && !order.slice(0, at).includes('upstream closes');
    return order.includes('not connected') && !order.includes('upstream closes');
  });
  for (const order of [...orders, ['closed before'] as const, ['revoked before'] as const]) {
    const about = order.join(', ');
    const [client, opened] = await Promise.all([dial(), dial()]);
    if (order[0] === 'closed before') {
      client.destroy();
      await once(client, 'close');
    }
    const limiter = new Limiter({ size: 1, maxWaiting: 0, timeout: 1_000 });
    const attempts: ((outcome: Socket | Error) => void)[] = [];
    const address = {
      prefix: '',
      host: 'x',
      connect: (done: (outcome: Socket | Error) => void) => void attempts.push(done),
      active: 0,
    };
    const none = () => undefined;
    const settings = { max_response_head: 16_384, retries: 0 };
    const waits = new Waits('x', { response_timeout: 60_000, idle_timeout: 60_000 });
    const upstream = { limiter, settings, waitsOf: () => waits, choose: () => address, failed: () => (failures += 1), report: none, answered: none, hostFor: none } as unknown as Upstream; // prettier-ignore
    const log: string[] = [];
    let failures = 0;
    const handshake = upgrade({
      head: { fields: [] } as never,
      subject: null,
      socket: client,
      headBytes: Buffer.alloc(0),
      upstream,
      target: '/',
      limits: null,
      fields: [],
      responseFields: [],
      cors: null,
      pass: none,
      refuse: ({ refusal }: Refusal) => void log.push(refusal),
      fault: (error) => t.error(error),
      done: ({ status }) => void log.push(`done ${status}`),
    });
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    // The attempt begins once http-proxy is loaded.
    if (order[0] === 'revoked before') handshake.abort({ refusal: 'unauthenticated' });
    await loadProxy();
    for (const event of order) {
      if (event === 'closed before' || event === 'revoked before') continue;
      if (event === 'client closes') client.destroy();
      else if (event === 'revoked') handshake.abort({ refusal: 'unauthenticated' });
      else if (event === 'upstream closes') opened.destroy();
      else {
        t.equal(limiter.active, 1, `a connection attempt holds its permit: ${about}`);
        attempts.pop()?.(event === 'connected' ? opened : new Error('refused'));
      }
      await turn();
    }
    if (order.every((event) => event === 'connected')) client.destroy();
    await until(() => limiter.active === 0 && log.length > 0, about, 2_000);
    t.equal(log.filter((each) => each === 'done null').length, 1, about);
    t.ok(log.length <= 2, `${about}: ${log.join()}`);
    const isBlamed = order.some((event) => event === 'not connected' || event === 'upstream closes');
    t.ok(isBlamed || failures === 0, `the address has not failed: ${about}`);
    t.same([address.active, attempts.length], [0, 0], about);
    if (order.some((event) => event === 'connected'))
      await until(() => opened.destroyed, `the end of the connection: ${about}`, 2_000);
    client.destroy();
    opened.destroy();
  }
});

const INTERIM = 'HTTP/1.1 103 Early Hints\r\n\r\n';

t.test('each end of a handshake is counted once, and ends its connection', async (t) => {
  const malformed = ['reported', 'upstream_broken', 'done null'];
  const rows: [string, (each: Exchange) => unknown, string[], object?][] = [
    ['no response', ({ upstream }) => upstream.destroy(), ['failed', 'upstream_broken', 'done null']],
    ['a part of one', ({ upstream }) => upstream.end('HTTP/1.1 101 '), ['failed', 'upstream_broken', 'done null']],
    ['403', ({ upstream }) => upstream.write('HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n'), ['answered', 'done 403', 'passed']],
    ['403 whose body does not end', ({ upstream }) => upstream.write('HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n'), ['answered', 'done 403', 'passed'], { timeout: 50 }],
    ['403 whose body is cut off', ({ upstream }) => upstream.end('HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nx'), ['answered', 'done 403', 'passed']],
    ['a 101 that does not follow from the key', ({ upstream }) => upstream.write(`${OPENS.replace('Accept: ', 'Accept: x')}\r\n`), ['answered', 'upstream_broken', 'done 101']],
    ['a 101 with a length', ({ upstream }) => upstream.write(`${OPENS}Content-Length: 0\r\n\r\n`), ['answered', 'upstream_broken', 'done 101']],
    ['a 403 with two lengths', ({ upstream }) => upstream.write('HTTP/1.1 403 No\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n'), malformed],
    ['a 403 with an unknown coding', ({ upstream }) => upstream.end('HTTP/1.1 403 No\r\nTransfer-Encoding: gzip\r\n\r\n'), malformed],
    ['a 101 whose head is too large', ({ upstream }) => upstream.write(`${OPENS}A: ${'a'.repeat(20_000)}\r\n\r\n`), malformed],
    ['a 101 of HTTP/1.0', ({ upstream }) => upstream.write(`${OPENS.replace('HTTP/1.1', 'HTTP/1.0')}\r\n`), malformed],
    ['a 101 of HTTP/2.0', ({ upstream }) => upstream.write(`${OPENS.replace('HTTP/1.1', 'HTTP/2.0')}\r\n`), malformed],
    ['a 101 with too many fields', ({ upstream }) => upstream.write(`${OPENS}${'A:\r\n'.repeat(998)}\r\n`), malformed],
    ['a 101 whose length follows thousands of fields', ({ upstream }) => upstream.write(`${OPENS}${'A:\r\n'.repeat(2_500)}Content-Length: 5\r\n\r\n`), malformed],
    ['too many interim responses', ({ upstream }) => upstream.write(`${INTERIM.repeat(51)}${OPENS}\r\n`), malformed],
    ['a bare line feed', ({ upstream }) => upstream.write(`${OPENS}A: b\n\r\n`), malformed],
    ['another protocol', ({ upstream }) => upstream.write('SSH-2.0-x\r\n'), malformed],
    ['silence', () => undefined, ['upstream_too_slow', 'done null'], { timeout: 50 }],
    ['too many bytes before the response', ({ far }) => far.write('x'.repeat(100_000)), ['malformed', 'done null']],
    ['a client that ends its side', ({ far }) => far.end(), ['done null']],
    ['a client that ends its side behind early bytes', ({ far }) => far.end('early'), ['done null']],
    ['a client that leaves', ({ far }) => far.resetAndDestroy(), ['done null']],
    ['an error of this side', ({ upstream }) => upstream.write(`${OPENS}\r\n`), ['answered', 'fault answered', 'fault', 'done null'], { broken: 'answered' }],
    ['two errors of this side', ({ upstream }) => upstream.destroy(), ['failed', 'upstream_broken', 'fault upstream_broken'], { broken: 'upstream_broken' }],
    ['an error when it is open', ({ upstream }) => upstream.write(`${OPENS}\r\n`), ['answered', 'done 101', 'fault done 101'], { broken: 'done 101' }],
  ];
  for (const [about, act, wanted, more] of rows) {
    const each = await shake(t, more);
    act(each);
    await until(() => each.log.length >= wanted.length && each.active() === 0, about, 2_000);
    t.same(each.log, wanted, about);
    await until(() => each.upstream.destroyed || each.upstream.readableEnded, `${about}: its connection ends`, 2_000);
    const isLeft = /^(?:done|passed)/.test(wanted.at(-1) ?? '') && !about.startsWith('a client');
    t.equal(each.client.destroyed, !isLeft, `${about}: nothing else ends the connection of its client`);
  }
}); // prettier-ignore

t.test('a 101 with as many fields and interim responses as allowed opens a WebSocket', async (t) => {
  const each = await shake(t);
  each.upstream.write(`${INTERIM.repeat(50)}${OPENS}${'A:\r\n'.repeat(997)}\r\n`);
  await until(() => each.log.includes('done 101'), 'an open WebSocket');
  t.same(each.log, ['answered', 'done 101']);
});

t.test('what a client sends before the response reaches the upstream after it', async (t) => {
  const { far, client, upstream } = await shake(t);
  let received = '';
  upstream.on('data', (chunk: Buffer) => (received += chunk.toString()));
  far.write('early');
  await until(() => client.bytesRead === 5, 'it is read');
  await pause(50);
  t.equal(received, '');
  upstream.write(`${OPENS}\r\n`);
  far.write(' and late');
  await until(() => received === 'early and late', 'all of it, in order');
});

t.test('an open WebSocket counts until its connection to the upstream ends', async (t) => {
  for (const side of ['far', 'upstream'] as const) {
    const each = await shake(t, { timeout: 500 });
    each.upstream.write(`${OPENS}\r\n`);
    await until(() => each.log.includes('done 101'), 'the 101');
    await pause(600);
    t.equal(each.active(), 2, 'the time for the response is over');
    const other = side === 'far' ? 'upstream' : 'far';
    each[side].end();
    await until(() => each[other].readableEnded, 'the end is passed on', 2_000);
    t.equal(each.active(), 2);
    each[other].end('rest');
    await until(() => each.active() === 0, 'the end', 2_000);
    t.equal(each[side].bytesRead > 0, true);
    t.same(each.log, ['answered', 'done 101']);
  }
});
