import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { underWay } from '../helpers/counts.js';
import { startFixture } from '../helpers/fixture.js';
import { serveHttp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { createRandom, type Random } from '../helpers/random.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';
import { acceptOf } from '../helpers/wire.mjs';

/*
 * WebSockets whose two sides send, read slowly, end or reset at any moment: each side receives what
 * the other sent, in order. If neither resets, it receives all of it and then the end.
 */

const CLIENTS = 8;
const TUNNELS = 4;
const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const OPENED = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptOf(KEY)}\r\n\r\n`;
/** Sizes around what the kernel buffers for a client that does not read. */
const SIZES = Array.from({ length: 12 }, (_, i) => 1_500_000 + 300_000 * i);
/** Longer than an ended WebSocket may be silent. */
const PAUSE_MS = 6_500;

/** What one side of a tunnel does. */
interface Side {
  /** Bytes to send, in pieces. */
  readonly pieces: readonly Buffer[];
  /** Probability of a pause after a piece: one in this many. */
  readonly pauses: number;
  /** Milliseconds between two reads. */
  readonly readsEvery: number;
  /** Milliseconds to the first read after the handshake. */
  readonly firstReadAfter: number;
  readonly finish: 'end' | 'reset';
}

const SILENT: Side = { pieces: [], pauses: 1, readsEvery: 0, firstReadAfter: 0, finish: 'end' };

interface Received {
  bytes: Buffer;
  hasEnded: boolean;
}

/** The side of the upstream, and what it received, by path. */
const scripts = new Map<string, Side & { received: Promise<Received> | undefined; random: Random }>();

const { url: upstreamUrl, server: upstream } = await serveHttp(t, (_req, res) => res.end('ok'));
let open = 0;
upstream.on('connection', (socket: Duplex) => {
  open += 1;
  socket.on('close', () => (open -= 1));
});
upstream.on('upgrade', (req: IncomingMessage, socket: Duplex, head: Buffer) => {
  const script = scripts.get(req.url ?? '');
  if (script === undefined) throw new Error(`no script for ${req.url}`);
  if (head.length > 0) socket.unshift(head);
  socket.write(OPENED);
  script.received = play(socket, script, script.random);
});

/** Plays one side: sends and reads at once, and returns what was received when both have ended. */
async function play(socket: Duplex, side: Side, random: Random, isClient = false): Promise<Received> {
  const chunks: Buffer[] = [];
  const received: Received = { bytes: Buffer.alloc(0), hasEnded: false };
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    if (side.readsEvery === 0) return;
    socket.pause();
    setTimeout(() => socket.resume(), side.readsEvery);
  });
  socket.on('end', () => (received.hasEnded = true));
  const closed = new Promise((done) => socket.once('close', done));
  if (isClient) await Promise.race([once(socket, 'data'), closed]);
  if (side.firstReadAfter > 0) {
    socket.pause();
    setTimeout(() => socket.resume(), side.firstReadAfter);
  }
  for (const piece of side.pieces) {
    socket.write(piece);
    if (random.oneIn(side.pauses)) await sleep(random.below(4));
  }
  // Node loses what arrives while it ends a TLS connection.
  if (socket instanceof TLSSocket && side.finish === 'end')
    await until(() => received.hasEnded || socket.destroyed, 'the end of the other side');
  if (side.finish === 'end') socket.end();
  else if (socket instanceof TLSSocket) socket.destroy();
  else (socket as Socket).resetAndDestroy();
  await closed;
  received.bytes = Buffer.concat(chunks);
  return received;
} // prettier-ignore

const tls = selfSigned(temporaryFolder(t), 'a.example');
const settings = {
  upstream: undefined,
  upstreams: { api: { url: upstreamUrl, max_connections: 1000 } },
  default_route: { action: 'api', upstream: 'api' },
};
const plain = await startFixture(t, settings);
const overTls = await startFixture(t, { ...settings, listen: { host: '127.0.0.1', port: 0, tls } });

/** Opens a tunnel and plays both sides. */
async function tunnel(fixture: typeof plain, path: string, client: Side, server: Side, random: Random) {
  scripts.set(path, { ...server, received: undefined, random });
  const raw = openRaw(fixture.url, {
    halfOpen: true,
    onData: () => undefined,
    bytes: `GET ${path} HTTP/1.1\r\nHost: a\r\nService-Key: ${keys.get(fixture)}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n\r\n`,
  });
  const { bytes, hasEnded } = await play(raw.socket, client, random, true);
  const headEnd = bytes.indexOf('\r\n\r\n') + 4;
  const atServer = await scripts.get(path)?.received;
  scripts.delete(path);
  return { atClient: { bytes: bytes.subarray(headEnd), hasEnded }, atServer, opened: headEnd > 4 };
} // prettier-ignore

const keys = new Map([
  [plain, await plain.token('superuser')],
  [overTls, await overTls.token('superuser')],
]);

function sideOf(name: string, random: Random): Side {
  const pieces = Array.from({ length: random.below(12) }, (_, i) =>
    Buffer.alloc(random.pick([1, 100, 20_000, 100_000]), `${name} ${i} `),
  );
  return {
    pieces,
    pauses: random.pick([1, 2, 1_000]),
    readsEvery: random.pick([0, 0, 1, 5]),
    firstReadAfter: 0,
    finish: random.pick(['end', 'end', 'end', 'reset']),
  };
}

const isPrefix = (part: Buffer, whole: Buffer) => part.equals(whole.subarray(0, part.length));
const rest = async () => {
  for (const { server } of [plain, overTls])
    await until(async () => (await underWay(server.admin)).length === 0, 'nothing is in flight');
  await until(() => open === 0, 'no connection is left');
};

for (const [name, fixture] of [
  ['tcp', plain],
  ['tls', overTls],
] as const) {
  t.test(`both sides receive what the other sent, over ${name}`, async (t) => {
    const wrong: string[] = [];
    let whole = 0;
    const work = async (worker: number) => {
      const random = createRandom(worker);
      for (let i = 0; i < TUNNELS; i++) {
        const path = `/${name}-${worker}-${i}`;
        const [client, server] = [sideOf(`c${path}`, random), sideOf(`s${path}`, random)];
        const { atClient, atServer, opened } = await tunnel(fixture, path, client, server, random);
        const fromClient = Buffer.concat(client.pieces);
        const fromServer = Buffer.concat(server.pieces);
        const about = `${path} ${client.finish} ${server.finish}`;
        if (!isPrefix(atClient.bytes, fromServer)) wrong.push(`${about}: the client received something else`);
        if (atServer !== undefined && !isPrefix(atServer.bytes, fromClient)) wrong.push(`${about}: the upstream received something else`);
        if (client.finish === 'reset' || server.finish === 'reset') continue;
        if (!opened || atServer === undefined) continue;
        whole += 1;
        for (const [side, received, sent] of [['client', atClient, fromServer], ['upstream', atServer, fromClient]] as const)
          if (received.bytes.length !== sent.length || !received.hasEnded)
            wrong.push(`${about}: the ${side} received ${received.bytes.length} of ${sent.length}, end ${received.hasEnded}`);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, i) => work(i)));
    t.same(wrong, []);
    t.ok(whole > 10, `${whole} ended without a reset`);
    await rest();
  });
} // prettier-ignore

t.test('a reader that pauses receives all that was sent before the end', async (t) => {
  const missing = await Promise.all(
    SIZES.map(async (size, i) => {
      const server: Side = { ...SILENT, pieces: [Buffer.alloc(size)] };
      const client: Side = { ...SILENT, firstReadAfter: PAUSE_MS };
      const { atClient } = await tunnel(plain, `/pause-${i}`, client, server, createRandom(i));
      return [size - atClient.bytes.length, atClient.hasEnded];
    }),
  );
  t.same(missing, SIZES.map(() => [0, true]));
  await rest();
}); // prettier-ignore
