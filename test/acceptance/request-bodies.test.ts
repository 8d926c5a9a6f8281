import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import t from 'tap';
import { PASSWORD, startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { nightly } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

const MIB = 1024 * 1024;

t.test('limits unauthenticated bodies in total bytes and number', async (t) => {
  const { url, create, token } = await startFixture(t, { limits: { body_size: '16MiB', body_timeout: '60s' } });
  const headers = { 'Service-Key': await token('superuser') };
  const revoked = await token('superuser');
  const sockets: Socket[] = [];
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  /**
   * Starts a login with an incomplete body. Resolves to a function that returns the response so
   * far.
   */
  const begin = async (path: string, bytes: number) => {
    const { socket, text } = openRaw(url);
    sockets.push(socket);
    await once(socket, 'connect');
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${16 * MIB}\r\n\r\n`);
    socket.write(Buffer.alloc(bytes, 32));
    return text;
  };
  /** Logs in from another address of this machine. Returns the status. */
  const loginFrom = async (localAddress: string) => {
    const body = new URLSearchParams({ user: 'superuser@example.com', password: PASSWORD }).toString();
    const sent = request(`${url}/login`, { method: 'POST', localAddress, headers: { 'Content-Type': 'application/x-www-form-urlencoded' } });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    return response.statusCode;
  };
  const endAll = async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await until(async () => (await create('superuser')).status === 200, 'accepted again');
  };

  await t.test('bytes', async (t) => {
    const answers: (() => string)[] = [];
    for (const path of ['/login', '/tokens', '/login']) answers.push(await begin(path, 12 * MIB));
    await until(() => answers.some((answer) => answer() !== ''), 'a refusal');
    t.same(answers.map((answer) => /^HTTP\/1.1 (\d+)/.exec(answer())?.[1] ?? '').toSorted(), ['', '', '503'], 'only the one over the limit');
    const own = await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': revoked } });
    t.equal(own.status, 204, 'a revocation is accepted');
    await endAll();
  });

  await t.test('number', nightly, async (t) => {
    for (let i = 0; i < 1_024; i++) await begin('/login', 1);
    await until(async () => (await create('superuser')).status === 503, 'a refusal');
    t.match((await create('superuser')).json, { detail: 'Too many request bodies at once' });
    t.equal((await send(url, '/service/SVC1', { headers })).status, 200, 'tokens are served');
    t.equal(await loginFrom('127.0.0.2'), 200, 'another client can log in');
    await endAll();
  });
}); // prettier-ignore
