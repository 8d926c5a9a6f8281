import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startFixture } from '../helpers/fixture.js';
import { serveHttp } from '../helpers/http.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

/** Both timeouts, in ms, and a pause that is slow but within them. */
const LIMIT = 2_000;
/** How late a busy machine may be. */
const SLACK = 4_000;
const PAUSE = 400;
const PAUSES = 6;
const GIVE_UP = 10 * LIMIT;
/** More than the socket buffers on the way can hold. */
const MUCH = 48 * 1024 * 1024;
/** How much a slow upstream reads between its pauses. */
const AT_ONCE = 4 * 1024 * 1024;

type Behaviour = (req: IncomingMessage, res: ServerResponse) => unknown;

let behave: Behaviour;
const { url: address } = await serveHttp(t, (req, res) => void behave(req, res));
const { url, token, server } = await startFixture(t, {
  upstream: undefined,
  upstreams: {
    api: { url: address, response_timeout: `${LIMIT}ms`, idle_timeout: `${LIMIT}ms` },
    patient: { url: address, response_timeout: `${LIMIT}ms`, idle_timeout: `${3 * LIMIT}ms` },
  },
  routes: [
    { path: '/patient/*', action: 'api', upstream: 'patient' },
    { path: '/long/*', action: 'api', upstream: 'api', response_timeout: '10m', idle_timeout: '1h' },
    { path: '/short/*', action: 'api', upstream: 'patient', response_timeout: '600ms', max_body: '1KiB' },
  ],
  default_route: { action: 'api', upstream: 'api' },
}); // prettier-ignore
const key = await token('superuser');
t.teardown(async () => {
  await server.stop('SIGKILL');
});

interface Seen {
  /** What arrived until the connection closed. */
  readonly text: string;
  readonly ms: number;
}

/** Sends a request with the body written by `write`, and reads the response with `read`. */
async function ask(
  what: { path?: string; fields?: string; write?: (send: (text: string) => boolean) => Promise<void> },
  read: (socket: Socket) => void = () => undefined,
): Promise<Seen> {
  const startedAt = performance.now();
  const { socket, text, write, closed } = openRaw(url);
  const seen = closed.then(() => ({ text: text(), ms: performance.now() - startedAt }));
  const method = what.write === undefined ? 'GET' : 'POST';
  write(
    `${method} ${what.path ?? '/x'} HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\nConnection: close\r\n${what.fields ?? ''}\r\n`,
  );
  read(socket);
  const gaveUp = setTimeout(() => socket.destroy(), GIVE_UP);
  await what.write?.(write);
  await closed;
  clearTimeout(gaveUp);
  return seen;
}

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const CHUNKED = 'Transfer-Encoding: chunked\r\n';
const slowly = async (each: (index: number) => unknown) => {
  for (let index = 0; index < PAUSES; index++) {
    await sleep(PAUSE);
    each(index);
  }
};

t.test('an upstream that does not respond: 504 at the timeout', async (t) => {
  behave = () => undefined;
  const { text, ms } = await ask({});
  const named = 'no response within upstreams.api.response_timeout (2s)';
  t.match(text, /^HTTP\/1.1 504 /);
  t.ok(text.includes(`"detail":"${named}"`), text);
  t.ok(ms >= LIMIT && ms < LIMIT + SLACK, `${Math.round(ms)} ms`);
  await until(() => server.stdout().includes(`"detail":"${named}"`), 'its log entry names the setting');
});

t.test('a route replaces the timeouts of its upstream', async (t) => {
  behave = async (req, res) => {
    req.resume();
    await sleep(1.5 * LIMIT);
    res.write('first');
    await sleep(1.5 * LIMIT);
    res.end('last');
  };
  const late = ask({ path: '/long/x' });
  const { text } = await ask({ path: '/short/x' });
  t.match(text, /^HTTP\/1.1 504 [^]*"no response within routes\.2\.response_timeout \(600ms\)"/);
  t.match((await late).text, /^HTTP\/1.1 200 [^]*first[^]*last/);
});

t.test('a route limits the bodies of its requests', async (t) => {
  let received = 0;
  behave = (req, res) => {
    received += 1;
    req.resume().on('end', () => res.end('taken'));
  };
  const put = async (size: number, fields: string, parts: readonly string[]) => {
    const write = async (send: (text: string) => boolean) => parts.forEach(send);
    return (await ask({ path: `/short/${size}`, fields, write })).text;
  };
  const full = 'x'.repeat(1_024);
  t.match(await put(1_024, 'Content-Length: 1024\r\n', [full]), /^HTTP\/1.1 200 /);
  t.match(await put(1_024, CHUNKED, [chunk(full), '0\r\n\r\n']), /^HTTP\/1.1 200 /);
  t.equal(received, 2);
  t.match(await put(1_025, 'Content-Length: 1025\r\n', [full]), /^HTTP\/1.1 413 [^]*max_body/);
  t.equal(received, 2, 'a body whose length is known is not sent');
  t.match(await put(1_025, CHUNKED, [chunk(full), chunk('x'), '0\r\n\r\n']), /^HTTP\/1.1 413 [^]*max_body/);
});

t.test('an event stream lives on beyond both timeouts while it has heartbeats', async (t) => {
  behave = async (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders();
    await slowly((i) => res.write(`: ${i}\n\n`));
    res.end('data: done\n\n');
  };
  const { text, ms } = await ask({});
  t.match(text, /^HTTP\/1.1 200 [^]*data: done/);
  t.ok(ms > LIMIT, `${Math.round(ms)} ms`);
});

t.test('interim responses count as progress; silence after them does not', async (t) => {
  behave = async (_req, res) => {
    await slowly(() => res.writeProcessing());
    res.end('done');
  };
  t.match((await ask({})).text, /^HTTP\/1.1 200 [^]*done/);
  behave = (_req, res) => res.writeProcessing();
  t.match((await ask({})).text, /^HTTP\/1.1 504 /);
});

t.test('a slow body from the client is not a timeout of the upstream', async (t) => {
  behave = (req, res) => {
    let length = 0;
    req.on('data', (part: Buffer) => (length += part.length));
    req.on('end', () => res.end(`took ${length}`));
  };
  const { text } = await ask({
    fields: CHUNKED,
    write: async (send) => {
      await slowly(() => send(chunk('0123456789')));
      send('0\r\n\r\n');
    },
  });
  t.match(text, new RegExp(`^HTTP/1.1 200 [^]*took ${10 * PAUSES}`));
});

t.test('a client that pauses too long gets 408 by its own timeout', async (t) => {
  behave = (req) => req.resume();
  const { text, ms } = await ask({
    path: '/patient/x',
    fields: CHUNKED,
    write: async (send) => void send(chunk('0123456789')),
  });
  t.match(text, /^HTTP\/1.1 408 /);
  t.ok(ms >= 3 * LIMIT, `${Math.round(ms)} ms`);
});

t.test('response_timeout starts when the body is complete', async (t) => {
  behave = (req, res) => {
    req.resume();
    req.on('end', () => setTimeout(() => res.end('late'), LIMIT / 2));
  };
  const { text } = await ask({
    // Its client may pause for longer than its response may take.
    path: '/patient/x',
    fields: CHUNKED,
    write: async (send) => {
      send(chunk('0123456789'));
      await sleep(1.5 * LIMIT);
      send('0\r\n\r\n');
    },
  });
  t.match(text, /^HTTP\/1.1 200 [^]*late/);
});

t.test('waits for an upstream that reads a body slowly but steadily', async (t) => {
  behave = (req, res) => {
    let length = 0;
    let taken = 0;
    req.on('data', (part: Buffer) => {
      length += part.length;
      taken += part.length;
      if (taken < AT_ONCE) return;
      taken = 0;
      req.pause();
      setTimeout(() => req.resume(), PAUSE / 2);
    });
    req.on('end', () => res.end(`took ${length}`));
  };
  const { text } = await ask({
    fields: `Content-Length: ${MUCH}\r\n`,
    write: async (send) => void send('x'.repeat(MUCH)),
  });
  t.match(text, new RegExp(`^HTTP/1.1 200 [^]*took ${MUCH}`));
});

t.test('an upstream that stops reading a body: 504', async (t) => {
  behave = (req) => req.pause();
  const { text, ms } = await ask({
    fields: `Content-Length: ${MUCH}\r\n`,
    write: async (send) => void send('x'.repeat(MUCH)),
  });
  t.match(text, /^HTTP\/1.1 504 /);
  t.ok(ms >= LIMIT && ms < LIMIT + SLACK, `${Math.round(ms)} ms`);
});

t.test('forwards a slow response; aborts one that stalls, without a clean end', async (t) => {
  behave = async (_req, res) => {
    res.flushHeaders();
    await slowly((index) => res.write(`part ${index} `));
    res.end('end');
  };
  t.match((await ask({})).text, /^HTTP\/1.1 200 [^]*part 5 [^]*end[^]*0\r\n\r\n$/);
  behave = (_req, res) => void res.write('some');
  const { text, ms } = await ask({});
  t.match(text, /^HTTP\/1.1 200 [^]*some\r\n$/, 'the last chunk is missing');
  t.ok(ms >= LIMIT && ms < LIMIT + SLACK, `${Math.round(ms)} ms`);
  behave = (_req, res) => res.flushHeaders();
  t.match((await ask({})).text, /^HTTP\/1.1 200 [^]*\r\n\r\n$/, 'the same after a head only');
});

t.test('a client that reads slowly is not a timeout of the upstream', async (t) => {
  behave = (_req, res) => void res.end(Buffer.alloc(MUCH, 'x'));
  const { text } = await ask({}, (socket) => {
    void (async () => {
      for (let index = 0; index < PAUSES; index++) {
        socket.pause();
        await sleep(PAUSE);
        socket.resume();
        await sleep(10);
      }
    })();
  });
  t.ok(text.length > MUCH, `${text.length} bytes`);
});
