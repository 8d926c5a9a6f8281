import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import t from 'tap';
import { isReset, setOnread } from '../../src/listeners/accepted-socket.js';
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
