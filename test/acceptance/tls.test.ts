import { once } from 'node:events';
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import type { ClientHttp2Session } from 'node:http2';
import { join } from 'node:path';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import t from 'tap';
import { parse, stringify } from 'yaml';
import { type ConfigError, formatFault } from '../../src/config/fault.js';
import { loadConfig, loadConfigToServe } from '../../src/config/load.js';
import { type Certificate, expired, issued, selfSigned } from '../helpers/certificates.js';
import { LEGACY_KEY, startFixture } from '../helpers/fixture.js';
import { freshMetrics, send, sendRaw } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { run, temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { EVERY_CASE } from '../helpers/nightly.js';
import { openRaw } from '../helpers/raw-client.mjs';
import { until } from '../helpers/until.js';

const folder = temporaryFolder(t);
const one = selfSigned(folder, 'one');
const two = selfSigned(folder, 'two');
const listen = (tls: object, more: object = {}) => ({ host: '127.0.0.1', port: 0, tls, ...more });
const key = { 'Service-Key': LEGACY_KEY };

/**
 * Completes a TLS handshake, or rejects. Under TLS 1.3 a server refuses a client only after the
 * client's side is complete, hence the request.
 */
function shakeHands(url: string, options: ConnectionOptions = {}): Promise<{ socket: TLSSocket; name: string }> {
  return new Promise((resolve, reject) => {
    const bytes = 'GET /status HTTP/1.1\r\nHost: a\r\n\r\n';
    const socket = openRaw(url, { bytes, tls: options }).socket as TLSSocket;
    socket.on('error', reject).on('close', () => reject(new Error('closed')));
    socket.on('data', () => resolve({ socket, name: socket.getPeerCertificate().subject.CN as string }));
  });
} // prettier-ignore

async function nameOf(url: string): Promise<string> {
  const { socket, name } = await shakeHands(url);
  socket.destroy();
  return name;
}

async function metric(admin: string, name: string): Promise<number> {
  const text = await freshMetrics(admin);
  return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(text)?.[1] ?? NaN);
}

t.test('reports unusable files with their position, and warns of an expired certificate', async (t) => {
  const broken = join(folder, 'broken.pem');
  writeFileSync(broken, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  const locked = join(folder, 'locked.pem');
  writeFileSync(locked, '-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n');
  const old = expired(folder, 'old');
  const half = join(folder, 'half.pem');
  writeFileSync(half, readFileSync(one.cert, 'utf8') + readFileSync(broken, 'utf8'));
  const rows: [object, number, RegExp][] = [
    [one, 0, /^$/],
    [{ ...one, client_ca: two.cert }, 0, /^$/],
    [{ cert: 'none.pem', key: one.key }, 1, /^\S+latchkey\.yaml:5:11: listen\.tls\.cert: file not found; write its path, relative to the folder of this file$/m],
    [{ cert: folder, key: one.key }, 1, /:5:11: listen\.tls\.cert: the file cannot be read: is a directory \(EISDIR\)$/m],
    [{ cert: broken, key: one.key }, 1, /:5:11: listen\.tls\.cert: certificate 1 of the file cannot be read$/m],
    [{ cert: half, key: one.key }, 1, /:5:11: listen\.tls\.cert: certificate 2 of the file cannot be read$/m],
    [{ cert: one.key, key: one.key }, 1, /:5:11: listen\.tls\.cert: the file has no certificate in PEM form/],
    [{ cert: one.cert, key: one.cert }, 1, /:6:10: listen\.tls\.key: the file has no private key in PEM form/],
    [{ cert: one.cert, key: locked }, 1, /:6:10: listen\.tls\.key: the key is encrypted/],
    [{ cert: one.cert, key: two.key }, 1, /:6:10: listen\.tls\.key: the key does not match the certificate/],
    [{ ...one, client_ca: one.key }, 1, /:7:16: listen\.tls\.client_ca: the file has no certificate/],
    [old, 0, /^certificate 1 in listen\.tls\.cert expired at \d{4}-\S+Z$/m],
  ];
  const place = temporaryFolder(t);
  for (const [tls, code, message] of rows) {
    const file = writeConfig(place, { upstream: 'http://127.0.0.1:1', listen: listen(tls) });
    let said = '';
    let refused = false;
    try {
      said = (loadConfigToServe(file).certificate?.warnings ?? []).join('\n');
    } catch (error) {
      refused = true;
      said = (error as ConfigError).faults.map(formatFault).join('\n');
    }
    t.equal(refused, code === 1, `${JSON.stringify(tls)} ${said}`);
    t.match(said, message);
  }
  const warned = await run(['check', '--config', writeConfig(place, { upstream: 'http://127.0.0.1:1', listen: listen(old) })]);
  t.equal(warned.code, 0);
  t.match(warned.stderr, /^\S+latchkey\.yaml: warning: certificate 1 in listen\.tls\.cert expired at /);
  const relative = writeConfig(folder, { upstream: 'http://127.0.0.1:1', listen: listen({ cert: 'one.pem', key: 'two.key.pem' }) });
  for (const command of ['check', 'serve']) {
    const { code, stderr } = await run([command, '--config', relative]);
    t.equal(code, 1);
    t.match(stderr, /latchkey\.yaml:6:10: listen\.tls\.key: the key does not match the certificate/, command);
  }
  t.doesNotThrow(() => loadConfig(relative), 'commands that only use the store need no key');
}); // prettier-ignore

for (const workers of EVERY_CASE ? [1, 2] : [1]) {
  t.test(`new files serve new connections, with ${workers} process(es)`, async (t) => {
    const files = temporaryFolder(t);
    // As Kubernetes and cert-manager do: file names that resolve through a swapped folder link.
    const place = (name: string, from: Certificate) => {
      mkdirSync(join(files, name));
      copyFileSync(from.cert, join(files, name, 'tls.pem'));
      copyFileSync(from.key, join(files, name, 'key.pem'));
    };
    const swap = (name: string) => {
      symlinkSync(name, join(files, '..data.new'));
      renameSync(join(files, '..data.new'), join(files, '..data'));
    };
    place('first', one);
    symlinkSync('first', join(files, '..data'));
    for (const name of ['tls.pem', 'key.pem']) symlinkSync(join('..data', name), join(files, name));
    const tls = { cert: join(files, 'tls.pem'), key: join(files, 'key.pem') };
    const { url, server, configFile } = await startFixture(t, { listen: listen(tls), workers });
    t.match(url, /^https:\/\/127\.0\.0\.1:\d+$/);
    t.equal((await run(['healthcheck', '--config', healthConfig(t, configFile, server.admin)])).code, 0);
    const sessions: ClientHttp2Session[] = [];
    for (let i = 0; i < 4; i++) sessions.push(await openHttp2(t, url));
    const kept = await shakeHands(url);
    t.equal(kept.name, 'one');
    const expiry = await metric(server.admin, 'latchkey_certificate_expiry_timestamp_seconds');
    t.ok(Math.abs(expiry - Date.now() / 1000 - 30 * 86_400) < 600, `${expiry} is 30 days away, and not a sum over workers`);

    const later = selfSigned(folder, `later${workers}`, ['-days', '60']);
    place('second', later);
    swap('second');
    await until(async () => (await nameOf(url)) === `later${workers}`, 'a swapped folder is noticed');
    for (let i = 0; i < 4; i++) t.equal(await nameOf(url), `later${workers}`, 'whichever process answers');
    t.ok((await metric(server.admin, 'latchkey_certificate_expiry_timestamp_seconds')) > expiry);

    rmSync(join(files, 'second', 'key.pem'));
    copyFileSync(one.key, join(files, 'second', 'key.pem'));
    const refused = await send(server.admin, '/-/reload', { method: 'POST' });
    t.equal(refused.status, 422);
    t.match(refused.json.faults[0], /listen\.tls\.key: the key does not match the certificate/);
    t.equal(await metric(server.admin, 'latchkey_config_last_reload_successful'), 0);
    t.equal(await nameOf(url), `later${workers}`, 'the old one is kept');

    copyFileSync(two.cert, join(files, 'second', 'tls.pem'));
    copyFileSync(two.key, join(files, 'second', 'key.pem'));
    server.signal('SIGHUP');
    await until(async () => (await nameOf(url)) === 'two', 'SIGHUP');
    t.equal(await metric(server.admin, 'latchkey_config_last_reload_successful'), 1);

    for (const session of sessions) t.equal((await sendHttp2(session, '/echo', { headers: key })).status, 200);
    const more = once(kept.socket, 'data');
    kept.socket.write('GET /tokens/self HTTP/1.1\r\nHost: a\r\n\r\n');
    t.match(String((await more)[0]), /^HTTP\/1\.1 401 /, 'open connections continue');
    kept.socket.destroy();

    const config = parse(readFileSync(configFile, 'utf8'));
    const reloadWith = async (tls: object | null) => {
      writeFileSync(configFile, stringify({ ...config, listen: listen(tls ?? {}) }).replace('tls: {}', 'tls: null'));
      return (await send(server.admin, '/-/reload', { method: 'POST' })).json;
    };
    t.same(await reloadWith(null), { reloaded: true, needs_restart: ['listen.tls'] });
    t.equal(await nameOf(url), 'two', 'TLS is not disabled');
    t.same(await reloadWith({ ...tls, client_ca: one.cert }), { reloaded: true, needs_restart: ['listen.tls.client_ca'] });
    t.equal(await nameOf(url), 'two', 'client certificates are not enabled');
    for (const session of sessions) session.destroy();
    t.equal((await server.stop()).code, 0);
  });
} // prettier-ignore

/** A copy of the configuration with the actual port of the admin listener. */
function healthConfig(t: { teardown: (fn: () => void) => void }, file: string, admin: string): string {
  const config = parse(readFileSync(file, 'utf8'));
  delete config.directory;
  return writeConfig(temporaryFolder(t), { ...config, admin: { port: Number(new URL(admin).port) } });
}

t.test('a missing client certificate, or one of another authority, fails the handshake', async (t) => {
  const authority = selfSigned(folder, 'authority');
  const other = selfSigned(folder, 'other');
  const client = issued(folder, 'client', 'authority');
  const stranger = issued(folder, 'stranger', 'other');
  const ca = join(folder, 'ca.pem');
  copyFileSync(authority.cert, ca);
  const { url, server, upstream } = await startFixture(t, { listen: listen({ ...one, client_ca: ca }) });
  const load = ({ cert, key }: Certificate) => ({ cert: readFileSync(cert), key: readFileSync(key) });
  for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
    await t.rejects(shakeHands(url, { maxVersion }), 'no certificate');
    await t.rejects(shakeHands(url, { maxVersion, ...load(stranger) }), 'another authority');
    (await shakeHands(url, { maxVersion, ...load(client) })).socket.destroy();
  }
  t.ok((await metric(server.admin, 'latchkey_tls_handshake_failures_total')) >= 4);
  const session = await openHttp2(t, url, load(client));
  t.equal((await sendHttp2(session, '/echo')).status, 401, 'it is not a credential');
  t.equal((await sendHttp2(session, '/echo', { headers: key })).status, 200);
  t.notMatch(JSON.stringify(upstream.received), /client|stranger/, 'it is not forwarded as identity');
  copyFileSync(other.cert, ca);
  t.equal((await send(server.admin, '/-/reload', { method: 'POST' })).status, 200);
  await t.rejects(shakeHands(url, load(client)), 'another authority after a reload');
  (await shakeHands(url, load(stranger))).socket.destroy();
});

/** Sends bytes that are not TLS, and measures when the connection ends. */
async function talkPlain(url: string, bytes: Buffer | string): Promise<{ got: string; ms: number }> {
  const startedAt = Date.now();
  const { text, closed } = openRaw(portOf(url), { bytes });
  await closed;
  return { got: text(), ms: Date.now() - startedAt };
}

/** The port, to talk to it without TLS. */
const portOf = (url: string) => Number(new URL(url).port);

const PROXY_V2 = Buffer.from('0d0a0d0a000d0a515549540a2111000c7f0000017f000001303901bb', 'hex');

t.test('closes connections without a TLS handshake; slow handshakes count and time out', async (t) => {
  const { url, server } = await startFixture(t, {
    listen: listen(one),
    limits: { head_timeout: '2s', connections: 8 },
  });
  for (const bytes of ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n\r\n', PROXY_V2, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n']) {
    const { got, ms } = await talkPlain(url, bytes);
    t.notMatch(got, /HTTP/, 'no plain-text response');
    t.ok(ms < 20_000);
  }
  const failed = await metric(server.admin, 'latchkey_tls_handshake_failures_total');
  t.ok(failed >= 4);
  t.notMatch(server.stdout(), /"level":[456]0/, 'nothing is logged');
  // The start of a handshake that never continues.
  const bytes = Buffer.from('16030100c8', 'hex');
  const slow = Array.from({ length: 8 }, () => openRaw(portOf(url), { bytes }));
  await until(async () => (await metric(server.admin, 'latchkey_connections')) === 8, 'they are counted');
  await t.rejects(nameOf(url), 'refused at the limit');
  t.equal(await metric(server.admin, 'latchkey_connections_refused_total'), 1);
  await Promise.all(slow.map(({ closed }) => closed));
  await until(async () => (await metric(server.admin, 'latchkey_connections')) === 0, 'they time out');
  t.equal(await nameOf(url), 'one');
  // The server may stop before it has accepted this connection.
  openRaw(portOf(url), { reads: false });
  t.equal((await server.stop()).code, 0, 'the drain does not wait for them');
}); // prettier-ignore

t.test('the PROXY protocol is off', async (t) => {
  const { url, upstream } = await startFixture(t);
  for (const bytes of ['PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n', PROXY_V2.toString('latin1')])
    t.match(await sendRaw(url, bytes, 2_000), /^HTTP\/1\.1 400 /, JSON.stringify(bytes));
  t.same(upstream.received, []);
}); // prettier-ignore

t.test('trusts X-Forwarded-* only from trusted proxies, also with its own TLS', async (t) => {
  const sent = { ...key, 'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Proto': 'http', 'X-Forwarded-Host': 'api.example.com' };
  for (const [trusted_proxies, wanted] of [
    [[], { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'https' }],
    [['10.0.0.0/8'], { 'x-forwarded-for': '127.0.0.1', 'x-forwarded-proto': 'https' }],
    [['127.0.0.1'], { 'x-forwarded-for': '203.0.113.7, 127.0.0.1', 'x-forwarded-proto': 'http', 'x-forwarded-host': 'api.example.com' }],
  ] as const) {
    const { url, upstream } = await startFixture(t, { listen: listen(one, { trusted_proxies }) });
    const session = await openHttp2(t, url);
    t.equal((await sendHttp2(session, '/echo', { headers: sent })).status, 200);
    t.equal((await send(url, '/echo', { headers: sent })).status, 200);
    const host = { 'x-forwarded-host': new URL(url).host };
    for (const { headers } of upstream.received) t.match(headers, { ...host, ...wanted }, trusted_proxies.join());
    t.equal(upstream.received.length, 2);
  }
}); // prettier-ignore
