import { once } from 'node:events';
import { chmodSync, linkSync, mkdirSync, writeFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Address } from '../../src/upstream/address.js';
import { causeOf } from '../../src/upstream/faults.js';
import type { ResponseHandler } from '../../src/upstream/upstream-request.js';
import { serveHttp, serveTcp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { GET } from '../helpers/upstream-request.js';
import { until } from '../helpers/until.js';

const CONNECTIONS = 60;

/** Keep-alive time of a server that names none, in milliseconds. */
const USUAL_MS = 5_000;

function answered(onResponseEnd: () => void): ResponseHandler {
  return {
    connection: undefined,
    onRequestStart: () => undefined,
    onInformational: () => undefined,
    onResponseStart: () => undefined,
    onReadEnd: () => undefined,
    onResponseData: () => undefined,
    onResponseEnd,
    onResponseError: (error) => {
      throw error;
    },
  };
}

/**
 * Opens many connections at once, one for each request.
 *
 * @param named whether the server sends its keep-alive time, which is {@link USUAL_MS} either way
 * @returns when each connection closed, in ms since its last use, and how many the client closed
 */
async function idleTimes(t: Test, named: boolean): Promise<{ times: number[]; byClient: number }> {
  const usedAt = new Map<Socket, number>();
  const closed: number[] = [];
  let byClient = 0;
  const answer: RequestListener = (req, res) => {
    // With this header, Node adds no Keep-Alive.
    if (!named) res.setHeader('Connection', 'keep-alive');
    setTimeout(() => res.end('x'), 300);
    res.once('finish', () => usedAt.set(req.socket, performance.now()));
  };
  const { url, server } = await serveHttp(t, answer, { keepAliveTimeout: USUAL_MS });
  server.on('connection', (socket: Socket) => {
    socket.once('end', () => (byClient += 1));
    socket.once('close', () => closed.push(performance.now() - (usedAt.get(socket) ?? Infinity)));
  });
  const address = new Address(url, { connect_timeout: 2_000, tls: null });
  await Promise.all(
    Array.from(
      { length: CONNECTIONS },
      () => new Promise<void>((done) => address.pool.dispatch(GET, answered(done))),
    ),
  );
  await until(() => closed.length === CONNECTIONS, 'idle connections close');
  address.pool.destroy();
  return { times: closed.toSorted((a, b) => a - b), byClient };
}

t.test('idle connections close before their server closes them, and not all at once', async (t) => {
  const rows = [
    ['a server that names no time', false, 3_300],
    ['a server that names its time: some two seconds earlier', true, 2_300],
  ] as const;
  const idle = rows.map(async ([what, named, least]) => {
    const { times, byClient } = await idleTimes(t, named);
    const [first, last] = [times.at(0) ?? 0, times.at(-1) ?? 0];
    t.ok(first > least, `${what}: the first after ${Math.round(first)} ms`);
    t.equal(byClient, CONNECTIONS, `${what}: the last after ${Math.round(last)} ms`);
    t.ok(last - first > 200, `${what}: over ${Math.round(last - first)} ms`);
  });
  await Promise.all(idle);
});

const NOBODY = 65_534;

/** Opens a connection to a Unix socket. Resolves to the reason if that fails. */
function opening(path: string, connect_timeout = 2_000): Promise<string> {
  const { connect: open } = new Address(`unix://${path}`, { connect_timeout, tls: null });
  return new Promise((done) =>
    open((opened) => {
      if (opened instanceof Error) done(causeOf(opened));
      else {
        opened.destroy();
        done('open');
      }
    }),
  );
}

t.test('explains why a Unix socket cannot be connected to', async (t) => {
  const folder = temporaryFolder(t);
  const at = (name: string) => join(folder, name);
  writeFileSync(at('file'), '');
  mkdirSync(at('locked'));
  await serveTcp(t, () => undefined, at('locked/socket'));
  await serveTcp(t, () => undefined, at('open'));
  // A killed server leaves its socket behind.
  const { server } = await serveTcp(t, () => undefined, at('killed'));
  linkSync(at('killed'), at('left'));
  await new Promise((done) => server.close(done));
  for (const [name, reason] of [
    ['open', /^open$/],
    ['none', /^connect ENOENT .*\/none; the socket does not exist; the upstream creates it/],
    ['file', /^connect ECONNREFUSED .*\/file$/],
    ['file/socket', /^connect ENOTDIR .*\/file\/socket$/],
    ['left', /^connect ECONNREFUSED .*\/left$/],
  ] as const)
    t.match(await opening(at(name)), reason);
  chmodSync(folder, 0o755);
  chmodSync(at('locked'), 0o700);
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(NOBODY);
  else chmodSync(at('locked'), 0);
  const denied = opening(at('locked/socket'));
  if (isRoot) process.seteuid?.(0);
  t.match(await denied, /^connect EACCES .*; this user needs write permission for the socket and search permission/);
  chmodSync(at('locked'), 0o700);
}); // prettier-ignore

t.test('finds a recreated Unix socket by its path', async (t) => {
  const path = join(temporaryFolder(t), 'socket');
  for (let i = 0; i < 3; i++) {
    const server = createServer().listen(path);
    await once(server, 'listening');
    t.equal(await opening(path), 'open');
    await new Promise((done) => server.close(done));
    t.match(await opening(path), /ENOENT/);
  }
});
