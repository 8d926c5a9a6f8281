import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { startFixture } from '../helpers/fixture.js';
import { serveTcp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { readAnswers, readRequest } from '../helpers/strict.mjs';
import { until } from '../helpers/until.js';

const HEAD = 'HTTP/1.1\r\nHost: a\r\n';
/**
 * Messages that clients send, with their methods, the bodies that arrive, and the expected
 * statuses, interim ones included.
 */
const MESSAGES: readonly [string, readonly string[], readonly string[], string][] = [
  [`HEAD / ${HEAD}\r\n`, ['HEAD'], [''], '200'],
  [`POST / ${HEAD}Content-Length: 5\r\n\r\nhello`, ['POST'], ['hello'], '200'],
  [`POST / ${HEAD}Transfer-Encoding: chunked\r\n\r\n3;a=b;c\r\nhel\r\n02;q="x;\\"y"\r\nlo\r\n00\r\nX-T: 1\r\n\r\n`, ['POST'], ['hello'], '200'],
  [`POST / ${HEAD}Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi`, ['POST'], ['hi'], '100 200'],
  [`GET / ${HEAD}\r\nPOST / ${HEAD}Content-Length: 2\r\n\r\nhi\r\nGET / ${HEAD}Connection: close\r\n\r\n`, ['GET', 'POST', 'GET'], ['', 'hi', ''], '200 200 200'],
  [`POST / ${HEAD}Content-Length: 2\r\n\r\nhiGET / ${HEAD}Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n`, ['POST', 'GET'], ['hi'], '200 400'],
  [`POST / ${HEAD}Transfer-Encoding: chunked\r\n\r\n2\r\nhi\n0\r\n\r\n`, ['POST'], [], '400'],
]; // prettier-ignore
const ANSWER = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n';
const AT_ONCE = 64;
/** Time for the last requests to arrive. */
const SETTLE_MS = 200;
/** Paths whose responses end the connection: the next request waits for a new one. */
const CLOSING = '/close/';

/**
 * The bodies that arrived, by path. Each path belongs to one message; unreadable requests are
 * listed as faults.
 */
const arrived = new Map<string, string[]>();
const serveStrictly = (path?: string) =>
  serveTcp(
    t,
    (socket) => {
      let bytes = Buffer.alloc(0);
      socket.setNoDelay(true).on('data', (chunk) => {
        bytes = Buffer.concat([bytes, chunk]);
        for (;;) {
          const request = readRequest(bytes, 0);
          if (request === undefined) return;
          if ('fault' in request) {
            arrived.set(`fault: ${request.fault}`, []);
            socket.destroy();
            return;
          }
          bytes = bytes.subarray(request.end);
          arrived.set(request.target, [
            ...(arrived.get(request.target) ?? []),
            request.body.toString('latin1'),
          ]);
          const { method } = request;
          socket.write(method === 'HEAD' ? 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n' : ANSWER);
          if (request.target.startsWith(CLOSING)) socket.end();
        }
      });
    },
    path,
  );

/** Sends a message in two parts. Returns a description if the outcome is wrong. */
async function sendCut(url: string, number: number, at: number): Promise<string | undefined> {
  const [text, methods, bodies, statuses] = MESSAGES[number] as (typeof MESSAGES)[number];
  const target = `/${number}-${at}`;
  const bytes = text.replaceAll(' / ', ` ${target} `);
  const cut = at + (at > text.indexOf(' / ') + 1 ? target.length - 1 : 0);
  const client = openRaw(url);
  const read = () => readAnswers(client.bytes(), methods, client.ended);
  client.write(bytes.slice(0, cut));
  await sleep(at % 9);
  client.write(bytes.slice(cut));
  await until(() => client.ended || read().answers.length === methods.length, `${target}: answers`);
  const got = client
    .text()
    .match(/(?<=HTTP\/1\.1 )\d+/g)
    ?.join(' ');
  const { fault } = read();
  client.socket.destroy();
  const seen = arrived.get(target) ?? [];
  arrived.delete(target);
  return got === statuses && fault === undefined && JSON.stringify(seen) === JSON.stringify(bodies)
    ? undefined
    : `message ${number} cut at ${at}: ${got}, ${fault}, ${JSON.stringify(seen)}`;
}

async function cutEverywhere(t: Test, url: string): Promise<void> {
  const all = MESSAGES.flatMap(([text], number) => Array.from({ length: text.length - 1 }, (_, i) => [number, i + 1] as const)); // prettier-ignore
  t.ok(all.length > 500);
  const cuts = all.filter((_, i) => EVERY_CASE || i % 3 === 0);
  const wrong: (string | undefined)[] = [];
  const work = async () => {
    for (let next = cuts.pop(); next !== undefined; next = cuts.pop())
      wrong.push(await sendCut(url, ...next));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  t.same([wrong.filter(Boolean), [...arrived]], [[], []]);
}

const folder = temporaryFolder(t);
const tls = selfSigned(folder, 'one');
const PAIRS = [
  { clients: 'TCP', upstream: 'TCP' },
  { clients: 'TLS', upstream: 'a Unix socket' },
  { clients: 'TCP', upstream: 'a Unix socket' },
  { clients: 'TLS', upstream: 'TCP' },
];
for (const { clients, upstream } of EVERY_CASE ? PAIRS : PAIRS.slice(0, 2))
  t.test(`messages cut at any byte, over ${clients}, to ${upstream}`, async (t) => {
    const path = upstream === 'TCP' ? undefined : join(folder, `${clients}.sock`);
    const { url: upstreamUrl } = await serveStrictly(path);
    const { url } = await startFixture(t, {
      listen: { host: '127.0.0.1', port: 0, ...(clients === 'TLS' ? { tls } : {}) },
      upstream: upstreamUrl,
      default_route: { auth: 'none', body_on_read: 'allow' },
    });
    await cutEverywhere(t, url);
  });

/** Sends the beginning of a message, ends that side of the connection, and waits for the other. */
async function sendBeginning(url: string, number: number, length: number): Promise<void> {
  const [text] = MESSAGES[number] as (typeof MESSAGES)[number];
  const client = openRaw(url, { halfOpen: true });
  client.write(text.slice(0, length).replaceAll(' / ', ` ${CLOSING}${number}-${length} `));
  client.socket.end();
  await client.closed;
}

for (const clients of EVERY_CASE ? ['TCP', 'TLS'] : ['TCP'])
  t.test(`bodies arrive whole or not at all if the client ends its side, over ${clients}`, async (t) => {
    const upstream = await serveStrictly();
    const { url } = await startFixture(t, {
      listen: { host: '127.0.0.1', port: 0, ...(clients === 'TLS' ? { tls } : {}) },
      upstream: upstream.url,
      default_route: { auth: 'none', body_on_read: 'allow' },
    });
    for (const [number, [text]] of MESSAGES.entries())
      for (let length = 1; length <= text.length; length += length < text.length - 60 ? 7 : 1)
        await sendBeginning(url, number, length);
    await sleep(SETTLE_MS);
    const wrong = [...arrived].filter(([target, seen]) => {
      const [number = 0] = target.slice(CLOSING.length).split('-').map(Number);
      return JSON.stringify(MESSAGES[number]?.[2].slice(0, seen.length)) !== JSON.stringify(seen);
    });
    t.same(wrong, []);
    t.ok(arrived.size > 0);
    arrived.clear();
  });
