import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import t from 'tap';
import type { IncomingRequest, OutgoingResponse } from '../../src/http/exchange.js';
import { refusalReply } from '../../src/http/replies.js';
import { lingeringEnd, writeRawReply } from '../../src/http/write-reply.js';
import { serveTcp } from '../helpers/http.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { pause, until } from '../helpers/until.js';

/** A connection that keeps what is written to it. */
class Connection extends PassThrough {
  override resume() {
    return this;
  }
}

t.test('writes a complete response without a request, and closes the connection', async (t) => {
  const socket = new Connection();
  writeRawReply(socket, refusalReply({ refusal: 'overloaded', detail: 'zu viele für uns' }), 'R1');
  const written = await text(socket);
  const [head = '', body = ''] = written.split('\r\n\r\n');
  t.match(head, /^HTTP\/1\.1 503 Service Unavailable\r\nDate: .* GMT\r\n/);
  for (const field of ['Connection: close', 'X-Request-Id: R1', 'Retry-After: 1', 'Cache-Control: no-store', `Content-Length: ${Buffer.byteLength(body)}`])
    t.ok(head.split('\r\n').includes(field), field);
  t.match(JSON.parse(body), { detail: 'zu viele für uns' });
}); // prettier-ignore

t.test('writes no length without a body', async (t) => {
  const socket = new Connection();
  writeRawReply(socket, { status: 204 }, 'R1');
  const written = await text(socket);
  t.match(written, /^HTTP\/1\.1 204 No Content\r\n[^]*\r\n\r\n$/);
  t.notMatch(written, /^content-(?:length|type):/im);
});

t.test('writes nothing to a client that has disconnected', async (t) => {
  const socket = new Connection();
  socket.end();
  writeRawReply(socket, { status: 204 }, 'R1');
  await new Promise((closed) => socket.once('close', closed));
  t.equal(socket.read(), null);
});

t.test('a stall of this process is not a pause of a client that still sends its body', async (t) => {
  let isReading = false;
  let isEnded = false;
  const response = { end: () => void (isEnded = true) } as unknown as OutgoingResponse;
  const { url } = await serveTcp(t, (socket) => {
    socket.once('data', () => (isReading = true));
    lingeringEnd(socket as unknown as IncomingRequest, response);
  });
  const client = openRaw(url, { bytes: 'some' });
  await until(() => isReading, 'the first part of the body');
  client.write(' more');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_300);
  await pause(1);
  t.notOk(isEnded, 'it has sent more meanwhile');
  await until(() => isEnded, 'the response ends once it pauses');
  client.socket.destroy();
});
