import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { underWay } from '../helpers/counts.js';
import { startFixture } from '../helpers/fixture.js';
import { serveTcp } from '../helpers/http.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { readAnswers } from '../helpers/strict.mjs';
import { until } from '../helpers/until.js';

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nearly';
const HEAD = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
const soon = (act: () => unknown) => void setTimeout(act, 10);
type Behaviour = (socket: Socket) => unknown;
/**
 * How an upstream behaves after the head of a request, and the status that its client may get; 0
 * for a truncated response.
 */
const BEHAVIOURS: Readonly<Record<string, readonly [Behaviour, number]>> = {
  'answers': [(socket) => socket.write(ANSWER), 200],
  'answers and ends': [(socket) => socket.end(ANSWER), 200],
  'answers and is destroyed': [(socket) => socket.write(ANSWER, () => socket.destroy()), 200],
  'answers and resets': [(socket) => socket.write(ANSWER, () => soon(() => socket.resetAndDestroy())), 200],
  'answers with close': [(socket) => socket.end('HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'), 413],
  'answers twice': [(socket) => socket.write(`${ANSWER}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`), 200],
  'answers without a length': [(socket) => { socket.write('HTTP/1.1 200 OK\r\n\r\nearly'); soon(() => socket.end()); }, 200],
  'answers without a body': [(socket) => socket.write('HTTP/1.1 204 No Content\r\n\r\n'), 204],
  'goes on and ends': [(socket) => { socket.write('HTTP/1.1 100 Continue\r\n\r\n'); soon(() => socket.end()); }, 502],
  'ends': [(socket) => socket.end(), 502],
  'is destroyed': [(socket) => socket.destroy(), 502],
  'resets': [(socket) => socket.resetAndDestroy(), 502],
  'sends an invalid response': [(socket) => socket.write('HTTP/1.1 200 OK\nContent-Length: 0\n\n'), 502],
  'sends half a body and ends': [(socket) => { socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nearly'); soon(() => socket.end()); }, 0],
  'sends a chunk and resets': [(socket) => { socket.write(`${HEAD}5\r\nearly\r\n`); soon(() => socket.resetAndDestroy()); }, 0],
  'sends a bad chunk': [(socket) => { socket.write(`${HEAD}5\r\nearly\r\n`); soon(() => socket.write('x\r\n')); }, 0],
}; // prettier-ignore
const names = Object.keys(BEHAVIOURS);
/**
 * A connection closed with unread bytes is reset, and the system may then drop a response that was
 * not read yet.
 */
const MAY_BE_LOST: ReadonlySet<string> = new Set(['answers and is destroyed', 'answers and resets']);
/** Connections that the upstream closes, at once or soon, after its response to an earlier request. */
const closing = new WeakSet<Socket>();
/**
 * The requests that reached the upstream on another connection. One that meets a closing connection
 * may be lost, and only an idempotent one is sent again (RFC 9112 9.3.1).
 */
const reached = new Set<string>();
/**
 * How clients send a body: the method, what is sent with the head, what is sent later, and whether
 * the next request may be served.
 */
const UPLOADS: readonly [method: string, now: string, later: string, goesOn: boolean][] = [
  ['GET', '\r\n', '', true],
  ['POST', 'Content-Length: 10\r\n\r\n0123456789', '', true],
  ['POST', 'Content-Length: 10\r\n\r\n01234', '56789', true],
  ['POST', 'Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n', '5\r\n56789\r\n0\r\n\r\n', true],
  ['POST', 'Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n', 'x\r\n', false],
  ['POST', 'Connection: close\r\nContent-Length: 10\r\n\r\n01234', '56789', false],
  ['POST', 'Expect: 100-continue\r\nContent-Length: 10\r\n\r\n', '0123456789', true],
];

const { url: upstreamUrl } = await serveTcp(t, (socket) => {
  socket.setNoDelay(true).on('data', (chunk) => {
    const [, path, run = ''] = /^[A-Z]+ \/(\w+)(?:\/(\d+))? HTTP/.exec(chunk.toString('latin1')) ?? [];
    // A body that arrives apart from its head. A second response would belong to the next request.
    if (path === undefined || socket.writableEnded || socket.destroyed) return;
    if (!closing.has(socket)) reached.add(run);
    const name = names[Number(path)] ?? '';
    if (/ends|destroyed|resets/.test(name)) closing.add(socket);
    if (path === 'next') socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext');
    else BEHAVIOURS[name]?.[0](socket);
  });
});
const { url, server } = await startFixture(t, {
  upstream: undefined,
  // One request may meet several connections that close right after a response.
  upstreams: { api: { url: upstreamUrl, retries: 5 } },
  default_route: { auth: 'none' },
});

const AT_ONCE = 16;
let runs = 0;

/**
 * Describes what is wrong with the client's responses. @param pipelined whether it sends its next
 * request without waiting
 */
async function exchange(behaviour: number, upload: number, pipelined: boolean): Promise<string | undefined> {
  const [method, now, later, goesOn] = UPLOADS[upload] as (typeof UPLOADS)[number];
  const [, wanted] = BEHAVIOURS[names[behaviour] as string] as readonly [Behaviour, number];
  const next = 'GET /next HTTP/1.1\r\nHost: a\r\n\r\n';
  const run = String(++runs);
  const client = openRaw(url, { bytes: `${method} /${behaviour}/${run} HTTP/1.1\r\nHost: a\r\n${now}` });
  const read = () => readAnswers(client.bytes(), [method, 'GET'], client.ended);
  if (pipelined && later === '') client.write(next);
  await until(() => client.ended || read().answers.length > 0, 'the response');
  client.write(later);
  if (!pipelined) await sleep(20);
  if (!pipelined || later !== '') client.write(next);
  await until(() => client.ended || read().answers.length === 2, 'the next response');
  const { answers, fault } = read();
  client.socket.destroy();
  const [first, second] = answers.map(({ status }) => status);
  const metClosing = method === 'POST' && !reached.has(run);
  const isLost = first === 502 && (metClosing || MAY_BE_LOST.has(names[behaviour] as string));
  const isRight =
    wanted === 0
      ? first === undefined && fault !== undefined
      : (first === wanted || isLost) &&
        fault === undefined &&
        (second === undefined || (goesOn && second === 200));
  const isServed = wanted === 0 || wanted === 502 || isLost || !goesOn || second === 200;
  return isRight && isServed && !client.text().includes('evil')
    ? undefined
    : `upstream ${names[behaviour]}, upload ${upload}, ${pipelined}: ${JSON.stringify(client.text())}`;
}

t.test('whatever an upstream does during an upload, the client gets complete responses or a visibly broken one', async (t) => {
  const cases = names.flatMap((_, behaviour) => UPLOADS.flatMap((_each, upload) => [true, false].map((pipelined) => [behaviour, upload, pipelined] as const)));
  t.equal(cases.length, names.length * UPLOADS.length * 2);
  const wrong: (string | undefined)[] = [];
  const work = async () => {
    for (let next = cases.pop(); next !== undefined; next = cases.pop()) wrong.push(await exchange(...next));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  t.same(wrong.filter(Boolean), []);
  await until(async () => (await underWay(server.admin)).length === 0, 'nothing in flight');
}); // prettier-ignore
