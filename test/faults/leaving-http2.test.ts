import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { startFixture } from '../helpers/fixture.js';
import { block, CONTINUATION, DATA, END_HEADERS, END_STREAM, frame, FrameConnection, GOAWAY, HEADERS, PING, SETTINGS, uint32 } from '../helpers/frames.js'; // prettier-ignore
import { CHECK } from '../helpers/grpc.js';
import { freshMetrics, serveTcp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { nightly } from '../helpers/nightly.js';
import { until } from '../helpers/until.js';

/*
 * HTTP/2 clients that make a connection error while their request is in progress. nghttp2 ends most
 * such sessions without a word, and Node would then neither close the connection nor notice that
 * its client does.
 */

const LIMIT_MS = 60_000;
/** Far less than that, and enough for a busy machine. */
const SOON_MS = 20_000;
const PRIORITY = 2;

const POST: readonly (readonly [string, string])[] = [
  [':method', 'POST'],
  [':scheme', 'https'],
  [':authority', 'a'],
];

/** Connection errors (RFC 9113 5.4.1). */
const ERRORS: Record<string, Buffer> = {
  'PRIORITY of 4 bytes': frame(PRIORITY, 0, 1, Buffer.alloc(4)),
  'DATA on stream 0': frame(DATA, 0, 0, Buffer.from('x')),
  'DATA after the end': Buffer.concat([
    frame(HEADERS, END_HEADERS | END_STREAM, 3, block([...POST, [':path', '/x']])),
    frame(DATA, 0, 3, Buffer.from('x')),
  ]),
  'PING of 7 bytes': frame(PING, 0, 0, Buffer.alloc(7)),
  'SETTINGS of 3 bytes': frame(SETTINGS, 0, 0, Buffer.alloc(3)),
  'SETTINGS on a stream': frame(SETTINGS, 0, 1),
  'a frame over the limit': Buffer.concat([Buffer.from([255, 255, 255, 0, 0]), uint32(1)]),
  'an undecodable head': frame(HEADERS, END_HEADERS | END_STREAM, 5, Buffer.alloc(6, 0xff)),
  'a stray CONTINUATION': frame(CONTINUATION, END_HEADERS, 1),
  'GOAWAY of 3 bytes': frame(GOAWAY, 0, 0, Buffer.alloc(3)),
};

const body = (flags: number, size = 1_000) => frame(DATA, flags, 1, Buffer.alloc(size));
/** Returns what a client sends before and after its request is in progress. */
type Order = (head: (flags: number) => Buffer, error: Buffer) => [Buffer[], Buffer[]];
const ORDERS: Record<string, Order> = {
  'before the request': (head, error) => [[], [error, head(END_STREAM)]],
  'with the request': (head, error) => [[], [head(END_STREAM), error]],
  'after the request': (head, error) => [[head(END_STREAM)], [error]],
  'after its body': (head, error) => [[head(0), body(END_STREAM)], [error]],
  'within its body': (head, error) => [
    [head(0), body(0)],
    [error, body(END_STREAM)],
  ],
  'behind unread data': (head, error) => [[head(0), body(0, 16_000), body(0, 16_000)], [error]],
};

const WAYS: Record<string, (client: FrameConnection) => unknown> = {
  closes: ({ socket }) => socket.destroySoon(),
  'closes after the GOAWAY': (client) =>
    until(() => client.ended || client.find(GOAWAY) !== undefined, 'a GOAWAY', SOON_MS).then(() =>
      client.socket.end(),
    ),
  stays: () => undefined,
};

const { url: upstreamUrl } = await serveTcp(t, (socket) => void socket.pause());
const config = {
  upstream: undefined,
  upstreams: {
    api: { url: upstreamUrl, response_timeout: `${LIMIT_MS}ms`, idle_timeout: `${LIMIT_MS}ms` },
  },
  routes: [],
  default_route: { auth: 'none', upstream: 'api' },
  limits: { head_timeout: `${LIMIT_MS}ms`, body_timeout: `${LIMIT_MS}ms`, drain_timeout: `${LIMIT_MS}ms` },
  decision: { grpc: { host: '127.0.0.1', port: 0 } },
};
const listen = { host: '127.0.0.1', port: 0 };
const tls = selfSigned(temporaryFolder(t), 'one');
const overTls = await startFixture(t, { ...config, listen: { ...listen, tls } });
const plain = await startFixture(t, { ...config, listen });
const servers = [overTls.server, plain.server];
const ENTRANCES: Record<string, [urls: string[], head: Buffer]> = {
  proxy: [[overTls.url, plain.url], block([...POST, [':path', '/x']])],
  gRPC: [[overTls.server.grpc], block([...POST, [':path', CHECK], ['content-type', 'application/grpc'], ['te', 'trailers']])],
}; // prettier-ignore

async function counts(): Promise<Record<string, number>> {
  const text = (await Promise.all(servers.map(({ admin }) => freshMetrics(admin)))).join('\n');
  const sum = (name: string) =>
    [...text.matchAll(new RegExp(`^${name}\\b.* (\\d+)$`, 'gm'))].reduce((all, [, n]) => all + Number(n), 0);
  return {
    connections: sum('latchkey_connections'),
    requests: sum('latchkey_requests_in_flight'),
    forwarded: sum('latchkey_upstream_active_requests'),
  };
}
const NONE = { connections: 0, requests: 0, forwarded: 0 };

/** Makes every error in every order on every entrance, and leaves in every way. Returns the clients. */
async function makeErrors(): Promise<ReadonlyMap<string, FrameConnection>> {
  const clients = new Map<string, FrameConnection>();
  const later: (() => unknown)[] = [];
  let [begun, waiting] = [0, 0];
  const begin = async (entrance: string, order: string, kind: string, way: string) => {
    const [urls, fields] = ENTRANCES[entrance] as [string[], Buffer];
    const [first, then] = (ORDERS[order] as Order)(
      (flags) => frame(HEADERS, END_HEADERS | flags, 1, fields),
      ERRORS[kind] as Buffer,
    );
    begun += 1;
    const client = await FrameConnection.open(t, urls[begun % urls.length] as string);
    client.write(...first);
    clients.set(`${entrance}: ${kind} ${order}, ${way}`, client);
    later.push(() => (client.write(...then), WAYS[way]?.(client)));
    if (first.length > 0 && entrance === 'proxy') waiting += 1;
  };
  for (const kind of Object.keys(ERRORS))
    for (const way of Object.keys(WAYS))
      await Promise.all(
        Object.keys(ORDERS).flatMap((order) =>
          Object.keys(ENTRANCES).map((entrance) => begin(entrance, order, kind, way)),
        ),
      );
  await until(async () => (await counts()).forwarded === waiting, 'the requests', SOON_MS);
  await Promise.all(later.map((act) => act()));
  return clients;
}

t.test('nothing is left of a client that makes a connection error', async (t) => {
  const clients = await makeErrors();
  const isOver = async () => (await counts()).connections === 0;
  await until(isOver, 'the end', SOON_MS).catch(() => undefined);
  const open = [...clients].filter(([, { ended }]) => !ended).map(([name]) => name);
  t.same([await counts(), open], [NONE, []]);
  for (const { socket } of clients.values()) socket.destroy();
});

t.test('a drain does not wait for such clients', nightly, async (t) => {
  await makeErrors();
  const since = performance.now();
  t.match(await Promise.all(servers.map((each) => each.stop())), [{ code: 0 }, { code: 0 }]);
  t.ok(performance.now() - since < SOON_MS);
});
