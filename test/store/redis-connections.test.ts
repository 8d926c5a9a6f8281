import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';
import type { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { connectionTo, connectionToElector, open } from '../../src/store/redis/connect.js';
import { asUnavailable } from '../../src/store/redis/changes.js';
import { selfSigned } from '../helpers/certificates.js';
import { serveTcp } from '../helpers/http.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { redisSettings } from '../helpers/redis.js';
import { until } from '../helpers/until.js';

const folder = temporaryFolder(t);
const CERTIFICATES = { earlier: selfSigned(folder, 'earlier'), renewed: selfSigned(folder, 'renewed') };
type Name = keyof typeof CERTIFICATES;

/** A reply of Redis to `INFO`. */
const info = (text: string) => `$${text.length}\r\n${text}\r\n`;

/** Serves TLS as Redis would, with a certificate, and accepts clients that present the same one. */
async function startServer(t: Test, name: Name, port = 0) {
  const [cert, key] = [readFileSync(CERTIFICATES[name].cert), readFileSync(CERTIFICATES[name].key)];
  const server = createServer({ cert, key, ca: cert, requestCert: true });
  const sockets = new Set<TLSSocket>();
  const names: (string | false | null)[] = [];
  server.on('secureConnection', (socket) => {
    names.push(socket.servername);
    sockets.add(socket.on('error', () => undefined).on('data', () => socket.write(info('loading:0'))));
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const close = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => server.close(done));
  };
  t.teardown(close);
  return { port: (server.address() as AddressInfo).port, names, close };
}

/** Writes the files that a configuration names; without a name, ones that cannot be used. */
function writeFiles(files: string, name?: Name) {
  const tls = { ca: `${files}-ca.pem`, cert: `${files}.pem`, key: `${files}.key.pem`, server_name: null };
  if (name === undefined) writeFileSync(tls.key, 'half of a file');
  else {
    copyFileSync(CERTIFICATES[name].cert, tls.ca);
    copyFileSync(CERTIFICATES[name].cert, tls.cert);
    copyFileSync(CERTIFICATES[name].key, tls.key);
  }
  return tls;
}

t.test('renewed certificates are used for the next connection to a sentinel or cluster node', async (t) => {
  const first = await startServer(t, 'earlier');
  const files = join(folder, 'elector');
  const address = { host: '127.0.0.1', port: first.port };
  const redis = connectionToElector(address, redisSettings({ tls: writeFiles(files, 'earlier') }), 2_000);
  t.teardown(() => redis.disconnect());
  const isReady = () => redis.status === 'ready';
  await until(isReady, 'connected with the first certificates');
  writeFiles(files);
  await first.close();
  await once(redis, 'reconnecting');
  t.not(redis.status, 'end', 'files that are being replaced do not end the attempts');
  writeFiles(files, 'renewed');
  await startServer(t, 'renewed', first.port);
  await until(isReady, 'connected with the renewed certificates');
});

t.test('a server is told the name by which it is addressed', async (t) => {
  const { port, names } = await startServer(t, 'earlier');
  const tls = writeFiles(join(folder, 'named'), 'earlier');
  for (const [host, name, expected] of [
    ['localhost', null, 'localhost'],
    ['127.0.0.1', null, false],
    ['127.0.0.1', 'earlier', 'earlier'],
    ['localhost', 'earlier', 'earlier'],
  ] as const) {
    const redis: Redis = connectionTo({ host, port, tls: {} }, redisSettings({ tls: { ...tls, server_name: name } }), { family: 4, connectionName: '' });
    await open(redis);
    redis.disconnect();
    t.equal(names.at(-1), expected, `${host}, server_name ${name}`);
  }
}); // prettier-ignore

t.test('a server that cannot be used yet, or not by this user, is the cause', async (t) => {
  const { warn } = console;
  let warnings = 0;
  console.warn = () => void (warnings += 1);
  t.teardown(() => (console.warn = warn));
  for (const [reply, expected] of [
    [info('# Persistence\r\nloading:1\r\n'), /^Redis is unavailable \(.*: the server is loading its data\)$/],
    [
      "-NOPERM this user has no permissions to run the 'info' command\r\n",
      /^the Redis user lacks a permission of those in docs\/storage\.md \(.*NOPERM .*'info' command\)$/,
    ],
    ['-NOAUTH Authentication required.\r\n', /^Redis is unavailable \(.*NOAUTH /],
  ] as const) {
    const { url } = await serveTcp(t, (socket) => void socket.on('data', () => socket.write(reply)));
    const { hostname: host, port } = new URL(url);
    const redis = connectionTo({ host, port: Number(port) }, redisSettings({}), { connectionName: '' });
    await t.rejects(open(redis).catch((error: unknown) => Promise.reject(asUnavailable(error))), { message: expected });
    redis.disconnect();
  }
  t.equal(warnings, 0, 'the library prints nothing');
}); // prettier-ignore

t.test('files that cannot be used are named as the cause', async (t) => {
  const tls = writeFiles(join(folder, 'broken'), 'earlier');
  writeFiles(join(folder, 'broken'));
  t.throws(
    () => connectionTo({ host: '127.0.0.1', port: 1 }, redisSettings({ tls })),
    /^the files of store\.tls cannot be used: /,
  );
});
