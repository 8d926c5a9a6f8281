import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import type { IncomingRequest } from '../../src/http/exchange.js';
import { createPublicServer, listen, type PortHandlers } from '../../src/listeners/server.js';
import { createUpgradeListener } from '../../src/listeners/websocket.js';
import { selfSigned } from '../helpers/certificates.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const REQUESTS = 3_000;
const BATCH = 50;
/** The connection and the last batch may still hold this many. */
const MAX_LEFT = 2 * BATCH;
const LIMITS = {
  head_size: 16_384,
  head_fields: 100,
  target_size: 8_192,
  head_timeout: 10_000,
  keep_alive: 10_000,
};
const files = selfSigned(temporaryFolder(t), 'one');
const certificate = { cert: readFileSync(files.cert), key: readFileSync(files.key), clientCa: null } as never;

const makePublic =
  (withTls: boolean) =>
  ({ serve, fault }: Pick<PortHandlers, 'serve' | 'fault'>) =>
    createPublicServer(LIMITS, withTls ? certificate : null, {
      serve,
      upgrade: createUpgradeListener(null as never, null as never),
      unreadable: () => undefined,
      fault,
    });

for (const [about, make] of [
  ['the public port', makePublic(false)],
  ['the public port with TLS', makePublic(true)],
] as const) {
  t.test(
    `requests with another protocol in Upgrade leave nothing on their connection: ${about}`,
    async (t) => {
      const met: WeakRef<IncomingRequest>[] = [];
      const faults: unknown[] = [];
      const server = make({
        serve: (req, res) => {
          met.push(new WeakRef(req));
          res.writeHead(200, '', ['Content-Length', '2']);
          res.end('ok');
        },
        fault: (error) => faults.push(error),
      });
      let accepted: Duplex | undefined;
      server.prependListener('secureConnection', (socket: Duplex) => (accepted = socket));
      server.prependListener('connection', (socket: Duplex) => (accepted ??= socket));
      const url = await listen(server, { host: '127.0.0.1', port: 0 });
      const client = await open(url);
      await ask(client, BATCH);
      const before = listenersOf(accepted);
      await ask(client, REQUESTS);
      t.ok(met.length >= REQUESTS, 'all were served on this connection');
      t.same(listenersOf(accepted), before, 'no additional listeners');
      await turn();
      collect();
      const left = met.filter((each) => each.deref() !== undefined).length;
      t.ok(left <= MAX_LEFT, `${left} of ${met.length} requests are still kept`);
      t.same(faults, []);
      client.destroy();
      server.close();
      server.closeAllConnections();
    },
  );
}

function listenersOf(socket: Duplex | undefined): Record<string, number> {
  const names = socket?.eventNames() ?? [];
  return Object.fromEntries(names.map((name) => [String(name), socket?.listenerCount(name) ?? 0]));
}

async function open(url: string): Promise<Socket> {
  const { socket } = openRaw(url);
  await once(socket, url.startsWith('https:') ? 'secureConnect' : 'connect');
  return socket;
}

/** Sends requests, each after the response to the one before. */
async function ask(socket: Socket, times: number): Promise<void> {
  let answered = 0;
  const send = () =>
    socket.write(
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n',
    );
  const onData = (chunk: Buffer) => {
    if (!chunk.toString().includes('ok')) return;
    answered += 1;
    if (answered < times) send();
  };
  socket.on('data', onData);
  send();
  await until(() => answered === times, `${times} answers`, 30_000);
  socket.off('data', onData);
}
