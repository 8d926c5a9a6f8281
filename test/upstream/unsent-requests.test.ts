import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { IncomingRequest, OutgoingResponse } from '../../src/http/exchange.js';
import type { RequestHead } from '../../src/http/head.js';
import { createForward } from '../../src/upstream/forward.js';
import type { Log } from '../../src/observe/log.js';
import { Upstream, type UpstreamSettings } from '../../src/upstream/upstreams.js';
import { serveHttp } from '../helpers/http.js';
import { until } from '../helpers/until.js';

/** More connections than one batch of writes holds: 32 are sent as soon as the last of them is written. */
const [MANY, BATCH] = [40, 32];

const opened = new Set<Socket>();
/** Bodies received, by target. */
const received = new Map<string, string[]>();
const held: (() => void)[] = [];
const { url } = await serveHttp(t, (req, res) => {
  opened.add(req.socket);
  let body = '';
  req.on('data', (chunk) => (body += chunk)).on('end', () => {
    const target = req.url ?? '';
    received.set(target, [...(received.get(target) ?? []), body]);
    if (target === '/hold') held.push(() => res.end());
    else res.end();
  });
}); // prettier-ignore

const settings = {
  urls: [url],
  protocol: 'http1',
  host: 'upstream',
  retries: 1,
  max_connections: 100,
  max_waiting: 100,
  wait_timeout: 10_000,
  connect_timeout: 10_000,
  response_timeout: 10_000,
  idle_timeout: 10_000,
  health_check: null,
  tls: null,
} as unknown as UpstreamSettings;
const upstream = new Upstream('api', settings, { warn: () => undefined } as unknown as Log);
t.teardown(() => upstream.close());
const forward = createForward([]);

/** A request whose body arrives in the turn in which it is read. */
class Incoming extends EventEmitter {
  readableEnded = false;
  readonly #chunks: string[];
  #isFlowing = false;

  constructor(chunks: readonly string[]) {
    super();
    this.#chunks = [...chunks];
  }

  isPaused(): boolean {
    return !this.#isFlowing;
  }

  pause(): void {
    this.#isFlowing = false;
  }

  resume(): void {
    this.#isFlowing = true;
    process.nextTick(() => {
      for (let chunk; this.#isFlowing && (chunk = this.#chunks.shift()) !== undefined;)
        this.emit('data', Buffer.from(chunk));
      if (!this.#isFlowing || this.readableEnded) return;
      this.readableEnded = true;
      this.emit('end');
    });
  }
}

type Framing = 'length' | 'chunked' | 'none';

/** Sends a request; resolves to its status, or to the refusal. */
function ask(method: string, target: string, chunks: readonly string[] = [], framing: Framing = 'none') {
  const contentLength = framing === 'length' ? chunks.join('').length : undefined;
  const hasBody = framing === 'chunked' || chunks.length > 0;
  const head = { method, contentLength, hasBody, fields: [], expectsContinue: false };
  const req = new Incoming(chunks) as unknown as IncomingRequest;
  const res = { writeHead: () => undefined, write: () => true, end: () => undefined, flushHeaders: () => undefined };
  return new Promise<number | string>((done) =>
    forward({
      head: head as unknown as RequestHead,
      req,
      res: res as unknown as OutgoingResponse,
      upstream,
      target,
      limits: null,
      fields: [],
      responseFields: [],
      allowsServiceWorker: false,
      cors: null,
      subject: null,
      owner: {
        forwardRefused: ({ refusal }) => done(refusal),
        forwardEnded: ({ status }) => done(status ?? 'aborted'),
      },
    }),
  );
} // prettier-ignore

/** Opens idle connections. */
async function openIdle(count: number): Promise<void> {
  opened.clear();
  const asked = Array.from({ length: count }, () => ask('GET', '/hold'));
  await until(() => held.length === count, 'the requests');
  for (const answer of held.splice(0)) answer();
  await Promise.all(asked);
  // What follows runs in the turn of a timer, before the sockets are read and the batch is written.
  await sleep(20);
}

/** Calls a function later in the same turn, when the body of a request was read. */
function afterTicks(act: () => void): void {
  process.nextTick(() => process.nextTick(() => process.nextTick(act)));
}

const CLOSINGS: Readonly<Record<string, (socket: Socket) => unknown>> = {
  closed: (socket) => socket.destroy(),
  reset: (socket) => socket.resetAndDestroy(),
  'with a response': (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
};
const large = 'x'.repeat(20_000);
const BODIES: readonly (readonly [Framing, readonly string[]])[] = [
  ['none', []],
  ['length', ['one']],
  ['length', ['one', 'two', 'three']],
  ['chunked', []],
  ['chunked', ['one', 'two', 'three']],
];

t.test('a request of any method is resent if its connection closed before any of it was sent', async (t) => {
  for (const [closing, close] of Object.entries(CLOSINGS))
    for (const method of ['GET', 'POST', 'DELETE'])
      for (const [i, [framing, chunks]] of BODIES.entries()) {
        await openIdle(1);
        const target = `/${closing.replaceAll(' ', '-')}/${method}/${i}`;
        const asked = ask(method, target, chunks, framing);
        afterTicks(() => opened.forEach(close));
        t.equal(await asked, 200, target);
        t.same(received.get(target), [chunks.join('')], target);
      }
});

t.test('a request is not resent if a part of it was sent', async (t) => {
  for (const [closing, close] of Object.entries(CLOSINGS)) {
    await openIdle(1);
    const target = `/large/${closing.replaceAll(' ', '-')}`;
    const asked = ask('POST', target, [large, 'more'], 'chunked');
    afterTicks(() => opened.forEach(close));
    t.equal(await asked, closing === 'with a response' ? 200 : 'upstream_broken', closing);
    t.notOk((received.get(target)?.length ?? 0) > 1);
  }
  await openIdle(MANY);
  const asked = Array.from({ length: MANY }, (_, i) => ask('POST', `/many/${i}`));
  for (const socket of opened) socket.resetAndDestroy();
  const statuses = await Promise.all(asked);
  t.equal(statuses.filter((status) => status === 200).length, MANY - BATCH);
  t.equal(statuses.filter((status) => status === 'upstream_broken').length, BATCH);
});
