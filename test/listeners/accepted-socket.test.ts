import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import t from 'tap';
import type { Serve } from '../../src/http/exchange.js';
import { bulkBuffers } from '../../src/net/socket.js';
import { refusalReply } from '../../src/http/replies.js';
import { DEFAULT_LIMITS } from '../../src/http1/events.js';
import { isReset, setOnread } from '../../src/listeners/accepted-socket.js';
import { Http1Connections } from '../../src/listeners/http1-connection.js';
import type { UpgradeListener } from '../../src/listeners/http1-input.js';
import { selfSigned } from '../helpers/certificates.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

const LENGTH = 2_000_000;
/** Different at every offset that a read may begin at. */
const SENT = Buffer.alloc(LENGTH);
for (let at = 0; at < LENGTH; at += 4) SENT.writeUInt32BE(at, at);

const { cert, key } = selfSigned(temporaryFolder(t), 'server');
const servers: Record<string, { server: Server; event: string; open: (port: number) => Socket }> = {
  plain: { server: createServer(), event: 'connection', open: (port) => connect(port, '127.0.0.1') },
  TLS: {
    server: createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }),
    event: 'secureConnection',
    open: (port) => connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }),
  },
};

for (const [name, { server, event, open }] of Object.entries(servers))
  t.test(`an accepted ${name} socket reads into the buffers it is given`, async (t) => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const client = open((server.address() as AddressInfo).port);
    t.teardown(() => client.destroy());
    // The client speaks at once: its bytes may arrive with the end of the handshake.
    client.write(SENT);
    const [socket] = (await once(server, event)) as [Socket];
    const buffers = [Buffer.alloc(1_000), Buffer.alloc(70_000)];
    let reads = 0;
    const next = (): Buffer => buffers[reads % 2] as Buffer;
    const received: Buffer[] = [];
    let length = 0;
    let pauses = 0;
    const done = new Promise<void>((resolve) => socket.on('end', resolve));
    const isSet = setOnread(socket, {
      buffer: next,
      callback: (count, buffer) => {
        t.equal(buffer, next());
        reads += 1;
        received.push(Buffer.from(buffer.subarray(0, count)));
        length += count;
        if (length > LENGTH / 2 && pauses++ === 0) {
          socket.pause();
          setTimeout(() => socket.resume(), 50);
        }
        if (length === LENGTH) client.end();
        return true;
      },
    });
    t.ok(isSet, 'this version of Node has the properties that hold the option');
    socket.on('data', () => t.fail('the stream gets nothing'));
    await done;
    t.ok(Buffer.concat(received).equals(SENT));
    socket.destroy();
  });

/** Answers after a while, so that the bytes of a handshake behind the request are unread. */
const answerLater: Serve = (_req, res) =>
  void setTimeout(() => {
    res.writeHead(204, 'No Content', []);
    res.end();
  }, 50);

function connectionsWith(serve: Serve, upgrade: UpgradeListener | null): Http1Connections {
  const limits = { head_size: 16_384, head_fields: 100, target_size: 8_192 };
  const settings = {
    limits: DEFAULT_LIMITS,
    keepAliveHint: 'timeout=5',
    serve,
    upgrade,
    http2: null,
    answerOf: refusalReply,
    unreadable: () => undefined,
    fault: () => undefined,
  };
  return new Http1Connections(settings, { ...limits, head_timeout: 60_000, keep_alive: 60_000 });
}

const TWO_REQUESTS =
  'GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

for (const [name, { server, event, open }] of Object.entries(servers))
  t.test(`a ${name} socket that is handed over loses and mixes up no bytes`, async (t) => {
    const before = bulkBuffers();
    const received: Buffer[] = [];
    let length = 0;
    const connections = connectionsWith(answerLater, (_req, socket, head) => {
      const take = (bytes: Buffer): void => {
        received.push(bytes);
        length += bytes.length;
        if (received.length % 3 !== 0) return;
        socket.pause();
        setTimeout(() => socket.resume(), 1);
      };
      take(head);
      setTimeout(() => socket.on('data', take), 20);
    });
    const accept = (socket: Socket): void => connections.accept(socket);
    server.on(event, accept).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = open((server.address() as AddressInfo).port);
    client.on('error', () => undefined).resume();
    client.write(TWO_REQUESTS);
    client.write(SENT);
    await until(() => length >= LENGTH, 'all bytes');
    t.ok(Buffer.concat(received).equals(SENT));
    connections.destroyAll();
    connections.stop();
    client.destroy();
    server.off(event, accept).close();
    await once(server, 'close');
    t.equal(bulkBuffers(), before);
  });

t.test('a body that its reader holds stays as it is while other connections read', async (t) => {
  const held: Buffer[] = [];
  const connections = connectionsWith(
    (req) => void req.on('data', (chunk) => held.push(chunk)).resume(),
    null,
  );
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const bodies = ['a', 'b', 'c'].map((letter) => letter.repeat(100));
  for (const [i, body] of bodies.entries()) {
    const client = connect(port, '127.0.0.1').on('error', () => undefined);
    client.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n${body}`);
    await until(() => held.length > i, body);
  }
  t.same(held.map(String), bodies);
  connections.destroyAll();
  connections.stop();
  server.close();
});

t.test('a socket without a handle keeps emitting data', async (t) => {
  const onread = { buffer: () => Buffer.alloc(10), callback: () => true };
  t.notOk(setOnread({} as Socket, onread));
});

for (const [name, { server, event }] of Object.entries(servers))
  t.test(`an accepted ${name} socket that does not read tells that its peer reset it`, async (t) => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
    const raw = connect((server.address() as AddressInfo).port, '127.0.0.1');
    const client = name === 'TLS' ? connectTls({ socket: raw, rejectUnauthorized: false }) : raw;
    client.on('error', () => undefined);
    const [socket] = (await once(server, event)) as [Socket];
    socket.on('error', () => undefined).pause();
    if (raw.connecting) await once(raw, 'connect');
    t.notOk(isReset(socket), 'while it is open');
    raw.resetAndDestroy();
    await until(() => isReset(socket), 'the reset');
    socket.destroy();
    t.notOk(isReset(socket), 'nor once it is closed here');
  });

t.test('a small part that is released does not release a large one of the same read', async (t) => {
  const held: Buffer[] = [];
  let isOver = false;
  const connections = connectionsWith((req) => {
    const hold = (chunk: Buffer): void => {
      held.push(chunk);
      // A copy of its own; what was kept before stays kept.
      if (chunk.length < 1_000) req.release?.();
    };
    req.on('data', hold).on('end', () => void (isOver = true)).resume();
  }, null);
  const server = createServer((socket) => connections.accept(socket)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
  const chunk = (bytes: Buffer): Buffer => Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
  const pieces: Buffer[] = [];
  for (let at = 0; at < SENT.length; at += 20_000) pieces.push(SENT.subarray(at, at + 10), SENT.subarray(at + 10, at + 20_000));
  client.write('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
  client.write(Buffer.concat([...pieces.map(chunk), Buffer.from('0\r\n\r\n')]));
  await until(() => isOver, 'the end of the body');
  t.ok(Buffer.concat(held).equals(SENT));
  connections.destroyAll();
  connections.stop();
  client.destroy();
  server.close();
}); // prettier-ignore
