import t from 'tap';
import { WebSocket, WebSocketServer } from 'ws';
import { selfSigned } from '../helpers/certificates.js';
import { PROXIES } from '../helpers/checks.js';
import { startFixture } from '../helpers/fixture.js';
import { send, serveHttp } from '../helpers/http.js';
import { openHttp2, sendHttp2 } from '../helpers/http2.js';
import { temporaryFolder } from '../helpers/latchkey.js';
import { FREE, PROTECTED, SEPARATORS, spelledWith, variableOf } from './protected-names.js';

/** The raw header fields of the last request that reached the upstream. */
let arrived: readonly string[] = [];
const { url: upstreamUrl, server: upstream } = await serveHttp(t, (req, res) => {
  arrived = req.rawHeaders;
  res.end('ok');
});
const sockets = new WebSocketServer({ server: upstream });
sockets.on('connection', (socket, req) => {
  arrived = req.rawHeaders;
  socket.close();
});
const { cert, key } = selfSigned(temporaryFolder(t), 'latchkey');
const { url, server, token } = await startFixture(t, {
  upstream: upstreamUrl,
  listen: { host: '127.0.0.1', port: 0, tls: { cert, key }, trusted_proxies: ['127.0.0.1'] },
  decision: { host: '127.0.0.1', port: 0 },
  routes: [{ path: '/open', auth: 'none' }],
});
const secret = await token('engineer', { services: 'SVC1' });
const http2 = await openHttp2(t, url);

function overWebSocket(path: string, headers: Record<string, string>): Promise<{ status: number }> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${url.replace('https', 'wss')}${path}`, { headers, rejectUnauthorized: false });
    socket.on('close', () => resolve({ status: 101 }));
    socket.on('unexpected-response', (_, res) => resolve({ status: res.statusCode ?? 0 }));
    socket.on('error', reject);
  });
} // prettier-ignore

const ENTRANCES: Readonly<Record<string, (path: string, headers: Record<string, string>) => Promise<{ status: number }>>> = {
  'HTTP/1.1': (path, headers) => send(url, path, { headers }),
  'HTTP/2': (path, headers) => sendHttp2(http2, path, { headers }),
  WebSocket: overWebSocket,
}; // prettier-ignore
const ADMITTED = [200, 101];

for (const [entrance, call] of Object.entries(ENTRANCES)) {
  t.test(`${entrance}: drops every spelling of a protected name, and forwards other names`, async (t) => {
    for (const separator of SEPARATORS) {
      const forged = Object.fromEntries(PROTECTED.map((name) => [spelledWith(name, separator), 'EVIL']));
      const kept = Object.fromEntries(FREE.map((name) => [name, 'kept']));
      // This exact name carries the credential.
      delete forged['Service-Key'];
      for (const [path, credential] of [
        ['/open', {}],
        ['/service/SVC1', { 'Service-Key': secret }],
      ] as const) {
        arrived = [];
        const { status } = await call(path, { ...kept, ...forged, ...credential });
        t.ok(ADMITTED.includes(status), `${separator} at ${path}: ${status}`);
        const names = arrived.filter((_, i) => i % 2 === 0);
        t.same(arrived.filter((_, i) => arrived[i + 1]?.includes('EVIL')), [], `${separator} at ${path}`);
        const missing = FREE.filter((name) => !names.some((each) => each.toLowerCase() === name.toLowerCase()));
        t.same(missing, [], 'unprotected names are forwarded');
        const variables = names.map(variableOf);
        const role = variables.filter((name) => name === 'X_AUTH_ROLE').length;
        t.equal(role, path === '/open' ? 0 : 1, 'identity headers arrive once, and only for a known user');
      }
    }
  }); // prettier-ignore
}

t.test('decision port: refuses other spellings of protected names, but not the exact name', async (t) => {
  const forms = Object.values(PROXIES);
  let turn = 0;
  const ask = (name: string) => {
    const form = forms[turn++ % forms.length] as (typeof forms)[number];
    return form(server.decision, { method: 'GET', target: '/open', headers: { [name]: '192.0.2.1' } });
  };
  for (const name of PROTECTED) {
    for (const separator of SEPARATORS) {
      const spelled = spelledWith(name, separator);
      const { status, json } = await ask(spelled);
      t.equal(status, spelled === name ? 200 : 403, spelled);
      if (status === 403)
        t.same(json, {
          msg: 'Bad request',
          detail: `the header ${spelled} can be mistaken for ${name.toLowerCase()}, which clients may not set`,
        });
    }
  }
  for (const name of FREE) t.equal((await ask(name)).status, 200, name);
});

t.test('tells Envoy to remove the headers that neither Envoy nor the check response sets', async (t) => {
  const headers = { 'X-Forwarded-User': 'x', 'X-Forwarded-Prefix': '/x', 'Service-Key': secret };
  const reply = await PROXIES.Envoy(server.decision, { method: 'GET', target: '/service/SVC1', headers });
  const removed = String(reply.headers['x-envoy-auth-headers-to-remove']).split(',');
  // Envoy sets these itself; the check response sets those in `told`.
  const written = /^x-(?:envoy-external-address|forwarded-(?:for|proto|host|port|client-cert))$/;
  const told = /^x-auth-(?!assertion)/;
  const unseen = /^x-forwarded-by$/;
  const wanted = PROTECTED.map((name) => name.toLowerCase()).filter(
    (name) => !written.test(name) && !told.test(name) && !unseen.test(name) && name !== 'x-forwarded-port',
  );
  t.same(wanted.filter((name) => !removed.includes(name)), []);
  t.same(removed.filter((name) => written.test(name) || told.test(name)), []);
  t.equal(new Set(removed).size, removed.length, 'each once');
}); // prettier-ignore

t.test('forwarded credentials arrive under their own names only', async (t) => {
  const { url, upstream, token } = await startFixture(t, { identity: { forward_credentials: true } });
  const secret = await token('engineer');
  for (const separator of SEPARATORS.replace('-', '')) {
    const headers = { 'Service-Key': secret, [`Service${separator}Key`]: 'EVIL', [`Service${separator}OTP`]: 'EVIL' };
    t.equal((await send(url, '/x', { headers })).status, 200);
    const { rawHeaders = [] } = upstream.received.at(-1) ?? {};
    t.notMatch(rawHeaders.join(' '), 'EVIL', separator);
    t.ok(rawHeaders.includes(secret), 'the credential itself');
  }
}); // prettier-ignore
