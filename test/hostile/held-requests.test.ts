import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { openLmdbStore } from '../../src/store/lmdb.js';
import { openRedisStore } from '../../src/store/redis.js';
import type { Store } from '../../src/store/core/store.js';
import { client, directory } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { redisSettings, startRedis } from '../helpers/redis.js';
import { until } from '../helpers/until.js';
import { acceptOf } from '../helpers/wire.mjs';

/*
 * A request that waits, for its body or for its upstream, while its credential or permission ends:
 * it is refused, and changes nothing. Endpoints are those of the OpenAPI document, so a new one is
 * included.
 */

const KEY = 'dGhlIHNhbXBsZSBub25jZQ==';
const HANDSHAKE = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n`;
const OPENED = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptOf(KEY)}\r\n\r\n`;
/** Time in which a request that should wait would be answered or forwarded. */
const ADMITTED_MS = 100;
/** Sent to a request that is admitted and waits for its body. */
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n';
const PASSWORD = 'password=correct+horse+battery+staple';

interface Operation {
  readonly method: string;
  readonly path: string;
}

/** Every operation of the interface that may have a body, except those that need no credential. */
const document = JSON.parse(readFileSync(join(import.meta.dirname, '../../docs/openapi.json'), 'utf8')) as {
  paths: Record<string, Record<string, unknown>>;
};
const OPERATIONS: readonly Operation[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.keys(methods)
    .filter((method) => ['post', 'patch', 'put', 'delete'].includes(method))
    .map((method) => ({ method: method.toUpperCase(), path }))
    .filter(({ method, path: of }) => method !== 'POST' || !['/login', '/tokens'].includes(of)),
);

/** What a caller sends, and the names of what it may lose. */
interface Caller {
  readonly field: string;
  /** The path of a token that the caller may change. */
  readonly tokenPath: string;
  readonly id: string;
}

/** Ends a caller's credential. */
type End = (server: Held, caller: Caller) => Promise<unknown>;
type Held = Awaited<ReturnType<typeof startHeld>>;

const headerOf = ({ field }: Caller): Record<string, string> => {
  const at = field.indexOf(': ');
  return { [field.slice(0, at)]: field.slice(at + 2) };
};
const lock: End = async ({ store }) => {
  const user = await store.directory.getUserByLogin('superuser@example.com');
  if (user === undefined) throw new Error('no user');
  await store.directory.change({ users: [{ ...user, locked: true, lockedBy: 'operator', updatedAt: user.updatedAt + 1 }] }, Date.now());
}; // prettier-ignore
const unlock = async (store: Store) => {
  const user = await store.directory.getUserByLogin('superuser@example.com');
  if (user?.locked !== true) return;
  await store.directory.change({ users: [{ ...user, locked: false, updatedAt: user.updatedAt + 1 }] }, Date.now());
}; // prettier-ignore
const ENDS: readonly [string, 'token' | 'session', End][] = [
  ['its token is revoked', 'token', ({ url }, caller) => send(url, '/tokens/self', { method: 'DELETE', headers: headerOf(caller) })],
  ['its session ends', 'session', ({ url }, caller) => send(url, '/logout', { method: 'POST', headers: headerOf(caller) })],
  ['its user is locked', 'token', lock],
  ['its user is locked', 'session', lock],
]; // prettier-ignore

/** Starts a server whose one upstream accepts one connection, and answers only when told. */
async function startHeld(t: Test, config: object, open: () => Promise<Store> | Store) {
  const received: string[] = [];
  const waiting: (() => void)[] = [];
  const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req: IncomingMessage, res: ServerResponse) => {
    received.push(req.url ?? '');
    waiting.push(() => res.end('ok'));
  });
  upstream.on('upgrade', (req: IncomingMessage, socket: Duplex) => {
    received.push(req.url ?? '');
    socket.on('data', (data: Buffer) => received.push(`${req.url} ${data.toString()}`)).on('error', () => undefined);
    waiting.push(() => socket.write(OPENED));
  });
  const settings = {
    upstream: undefined,
    upstreams: { api: { url: upstreamUrl, max_connections: 1 } },
    default_route: { action: 'api', upstream: 'api' },
    interface: { token_endpoints: 'session_or_token', account_endpoints: true },
    ...config,
  };
  const folder = temporaryFolder(t);
  const { url, admin } = await start(t, writeConfig(folder, settings, await directory()));
  const store = await open();
  t.teardown(async () => store.maintenance.close());
  const { login, create } = client(url);
  const caller = async (kind: 'token' | 'session'): Promise<Caller> => {
    const [own, other] = [await create('superuser'), await create('superuser')];
    const field = kind === 'token' ? `Service-Key: ${own.json.access_token}` : `Cookie: ${await login('superuser')}`;
    return { field, tokenPath: `/tokens/${other.json.id}`, id: other.json.id as string };
  };
  const reload = async (policy: object) => {
    writeConfig(folder, { ...settings, ...policy });
    const reply = await send(admin, '/-/reload', { method: 'POST' });
    if (reply.status !== 200) throw new Error(reply.text);
  };
  return { url, store, caller, reload, received, release: () => waiting.splice(0).forEach((answer) => answer()) };
} // prettier-ignore

async function holds(t: Test, config: object, open: () => Promise<Store> | Store): Promise<void> {
  const server = await startHeld(t, config, open);
  const { url, store, caller, received, release, reload } = server;
  /** Sends a head and withholds the body; resolves when the request is refused or waits for it. */
  const hold = async (each: Caller, { method, path }: Operation) => {
    const target = path.replace('{id}', each.id);
    const body = target === '/sudo' ? PASSWORD : '{}';
    const type = target === '/sudo' ? 'application/x-www-form-urlencoded' : 'application/json';
    const raw = openRaw(url, {
      bytes: `${method} ${target} HTTP/1.1\r\nHost: a\r\n${each.field}\r\nContent-Type: ${type}\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
    });
    await until(() => raw.ended || raw.text().includes('\r\n\r\n'), `${method} ${path}`);
    return { raw, body, about: `${method} ${path}` };
  };
  const statusOf = async (raw: ReturnType<typeof openRaw>, about: string): Promise<number> => {
    const text = () => raw.text().replace(CONTINUE, '');
    await until(() => raw.ended || text().includes('\r\n\r\n'), about);
    raw.socket.destroy();
    return Number(text().slice(9, 12));
  };

  for (const [about, kind, end] of ENDS)
    t.test(`withholds its body until ${about}: ${kind}`, async (t) => {
      const held = await Promise.all(
        OPERATIONS.map(async (operation) => {
          const each = await caller(kind);
          const before = await store.tokens.get(each.id);
          return { ...(await hold(each, operation)), each, before };
        }),
      );
      const waiting = held.filter(({ raw }) => raw.text() === CONTINUE);
      for (const { each } of waiting) await end(server, each);
      for (const { raw, body, about, each, before } of waiting) {
        raw.write(body);
        t.equal(await statusOf(raw, about), 401, about);
        t.same(await store.tokens.get(each.id), before, `${about} changes nothing`);
      }
      for (const { raw } of held) raw.socket.destroy();
      await unlock(store);
      t.ok(waiting.length >= 5, `${waiting.length} operations waited`);
    });

  for (const [about, kind, end] of ENDS)
    for (const [what, fields] of [['request', ''], ['WebSocket handshake', HANDSHAKE]] as const)
      t.test(`a ${what} waits for its upstream until ${about}: ${kind}`, async (t) => {
        const [first, second] = [await caller('token'), await caller(kind)];
        const bytes = (each: Caller, path: string, more: string) =>
          `GET ${path} HTTP/1.1\r\nHost: a\r\n${each.field}\r\n${more}\r\n`;
        received.length = 0;
        const taken = openRaw(url, { bytes: bytes(first, '/first', '') });
        await until(() => received.includes('/first'), 'the only connection is in use');
        const queued = openRaw(url, { bytes: `${bytes(second, '/queued', fields)}${fields === '' ? '' : 'frame'}` });
        await sleep(ADMITTED_MS);
        t.equal(queued.text(), '', 'it waits');
        await end(server, second);
        t.equal(await statusOf(queued, 'refused'), 401);
        release();
        await sleep(ADMITTED_MS);
        t.same(received, ['/first'], 'the upstream receives nothing of it');
        taken.socket.destroy();
        await unlock(store);
      });

  t.test('withholds its body until the policy is narrowed', async (t) => {
    const each = await caller('session');
    const before = await store.tokens.get(each.id);
    const request = await hold(each, { method: 'PATCH', path: '/tokens/{id}' });
    t.equal(request.raw.text(), CONTINUE, 'it waits');
    await reload({ policy: { roles: { superuser: { allow: ['*:read'] } } } });
    request.raw.write('{}');
    t.equal(await statusOf(request.raw, 'refused'), 403);
    t.same(await store.tokens.get(each.id), before);
    await reload({});
  });

  t.test('a WebSocket handshake waits for its response until its token is revoked', async (t) => {
    const each = await caller('token');
    received.length = 0;
    const bytes = `GET /slow HTTP/1.1\r\nHost: a\r\n${each.field}\r\n${HANDSHAKE}\r\nframe`;
    const raw = openRaw(url, { bytes });
    await until(() => received.includes('/slow'), 'the upstream has the handshake');
    await send(url, '/tokens/self', { method: 'DELETE', headers: headerOf(each) });
    t.equal(await statusOf(raw, 'refused'), 401);
    release();
    await sleep(ADMITTED_MS);
    t.same(received, ['/slow'], 'the upstream receives no frame');
  });
} // prettier-ignore

t.test('with the embedded store', async (t) => {
  const path = join(temporaryFolder(t), 'store');
  await holds(t, { store: { type: 'lmdb', path } }, () => openLmdbStore(path));
});

t.test('with Redis', async (t) => {
  const redis = await startRedis(t);
  await holds(t, { store: { type: 'redis', url: redis.url, sealing_key: '00'.repeat(32) } }, () => openRedisStore(redisSettings({ url: redis.url })));
}); // prettier-ignore
