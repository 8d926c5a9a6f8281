import { createHash } from 'node:crypto';
import { createServer } from 'node:net';

import { openRaw } from './raw-client.mjs';
import { readRequest, valuesOf } from './strict.mjs';

/**
 * Writes chunks to a loopback port, each in its own event loop turn, and collects the response.
 *
 * @param pieces buffers, written in order
 * @param enough whether the bytes so far suffice; without it, only the end of the connection does
 * @param quietMs how long the connection may stay quiet
 * @param settleMs how long to keep listening after `enough`, for bytes that should not arrive
 * @param end whether to end our side after the last chunk
 * @param localAddress the address to connect from, of 127.0.0.0/8
 * @returns the bytes, and whether the peer closed the connection
 */
export function talk(
  port,
  pieces,
  { enough, quietMs = 1_000, settleMs = 0, end = false, localAddress } = {},
) {
  return new Promise((resolve) => {
    const client = openRaw(port, { localAddress });
    const { socket } = client;
    let over = false;
    const finish = (ended) => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      socket.destroy();
      resolve({ bytes: client.bytes(), ended });
    };
    const timer = setTimeout(() => finish(false), quietMs);
    let next = 0;
    const write = () => {
      if (over || next >= pieces.length) return;
      client.write(pieces[next++]);
      if (next < pieces.length) setImmediate(write);
      else if (end) socket.end();
    };
    socket.on('connect', write);
    socket.on('data', () => {
      timer.refresh();
      if (enough?.(client.bytes())) setTimeout(() => finish(false), settleMs);
    });
    for (const event of ['end', 'error', 'close']) socket.on(event, () => finish(true));
  });
}

/** Returns the `Sec-WebSocket-Accept` for a key (RFC 6455 4.2.2). */
export function acceptOf(key) {
  return createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
}

/** Sends bytes and resets the connection after `ms` milliseconds. */
export function abandon(port, bytes, ms, localAddress) {
  const { socket, closed } = openRaw(port, { bytes, localAddress });
  socket.on('connect', () => setTimeout(() => socket.resetAndDestroy(), ms));
  return closed;
}

/**
 * Starts a raw upstream that parses requests strictly and answers each with 200. An invalid request
 * is recorded as a fault and its connection closed. A target that contains `switch` opens an echo
 * tunnel. It does not use `serveTcp`, because the fuzzer runs it without tap.
 *
 * @param closesAfter whether the connection ends after the response to a request
 */
export async function startStrictUpstream({ closesAfter = () => false } = {}) {
  const seen = { requests: [], faults: [], tunnelled: [], cut: [] };
  const sockets = new Set();
  const server = createServer((socket) => {
    let bytes = Buffer.alloc(0);
    let tunnel = false;
    sockets.add(socket);
    socket
      .on('error', () => undefined)
      .on('close', () => {
        sockets.delete(socket);
        if (bytes.length > 0 && !tunnel) seen.cut.push(bytes);
      });
    socket.on('data', (chunk) => {
      if (tunnel) {
        seen.tunnelled.push(chunk);
        socket.write(chunk);
        return;
      }
      bytes = Buffer.concat([bytes, chunk]);
      for (;;) {
        const request = readRequest(bytes, 0);
        if (request === undefined) return;
        if ('fault' in request) {
          seen.faults.push({ fault: request.fault, bytes });
          socket.destroy();
          return;
        }
        const { end, ...rest } = request;
        seen.requests.push({ ...rest, bytes: bytes.subarray(0, end) });
        bytes = bytes.subarray(end);
        if (request.target.includes('switch') && valuesOf(request.fields, 'upgrade').length > 0) {
          tunnel = true;
          socket.write(
            'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
              `Sec-WebSocket-Accept: ${acceptOf(valuesOf(request.fields, 'sec-websocket-key')[0])}\r\n\r\n`,
          );
          return;
        }
        const body = request.method === 'HEAD' ? '' : 'ok';
        const closes = closesAfter(rest);
        socket.write(
          `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${closes ? 'Connection: close\r\n' : ''}\r\n${body}`,
        );
        if (closes) {
          socket.end();
          return;
        }
      }
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return {
    port: server.address().port,
    url: `http://127.0.0.1:${server.address().port}`,
    seen,
    reset: () => Object.assign(seen, { requests: [], faults: [], tunnelled: [], cut: [] }),
    close: () => {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
