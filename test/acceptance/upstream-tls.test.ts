import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, RequestListener } from 'node:http';
import type { ServerOptions } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { join } from 'node:path';
import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { ConfigError, formatFault } from '../../src/config/fault.js';
import { loadConfig } from '../../src/config/load.js';
import { needPackages, runs } from '../helpers/debian.js';
import { startFixture } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { temporaryFolder, writeConfig } from '../helpers/latchkey.js';
import { until } from '../helpers/until.js';

needPackages(() => runs('openssl', 'version'), 'openssl');
const folder = temporaryFolder(t);
const path = (name: string) => join(folder, name);
const openssl = (...args: string[]) => void execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });

function authority(name: string): void {
  openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30', '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.pem`);
} // prettier-ignore

/** Creates a certificate issued by an authority. @param names its subject alternative names */
function certificate(name: string, by: string, names: string, days = 30): void {
  writeFileSync(path(`${name}.ext`), `subjectAltName=${names}\n`);
  openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`);
  openssl('x509', '-req', '-in', `${name}.csr`, '-CA', `${by}.pem`, '-CAkey', `${by}.key`, '-CAcreateserial', '-days', String(days), '-extfile', `${name}.ext`, '-out', `${name}.pem`);
} // prettier-ignore

authority('ca');
authority('other-ca');
certificate('server', 'ca', 'DNS:localhost,IP:127.0.0.1');
certificate('named', 'ca', 'DNS:api.internal');
certificate('expired', 'ca', 'DNS:localhost', -1);
certificate('client', 'ca', 'DNS:client');
const pem = (name: string) => readFileSync(path(name));

const sockets = new WebSocketServer({ noServer: true });
t.teardown(() => sockets.clients.forEach((client) => client.terminate()));
/** The TLS parameters and the Host field of the latest request. */
let last: { sni: unknown; client: string | undefined; host: string | undefined } | undefined;
const connections = new Map<string, number>();

function note(req: IncomingMessage): void {
  const socket = req.socket as TLSSocket;
  last = {
    sni: (socket as TLSSocket & { servername?: unknown }).servername,
    client: socket.getPeerCertificate().subject?.CN?.toString(),
    host: req.headers.host,
  };
}

/** Starts an https server that also accepts WebSockets; resolves to its port. */
async function startTls(name: string, more: ServerOptions = {}): Promise<string> {
  const answer: RequestListener = (req, res) => {
    if (req.headers['user-agent'] !== 'latchkey-health-check') note(req);
    res.end('secret place');
  };
  const options = { cert: pem(`${name}.pem`), key: pem(`${name}.key`), ...more };
  const { url, server } = await serveHttp(t, answer, options);
  server.on('tlsClientError', () => undefined);
  server.on('upgrade', (req, socket, head) => {
    note(req);
    sockets.handleUpgrade(req, socket, head, (ws) =>
      ws.on('message', (data: Buffer) => ws.send(data.toString())),
    );
  });
  const { port } = new URL(url);
  server.on('secureConnection', () => connections.set(port, (connections.get(port) ?? 0) + 1));
  return port;
}

const port = {
  server: await startTls('server'),
  named: await startTls('named'),
  kept: await startTls('server'),
  expired: await startTls('expired'),
  client: await startTls('server', { ca: pem('ca.pem'), requestCert: true, rejectUnauthorized: true }),
};
const at = (which: keyof typeof port, host = 'localhost') => `https://${host}:${port[which]}`;
const ca = path('ca.pem');
const upstreams = {
  plain: { url: at('server'), tls: { ca }, host: 'upstream' },
  address: { url: at('server', '127.0.0.1'), tls: { ca } },
  unknown: { url: at('server') },
  other: { url: at('server'), tls: { ca: path('other-ca.pem') } },
  expired: { url: at('expired'), tls: { ca } },
  misnamed: { url: at('named'), tls: { ca } },
  named: { url: at('named', '127.0.0.1'), tls: { ca, server_name: 'api.internal' }, host: 'upstream' },
  preserved: { url: at('kept'), tls: { ca } },
  preserved_address: { url: at('kept', '127.0.0.1'), tls: { ca } },
  anonymous: { url: at('client'), tls: { ca } },
  client: {
    url: at('client'),
    tls: { ca, cert: path('client.pem'), key: path('client.key') },
    host: 'upstream',
  },
  pair: {
    urls: [at('expired'), at('server')],
    tls: { ca },
    health_check: { path: '/', interval: '100ms', timeout: '5s' },
  },
};
const config = {
  upstream: undefined,
  upstreams,
  routes: Object.keys(upstreams).map((name) => ({ path: `/${name}`, auth: 'none', upstream: name })),
  default_route: { auth: 'deny', upstream: 'plain' },
};
const { url, server, configFile } = await startFixture(t, config);

const webSocket = (name: string, headers = {}) =>
  new Promise<string>((done) => {
    const ws = new WebSocket(`${url.replace('http', 'ws')}/${name}`, { headers });
    ws.on('open', () => ws.send('hello'));
    ws.on('message', (data: Buffer) => {
      ws.terminate();
      done(data.toString());
    });
    ws.on('unexpected-response', (req, res) => {
      req.destroy();
      done(String(res.statusCode));
    });
    ws.on('error', () => undefined);
  });

t.test('verifies certificates for requests and WebSockets, and logs what is wrong', async (t) => {
  for (const [name, reason] of [
    ['unknown', /UNABLE_TO_VERIFY_LEAF_SIGNATURE/],
    ['other', /UNABLE_TO_VERIFY_LEAF_SIGNATURE/],
    ['expired', /CERT_HAS_EXPIRED/],
    ['misnamed', /ERR_TLS_CERT_ALTNAME_INVALID.*localhost.*api\.internal/],
    ['anonymous', /CERTIFICATE_REQUIRED|ECONNRESET|the upstream closed the connection/],
  ] as const) {
    last = undefined;
    const reply = await send(url, `/${name}`);
    t.equal(reply.status, 502, name);
    t.notMatch(reply.text, /CERT|certificate|localhost/i, 'the client does not learn why');
    t.equal(await webSocket(name), '502', `${name}, WebSocket`);
    t.equal(last, undefined, 'no request was sent');
    const lineOf = () => server.stdout().split('\n').find((each) => each.includes(`"upstream":"${name}"`)) ?? '';
    await until(() => lineOf() !== '', `a message about ${name}`);
    const line = lineOf();
    t.match(line, /"level":40.*"msg":"upstream address failed"/);
    t.match(line, reason);
  }
  for (const name of ['plain', 'address', 'named', 'client', 'preserved', 'preserved_address']) {
    t.equal((await send(url, `/${name}`)).text, 'secret place', name);
    t.equal(await webSocket(name), 'hello', `${name}, WebSocket`);
  }
}); // prettier-ignore

t.test('the server name that is sent and verified never comes from a request', async (t) => {
  const ask = async (name: string, Host: string) => {
    await send(url, `/${name}`, { headers: { Host } });
    const asked = last;
    await webSocket(name, { Host });
    t.same(last, asked, `${name}, WebSocket`);
    return asked;
  };
  const host = (name: keyof typeof upstreams & ('plain' | 'named')) => new URL(upstreams[name].url).host;
  t.same(await ask('plain', 'a.example'), { sni: 'localhost', client: undefined, host: host('plain') });
  t.same(await ask('named', 'a.example'), { sni: 'api.internal', client: undefined, host: host('named') });
  t.same(await ask('client', 'a.example'), { sni: 'localhost', client: 'client', host: `localhost:${port.client}` });
  for (const [name, sni] of [['preserved', 'localhost'], ['preserved_address', false]] as const) {
    await send(url, `/${name}`);
    const before = connections.get(port.kept);
    for (const Host of ['a.example', 'b.example', 'a.example', 'c.example']) {
      await send(url, `/${name}`, { headers: { Host } });
      t.same(last, { sni, client: undefined, host: Host });
    }
    t.equal(connections.get(port.kept), before, 'another Host reuses the connection');
  }
}); // prettier-ignore

t.test(
  'an address with a bad certificate fails its health check, and requests use the other one',
  async (t) => {
    await until(async () => {
      const { text } = await send(server.admin, '/metrics');
      return text.includes(`latchkey_upstream_healthy{upstream="pair",address="${at('expired')}"} 0`);
    }, 'unhealthy');
    for (let i = 0; i < 4; i++) t.equal((await send(url, '/pair')).status, 200);
  },
);

t.test('a reload reads the files again, and is refused if one is broken', async (t) => {
  writeFileSync(path('swapped.pem'), pem('other-ca.pem'));
  const swapped = { ...config, upstreams: { ...upstreams, plain: { url: at('server'), tls: { ca: path('swapped.pem') } } } };
  const rest = configFile.slice(0, configFile.lastIndexOf('/'));
  writeConfig(rest, { directory: { file: './directory.yaml' }, ...swapped });
  const reload = () => send(server.admin, '/-/reload', { method: 'POST' });
  t.equal((await reload()).status, 200);
  t.equal((await send(url, '/plain')).status, 502);
  writeFileSync(path('swapped.pem'), pem('ca.pem'));
  t.equal((await reload()).status, 200);
  t.equal((await send(url, '/plain')).status, 200);
  writeFileSync(path('swapped.pem'), 'no certificate');
  t.match(await reload(), { text: /latchkey\.yaml:\d+:\d+: upstreams\.plain\.tls\.ca: the file has no certificate/ });
  t.equal((await send(url, '/plain')).status, 200, 'the running configuration is kept');
}); // prettier-ignore

t.test('every error of tls has a position and a remedy', async (t) => {
  const file = path('f.yaml');
  writeFileSync(path('garbage.pem'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  openssl('pkey', '-in', 'client.key', '-aes256', '-passout', 'pass:x', '-out', 'locked.key');
  for (const [tls, expected] of [
    ['{ ca: ca.pem }', []],
    ['{ cert: client.pem, key: client.key }', []],
    ['{ ca: none.pem }', ['2:14: upstreams.api.tls.ca: file not found; write its path, relative to the folder of this file']],
    ['{ ca: . }', ['2:14: upstreams.api.tls.ca: the file cannot be read: is a directory (EISDIR)']],
    ['{ ca: client.key }', ['2:14: upstreams.api.tls.ca: the file has no certificate in PEM form ("-----BEGIN CERTIFICATE-----")']],
    ['{ ca: garbage.pem }', ['2:14: upstreams.api.tls.ca: certificate 1 of the file cannot be read']],
    ['{ cert: client.pem }', ['2:16: upstreams.api.tls.cert: a certificate needs its key; set key']],
    ['{ key: client.key }', ['2:15: upstreams.api.tls.key: a key needs its certificate; set cert']],
    ['{ cert: client.pem, key: server.key }', ['2:33: upstreams.api.tls.key: the key does not match the certificate in cert']],
    ['{ cert: client.pem, key: locked.key }', ['2:33: upstreams.api.tls.key: the key is encrypted; write it without a passphrase ("openssl pkey -in KEY -out FILE")']],
    ['{ server_name: 127.0.0.1 }', ['2:23: upstreams.api.tls.server_name: expected a host name']],
    ['{ verify: false }', ['2:10: unknown key "verify" (known: ca, cert, key, server_name)']],
  ] as const) {
    writeFileSync(file, `upstreams: { api: { url: "https://localhost",\n  tls: ${tls} } }`);
    let faults: string[] = [];
    try {
      loadConfig(file);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      faults = error.faults.map((fault) => formatFault(fault).replace(`${file}:`, ''));
    }
    t.same(faults, expected, tls);
  }
}); // prettier-ignore
