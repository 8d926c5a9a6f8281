import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { send, serveTcp } from '../helpers/http.js';
import { openHttp2 } from '../helpers/http2.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

/*
 * Clients that send a request and reset the connection before the server, which is stopped
 * meanwhile, has seen either. The kernel then no longer tells the client's address, on which
 * X-Forwarded-For, the audit log and the rate limits of logins depend: no request has an effect
 * without one.
 */

/** Time for bytes to reach the server's socket. */
const FLUSH_MS = 50;

const decision = { host: '127.0.0.1', port: 0 };
const plain = await startFixture(t, { decision }, { isolated: true });
const tls = selfSigned(temporaryFolder(t), 'a.example');
const overTls = await startFixture(t, { listen: { host: '127.0.0.1', port: 0, tls } }, { isolated: true });

/**
 * Acts while the server does nothing, and waits until it has handled what came meanwhile. Returns
 * the addresses of the clients that it logged for it, and those that it told the upstream.
 */
async function whileStopped(fixture: typeof plain, act: () => Promise<void>) {
  const { server, upstream } = fixture;
  const logged = await mark(fixture);
  const received = upstream.received.length;
  process.kill(server.pid, 'SIGSTOP');
  await act().finally(() => process.kill(server.pid, 'SIGCONT'));
  const end = await mark(fixture);
  const lines = server.stdout().slice(logged, end).split('\n').slice(1, -1);
  const records = lines.map((line) => JSON.parse(line) as { client?: string; path?: string });
  return {
    logged: records.filter(({ path }) => path !== undefined).map(({ client }) => client),
    told: upstream.received.slice(received).map(({ headers }) => headers['x-forwarded-for']),
  };
}

/** Sends a request and returns where its line of the log begins. */
async function mark({ server }: typeof plain): Promise<number> {
  const path = `/mark-${performance.now()}`;
  await send(server.url, path);
  await until(() => server.stdout().includes(path), 'the request is logged');
  return server.stdout().lastIndexOf('\n', server.stdout().indexOf(path)) + 1;
}

/** Listens in front of a server. `reset` ends its last connection to the server with a reset. */
async function relayTo(t: Test, url: string): Promise<{ url: string; reset: () => void }> {
  let onward: Socket | undefined;
  const relay = await serveTcp(t, (socket) => {
    onward = openRaw(Number(new URL(url).port), { onData: (chunk) => socket.write(chunk) }).socket;
    socket.pipe(onward);
  });
  return { url: relay.url, reset: () => onward?.resetAndDestroy() };
}

/** Sends bytes and resets the connection. */
async function sendAndReset(socket: Socket, bytes: string): Promise<void> {
  await new Promise((sent) => socket.write(bytes, 'latin1', sent));
  socket.resetAndDestroy();
}

t.test('a connection reset before it is accepted has no effect', async (t) => {
  const key = await plain.token('superuser');
  const doomed = await plain.token('superuser', { name: 'doomed' });
  const body = new URLSearchParams({ user: 'superuser@example.com', password: PASSWORD }).toString();
  const head = (line: string, more = '') => `${line} HTTP/1.1\r\nHost: a\r\n${more}`;
  const requests = [
    head('GET /x', `Service-Key: ${key}\r\n\r\n`),
    head('POST /x', `Service-Key: ${key}\r\nContent-Length: 2\r\n\r\nok`),
    head('DELETE /tokens/self', `Service-Key: ${doomed}\r\n\r\n`),
    head('POST /login', `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n${body}`),
    head('GET /auth-request', `Service-Key: ${key}\r\nX-Original-Method: GET\r\nX-Original-URI: /x\r\n\r\n`),
  ]; // prettier-ignore
  const effects = await whileStopped(plain, async () => {
    for (const url of [plain.url, plain.server.decision])
      for (const request of requests) {
        const { socket } = openRaw(url);
        await once(socket, 'connect');
        await sendAndReset(socket, request);
      }
  });
  t.same(effects, { logged: [], told: [] });
  t.equal((await send(plain.url, '/x', { headers: { 'Service-Key': doomed } })).status, 200, 'not revoked');
});

t.test('an accepted connection that is reset keeps its address', async (t) => {
  for (const fixture of [plain, overTls])
    for (const isUsed of [true, false]) {
      const key = await fixture.token('superuser');
      const relay = await relayTo(t, fixture.url);
      const request = `GET /x HTTP/1.1\r\nHost: a\r\nService-Key: ${key}\r\n\r\n`;
      const scheme = fixture.url.startsWith('https') ? 'https' : 'http';
      const client = openRaw(relay.url.replace('http', scheme));
      if (isUsed) {
        client.write(request);
        await until(() => client.text().includes('200 OK'), 'a first response');
      } else await sleep(FLUSH_MS);
      await checkReset(t, fixture, relay.reset, () => void client.write(request));
    }
});

t.test('so does an HTTP/2 connection', async (t) => {
  const headers = { ':path': '/x', 'service-key': await overTls.token('superuser') };
  const relay = await relayTo(t, overTls.url);
  const session = await openHttp2(t, relay.url.replace('http', 'https'));
  const first = session.request(headers);
  t.match(await once(first, 'response'), [{ ':status': 200 }]);
  await checkReset(t, overTls, relay.reset, () => {
    session
      .request(headers)
      .on('error', () => undefined)
      .end();
  });
});

/** Checks the addresses of a request that is followed by a reset while the server is stopped. */
async function checkReset(t: Test, fixture: typeof plain, reset: () => void, ask: () => void) {
  const { logged, told } = await whileStopped(fixture, async () => {
    ask();
    await sleep(FLUSH_MS);
    reset();
  });
  t.same(new Set([...logged, ...told, '127.0.0.1']), new Set(['127.0.0.1']), fixture.url);
}
