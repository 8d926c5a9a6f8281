import { createServer, type IncomingMessage } from 'node:http';
import { performServerHandshake } from 'node:http2';
import type { Socket } from 'node:net';
import t from 'tap';
import { foldName } from '../../src/http/protected-fields.js';
import { deployment, diagnose, type Fault, found, KEY, listenOn, startFaulty } from './deployments.js';

/** Header fields by the name that a gateway folds all spellings to. */
function folded(req: IncomingMessage): Map<string, string> {
  const fields = new Map<string, string>();
  for (let i = 0; i < req.rawHeaders.length; i += 2)
    fields.set(foldName(req.rawHeaders[i] ?? ''), req.rawHeaders[i + 1] ?? '');
  return fields;
}

/** An API that echoes the fields it receives, except those a careless proxy in front removes. */
const showing = (leaves: (name: string) => boolean): NonNullable<Fault['api']> => (req, res) => {
  const names = Object.keys(req.headers).filter((name) => leaves(name));
  res.end(JSON.stringify(Object.fromEntries(names.map((name) => [name, req.headers[name]]))));
}; // prettier-ignore

const path = (req: IncomingMessage) => req.url ?? '';
const reads = (to: RegExp) => (req: IncomingMessage) => to.test(path(req));

/** Deployments that are broken on purpose, each with all expected findings. */
const CASES: Record<string, readonly [fault: Fault, expected: readonly string[]]> = {
  'no credential is required': [{ lets: () => true }, ['authentication serious']],
  'one path is open': [{ lets: reads(/^\/service\/S1$/) }, ['authentication serious']],
  'unknown paths are open': [{ lets: reads(/^\/latchkey-doctor/) }, ['authentication warning']],
  'any token is accepted': [{ lets: (req) => (req.headers['service-key'] ?? '') !== '' }, ['credentials serious']],
  'any session is accepted': [{ lets: (req) => req.headers.cookie !== undefined }, ['credentials serious']],
  'unsigned JWTs are accepted': [{ lets: (req) => /eyJ.*\.$/.test(req.headers.authorization ?? '') }, ['credentials serious']],
  'a role from the client is trusted': [{ lets: (req) => req.headers['x-auth-role'] === 'superuser' }, ['identity-headers serious']],
  'a role is trusted in every spelling but its own': [
    { lets: (req) => req.headers['x-auth-role'] === undefined && folded(req).has('x-auth-role') },
    ['identity-headers serious'],
  ],
  'an API on a public path echoes one forged field with _': [{ api: showing((name) => name === 'x_auth_login') }, ['identity-headers serious']],
  'an API on a public path greets a superuser': [
    { api: (req, res) => res.end(folded(req).get('x-auth-role') === 'superuser' ? 'hello, superuser' : 'hello') },
    ['identity-headers serious'],
  ],
  'an API echoes a forged trailer': [
    { api: (req, res) => req.resume().on('end', () => res.end(JSON.stringify(req.trailers))) },
    ['identity-headers serious'],
  ],
  'X-Original-URL decides': [{ lets: (req) => req.headers['x-original-url'] === '/status' }, ['overrides serious']],
  'X_Rewrite_URL reaches the API': [{ api: showing((name) => name === 'x_rewrite_url') }, ['overrides serious']],
  'the API obeys X-HTTP-Method-Override': [
    {
      api: (req, res) => {
        const method = req.headers['x-http-method-override'] ?? req.method;
        res.writeHead(method === 'GET' ? 200 : 405).end(method === 'GET' ? 'hello' : 'not allowed');
      },
    },
    ['overrides serious'],
  ],
  'an overridden OPTIONS needs no credential': [{ lets: (req) => req.headers['x-method-override'] === 'OPTIONS' }, ['overrides serious']],
  'dot segments are resolved after the decision': [{ lets: reads(/^\/status\/\.\.\//) }, ['paths serious']],
  'a path parameter hides dot segments': [{ lets: reads(/\.\.;/) }, ['paths serious']],
  'an encoded slash': [{ lets: reads(/%2f/i) }, ['paths serious']],
  'a double slash': [{ lets: reads(/^\/\//) }, ['paths serious']],
  'a backslash': [{ lets: reads(/\\/) }, ['paths serious']],
  'upper case': [{ lets: reads(/^\/SERVICE/) }, ['paths serious']],
  'files need no credential': [{ lets: reads(/\.css$/) }, ['paths serious']],
  'the absolute form': [{ lets: reads(/^http:/) }, ['paths serious']],
  'a trailing dot': [{ lets: reads(/S1\.$/) }, ['paths serious']],
  'handshakes need no credential': [{ lets: (req) => req.headers['sec-websocket-key'] !== undefined }, ['exemptions serious']],
  'health checks need no credential': [{ lets: (req) => /kube-probe/.test(req.headers['user-agent'] ?? '') }, ['exemptions serious']],
  'HTTP/1.0 needs no credential': [{ lets: (req) => req.httpVersion === '1.0' }, ['exemptions serious']],
  'OPTIONS reaches the API': [{ lets: (req) => req.method === 'OPTIONS' }, ['options serious']],
  'a loopback address from the client is trusted': [{ lets: (req) => /127\.0/.test(String(req.headers['x-forwarded-for'])) }, ['addresses serious']],
  'another host needs no credential': [{ lets: (req) => req.headers.host === 'localhost' }, ['addresses serious']],
  'metrics are public': [
    { before: (req, res) => path(req) === '/metrics' && res.end('latchkey_up 1\n') !== undefined },
    ['admin-port serious'],
  ],
  'decisions are public': [
    {
      before: (req, res) => {
        if (path(req) !== '/auth-request') return false;
        res.writeHead(403, { 'Content-Type': 'application/json', 'X-Request-Id': 'r1' });
        res.end('{"msg":"The check request is incomplete"}');
        return true;
      },
    },
    ['decision-port serious'],
  ],
  'an upgrade to h2c, cookies without flags, a reflected origin and a fast clock': [
    {
      before: (req, res) => {
        res.setHeader('Date', new Date(Date.now() + 180_000).toUTCString());
        if (req.headers.origin !== undefined) {
          res.setHeader('Access-Control-Allow-Origin', req.headers.origin);
          res.setHeader('Access-Control-Allow-Credentials', 'true');
        }
        if (path(req) === '/login') res.setHeader('Set-Cookie', 'service.session=; Path=/; Secure; SameSite=Lax');
        return false;
      },
    },
    ['cors serious', 'cookies serious', 'clock serious'],
  ],
  'a cookie without SameSite and a slightly slow clock': [
    {
      before: (_req, res) => {
        res.setHeader('Date', new Date(Date.now() - 30_000).toUTCString());
        res.setHeader('Set-Cookie', 'service.session=x; Secure; HttpOnly');
        return false;
      },
    },
    ['cookies serious', 'clock warning'],
  ],
}; // prettier-ignore

for (const [name, [fault, expected]] of Object.entries(CASES)) {
  t.test(name, async (t) => {
    const report = await diagnose(await startFaulty(t, fault));
    t.same(found(report), expected, { findings: report.findings });
  });
}

t.test('detects ambiguous framing and an upgrade to h2c', async (t) => {
  const server = createServer({ insecureHTTPParser: true }, deployment({}));
  server.on('upgrade', (req, socket) => {
    const isH2c = req.headers.upgrade === 'h2c';
    socket.end(
      `HTTP/1.1 ${isH2c ? '101 Switching Protocols' : '400 Bad Request'}\r\nConnection: close\r\n\r\n`,
    );
  });
  const report = await diagnose(await listenOn(t, server));
  t.match(found(report), ['framing serious']);
  t.match(
    report.findings.map(({ summary }) => summary).join(),
    /differently.*switch to HTTP\/2|switch to HTTP\/2.*differently/,
  );
});

t.test('tells a proxy that speaks h2c itself from a tunnel to the API', async (t) => {
  const rows = [
    ['a proxy that checks', 401, '{"msg":"Provided credentials are missing or invalid"}', []],
    ['an API', 404, 'not found', ['framing serious']],
    ['an API that refuses by itself', 401, 'no session', ['framing serious']],
    ['an API that lets in', 200, 'hello', ['framing serious']],
  ] as const;
  for (const [name, status, body, expected] of rows) {
    const server = createServer(deployment({}));
    server.on('upgrade', (_req, socket: Socket, head) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n');
      socket.unshift(head);
      const session = performServerHandshake(socket);
      session.on('error', () => socket.destroy());
      session.on('stream', (stream) => {
        stream.on('error', () => undefined).respond({ ':status': status });
        stream.end(body);
      });
    });
    const report = await diagnose(await listenOn(t, server), { checks: ['framing'] });
    t.same(found(report), expected, name, { findings: report.findings });
  }
});

t.test('detects refusals from a cache by their age', async (t) => {
  for (const [age, expected] of [
    ['1', []],
    ['2', ['caches warning']],
  ] as const) {
    const url = await startFaulty(t, { fields: { Age: age } });
    const report = await diagnose(url, { checks: ['caches'] });
    t.same(found(report), expected, `Age: ${age}`, { findings: report.findings });
    if (age === '2') t.match(report.findings[0]?.evidence[0], /^(\d+) of \1 refusals with an Age of two/);
  }
});

t.test('only a token reveals what the API receives', async (t) => {
  const echo = showing((name) => name === 'x-auth-role');
  const api: Fault['api'] = (req, res) => (req.url === '/status' ? res.end('hello') : echo(req, res));
  const url = await startFaulty(t, { api });
  t.same(found(await diagnose(url)), []);
  t.same(found(await diagnose(url, { key: KEY })), ['identity-headers serious']);
});

t.test('detects an identity that Connection removes', async (t) => {
  const api: Fault['api'] = (req, res) =>
    res.end(/x-auth-user-id/i.test(req.headers.connection ?? '') ? '{}' : '{"X-Auth-User-Id":"U1"}');
  const report = await diagnose(await startFaulty(t, { api }));
  t.same(found(report), ['identity-headers serious']);
});

t.test('detects a reachable API, admin port and decision port', async (t) => {
  const open = new URL(
    await listenOn(
      t,
      createServer((_req, res) => res.end('hello')),
    ),
  );
  const believing = createServer((req, res) =>
    res.writeHead(req.headers['x-auth-role'] === undefined ? 401 : 200).end(),
  );
  const url = await startFaulty(t, {});
  const report = await diagnose(url, { upstream: open, admin: open, decision: open });
  t.same(found(report), ['upstream serious', 'admin-port serious', 'decision-port serious']);
  const other = await diagnose(url, { upstream: new URL(await listenOn(t, believing)) });
  t.match(other.findings.map(({ summary }) => summary).join(), /trusts forged identity/);
  t.same(found(await diagnose(url, { upstream: new URL(url) })), [], 'Latchkey itself is not a bypass');
});
