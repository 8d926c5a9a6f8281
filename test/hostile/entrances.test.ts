import t from 'tap';
import { selfSigned } from '../helpers/certificates.js';
import { startFixture } from '../helpers/fixture.js';
import { send } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { run, start, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { openRaw } from '../helpers/raw-client.mjs';

/*
 * A malformed request is refused at every entrance: HTTP/1.1, HTTP/2, a WebSocket handshake, each
 * protocol of the decision port, and `explain`.
 */

const folder = temporaryFolder(t);
const routes = [
  { path: '/open/*', auth: 'none' },
  { path: '/admin', auth: 'deny' },
  { path: '/admin/*', auth: 'deny' },
  { path: '/read', methods: ['GET'], auth: 'none' },
  { path: '/purge/*', auth: 'none' },
];
const listen = { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] };
const fixture = await startFixture(t, { listen, routes, decision: { host: '127.0.0.1', port: 0 } });
const { url, server, upstream, configFile } = fixture;
const tls = selfSigned(folder, 'a.example');
const overTls = await start(
  t,
  writeConfig(folder, { upstream: upstream.url, listen: { ...listen, tls }, admin: { port: 0 }, routes }),
);
const session = await openHttp2(t, overTls.url);

/** Sends exact bytes and returns the status. Headers for a WebSocket handshake may be added. */
function statusOf(target: string, host: string, more = ''): Promise<number> {
  return new Promise((resolve, reject) => {
    const bytes = Buffer.from(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${more}\r\n`);
    const { socket, text } = openRaw(url, { bytes });
    socket.on('data', () => {
      const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(text()) ?? [];
      if (status === undefined) return;
      socket.destroy();
      resolve(Number(status));
    });
    socket.on('error', reject);
    socket.on('end', () => reject(new Error(`no answer: ${text()}`)));
  });
}

const HANDSHAKE =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

/** Returns the status of a target, for each entrance that can carry it. */
const ENTRANCES: Record<string, (target: string) => Promise<number>> = {
  'HTTP/1.1': (target) => statusOf(target, 'a'),
  'HTTP/2': async (target) => (await sendHttp2(session, target)).status,
  handshake: (target) => statusOf(target, 'a', HANDSHAKE),
  nginx: async (target) =>
    (await send(server.decision, '/auth-request', { headers: { 'X-Original-Method': 'GET', 'X-Original-URI': target } })).status,
  'Traefik, Caddy': async (target) =>
    (await send(server.decision, '/forward-auth', { headers: { 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': target } })).status,
  Envoy: async (target) => (await send(server.decision, `/ext_authz${target}`)).status,
}; // prettier-ignore

t.test('refuses an ambiguous path at every entrance, and forwards it to no upstream', async (t) => {
  const before = upstream.received.length;
  const paths = [
    '/open/%c0%ae%c0%ae/admin', '/open/..%c0%af..%c0%afadmin', '/open/%e0%80%ae%e0%80%ae/x', '/open/%f0%80%80%ae/x', '/open/%c1%9c', '/open/%80',
    '/open/%ed%a0%80', '/open/%EF%BC%8E%EF%BC%8E/admin', '/open/%E2%80%A5/admin', '/open/%E3%80%82%E3%80%82/admin', '/open/a%EF%BC%BC..%EF%BC%BCb',
    '/open/%EF%BC%852e', '/open/%u002e%u002e/admin', '/%EF%BD%81dmin', '/%EF%BD%81%EF%BD%84min/x', '/admin%EF%BC%9Fx', '/admin%EF%BC%8Fx',
    '/ad%E2%80%8Bmin', '/open/%E2%88%95..%E2%88%95/x', '/open/%E2%81%84%E2%80%A4%E2%80%A4/x',
  ]; // prettier-ignore
  for (const path of paths)
    for (const [name, ask] of Object.entries(ENTRANCES)) {
      const wanted = ['nginx', 'Traefik, Caddy', 'Envoy'].includes(name) ? 403 : 400;
      t.equal(await ask(path), wanted, `${path} by ${name}`);
    }
  for (const path of paths.slice(0, 3)) {
    const told = await run(['explain', '--config', configFile, '--method', 'GET', '--path', path, '--anonymous', '--json']);
    t.match(JSON.parse(told.stdout), { verdict: { outcome: 'malformed', status: 400 } }, `${path} explained`);
  }
  t.equal(upstream.received.length, before);
}); // prettier-ignore

t.test('forwards paths of every language byte for byte', async (t) => {
  for (const path of [
    '/open/caf%C3%A9',
    '/open/cafe%cc%81',
    '/open/%e6%97%A5%E6%9C%AC',
    '/purge/http://www.example.com/a?x=1',
    '/purge/http://www.example.com/%EF%BD%81%EF%BC%9F%EF%BC%8Fa%E2%80%A6?x=%c0%ae',
  ]) {
    for (const [name, ask] of Object.entries(ENTRANCES)) {
      if (name === 'handshake') continue;
      t.equal(await ask(path), 200, `${path} by ${name}`);
      if (name.startsWith('HTTP')) t.equal(upstream.received.at(-1)?.target, path, `${path} by ${name}`);
    }
  }
});

t.test('a route for GET also serves HEAD', async (t) => {
  t.equal((await send(url, '/read', { method: 'HEAD' })).status, 200);
  t.equal((await sendHttp2(session, '/read', { method: 'HEAD' })).status, 200);
  t.equal((await send(server.decision, '/ext_authz/read', { method: 'HEAD' })).status, 200);
  t.equal((await send(url, '/read', { method: 'POST' })).status, 401);
  const asked = ['--method', 'HEAD', '--path', '/read', '--anonymous', '--json'];
  const { stdout } = await run(['explain', '--config', configFile, ...asked]);
  t.match(JSON.parse(stdout), {
    route: { path: '/read', methods: ['GET', 'HEAD'] },
    verdict: { allowed: true },
  });
});

const BAD_HOSTS = [
  'a:65536', 'a:99999', 'a:100000', 'a:0', 'a:00', 'a:080', 'a:', ':80', '', 'a:-1', 'a:+1', 'a:8 0', '[::::]', '[:]', '[.]', '[::1', '::1',
  '[1.2.3.4]', '[::1]:65536', '[::1]a', '[fe80::1%25eth0]', '[v1.a]', '[12345::]', 'a@b', 'a/b', 'a,b', 'a b', 'a\tb', 'a?b', 'a#b', 'a%41',
]; // prettier-ignore
const GOOD_HOSTS = [
  'a',
  'a:1',
  'a:80',
  'a:65535',
  'A.b-c_d~e:443',
  '127.0.0.1:8080',
  '[::1]',
  '[::1]:65535',
  '[::ffff:1.2.3.4]:1',
];

t.test('refuses an invalid host in every field that carries it', async (t) => {
  const forwarded = async (host: string) => statusOf('/open/x', 'a', `X-Forwarded-Host: ${host}\r\n`);
  for (const host of BAD_HOSTS) {
    t.equal(await statusOf('/open/x', host), 400, `Host: ${host}`);
    t.equal(await statusOf('/open/x', host, HANDSHAKE), 400, `Host: ${host} of a handshake`);
    if (host.trim() !== '') {
      // The last host of a list counts.
      if (!host.includes(',')) t.equal(await forwarded(host), 400, `X-Forwarded-Host: ${host}`);
      const asked = { 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/open/x', 'X-Forwarded-Host': `b, ${host.split(',').join('/')}` };
      t.equal((await send(server.decision, '/forward-auth', { headers: asked })).status, 403, `forward-auth: ${host}`);
    }
    // For an empty host, Node's client sends its own.
    if (host !== '') {
      const status = await sendHttp2(session, '/open/x', { headers: { ':authority': host } }).then(
        (reply) => reply.status,
        () => 400,
      );
      t.equal(status, 400, `:authority ${host}`);
    }
  }
  for (const host of GOOD_HOSTS) {
    t.equal(await statusOf('/open/x', host), 200, `Host: ${host}`);
    t.equal(await forwarded(host), 200, `X-Forwarded-Host: ${host}`);
    t.equal(upstream.received.at(-1)?.headers['x-forwarded-host'], host);
    const reply = await sendHttp2(session, '/open/x', { headers: { ':authority': host } });
    t.equal(reply.status, 200, `:authority ${host}`);
  }
}); // prettier-ignore

t.test('refuses an unknown scheme from a trusted proxy', async (t) => {
  const status = (proto: string) => statusOf('/open/x', 'a', `X-Forwarded-Proto: ${proto}\r\n`);
  for (const proto of ['gopher', 'https:', 'on', '1', 'http, javascript'])
    t.equal(await status(proto), 400, proto);
  for (const [proto, told] of Object.entries({
    https: 'https',
    HTTP: 'http',
    wss: 'https',
    'x, http': 'http',
  })) {
    t.equal(await status(proto), 200, proto);
    t.equal(upstream.received.at(-1)?.headers['x-forwarded-proto'], told);
  }
});

t.test('limits Connection to 100 options, across all of its fields', async (t) => {
  const fieldsOf = (...counts: number[]) =>
    counts.map((count) => `Connection: ${Array.from({ length: count }, (_, i) => `x${i}`).join()}\r\n`).join('');
  t.equal(await statusOf('/open/a', 'a', fieldsOf(100)), 200);
  t.equal(await statusOf('/open/a', 'a', fieldsOf(60, 40)), 200);
  t.equal(await statusOf('/open/a', 'a', fieldsOf(101)), 400);
  t.equal(await statusOf('/open/a', 'a', fieldsOf(60, 41)), 400);
  t.equal(await statusOf('/open/a', 'a', HANDSHAKE + fieldsOf(100)), 400, 'one more option than allowed, with that of the handshake');
}); // prettier-ignore

t.test('the limits of the fields and of the target do not depend on each other', async (t) => {
  const target = `/admin/${'a'.repeat(8_192 - 7)}`;
  for (const more of ['', HANDSHAKE]) {
    const used = Buffer.byteLength(`Host: a\r\n${more}X: \r\n`);
    const fill = (extra: number) => `${more}X: ${'b'.repeat(16_384 - used + extra)}\r\n`;
    for (const each of [target, '/admin/a']) t.equal(await statusOf(each, 'a', fill(0)), 404, 'at the limit');
    t.equal(await statusOf('/admin/a', 'a', fill(1)), 431, 'one byte more');
    t.equal(await statusOf(`${target}a`, 'a', more), 414);
  }
  const fields = { 'x-a': 'b'.repeat(8_000), 'x-b': 'b'.repeat(8_000) };
  t.equal((await sendHttp2(session, target, { headers: fields })).status, 404);
  t.equal((await sendHttp2(session, target, { headers: { ...fields, 'x-c': 'b'.repeat(400) } })).status, 431);
});
