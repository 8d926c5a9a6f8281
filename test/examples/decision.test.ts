import { createServer } from 'node:http';
import t from 'tap';
import { IDENTITY_HEADERS } from '../../src/doctor/checks/identity.js';
import { WebSocket, WebSocketServer } from 'ws';
import { readFileSync } from 'node:fs';
import { parse, parseAllDocuments } from 'yaml';
import { loadConfig } from '../../src/config/load.js';
import { NEVER_FORWARDED } from '../../src/http/protected-fields.js';
import { builtInRoutes } from '../../src/endpoints/endpoints.js';
import { FORWARDED_NAMES } from '../../src/upstream/request-headers.js';
import { identityOf, PROXIES } from '../helpers/checks.js';
import { client } from '../helpers/fixture.js';
import { startExample, startFront } from '../helpers/front.js';
import { type Received, send, startUpstream } from '../helpers/http.js';

const SPOOFED = Object.fromEntries([...IDENTITY_HEADERS, 'X-Request-Id'].map((name) => [name, 'spoofed']));
const TAKEN = [
  'x-original-url',
  'x-original-uri',
  'x-original-method',
  'x-rewrite-url',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
];
const OVERRIDES = Object.fromEntries(TAKEN.map((name) => [name, '/status']));

for (const proxy of ['nginx', 'caddy'] as const) {
  t.test(`${proxy} in front of an API, with its example`, async (t) => {
    const upstream = await startUpstream(t);
    const sockets = new WebSocketServer({ noServer: true });
    upstream.server.on('upgrade', (req, socket, head) => {
      upstream.received.push({ method: 'GET', target: req.url ?? '', headers: req.headers, rawHeaders: req.rawHeaders, body: '' });
      sockets.handleUpgrade(req, socket, head, (ws) => ws.on('message', (data) => ws.send(`${req.url} ${(data as Buffer).toString()}`)));
    });
    t.teardown(() => sockets.clients.forEach((each) => each.terminate()));
    const { url, latchkey } = await startFront(t, proxy, upstream.url);
    const { login, token } = client(url);

    // Built-in paths go to Latchkey, so all of these requests pass through the proxy.
    const session = await login('ada');
    const key = await token('ada');
    const CREDENTIALS: Record<string, Record<string, string>> = {
      nobody: {},
      'a bad key': { 'Service-Key': 'bad', Cookie: session },
      token: { 'Service-Key': key },
      'engineer, with cookies of others': { 'Service-Key': await token('bob'), Cookie: `a=1; ${session}; b=2` },
      'limited token': { 'Service-Key': await token('ada', { service_id: 'S1' }) },
      'Bearer token': { Authorization: `bearer ${key}`, Cookie: 'a=1' },
      'token as password': { Authorization: `Basic ${btoa(`a:${key}`)}` },
      'token among subprotocols': { 'Sec-WebSocket-Protocol': `v1, latchkey.bearer.${key}` },
      'token, with Basic': { 'Service-Key': key, Authorization: 'Basic YTpi' },
      session: { Cookie: session },
      'session among cookies': { Cookie: `a={env.HOME}; ${session}; b="x y"` },
    };
    const REQUESTS: [string, string, string?][] = [
      ['GET', '/service/S1?a=1&b=%20c'], ['POST', '/service/S1', 'name=x&y=\u00e4'], ['PUT', '/service/S2/x', 'x'.repeat(300_000)], ['HEAD', '/service/S1'],
      ['DELETE', '/billing/1'], ['PURGE', '/a/b'], ['POST', '/purge/http://www.example.com/a?x=1', ''], ['GET', '/status'], ['OPTIONS', '/status'],
      ['GET', '/'], ['GET', '//service/S1'], ['GET', '/service//S1'], ['GET', '/service/%2e%2e/billing'], ['GET', '/service/S1/../../status'], ['GET', '/status/../billing'],
      ['GET', '/status;a=b'], ['GET', '/%62illing'], ['GET', '/service/S1%2f..%2fbilling'], ['GET', '/service/S1/{env.HOME}?{http.request.uri}'], ['GET', '/a%20b?c+d'],
      ['GET', '/?%zz'], ['GET', '/x?y=//../'], ['GET', '/statu%73'], ['GET', '/service/S1/a%5cb'],
    ];

    /** What the upstream and the client received. */
    const ask = async (base: string, method: string, path: string, body: string | undefined, headers: Record<string, string>) => {
      upstream.received.length = 0;
      const reply = await send(base, path, { method, headers, ...(body === undefined ? {} : { body }) });
      return { reply, received: upstream.received.slice() };
    };
    // Caddy escapes braces, also in the check.
    const told = ({ method, target, headers, body }: Received) => ({ method, target: target.replaceAll('%7B', '{').replaceAll('%7D', '}'), body, ...identityOf(headers) });

    t.test('allows what Latchkey allows, and the API gets the same request', async (t) => {
      let allowed = 0;
      for (const [method, target, body] of REQUESTS) {
        for (const [who, headers] of Object.entries(CREDENTIALS)) {
          const what = `${method} ${target} by ${who}`;
          const direct = await ask(latchkey.url, method, target, body, { ...headers, ...SPOOFED });
          const asked = await ask(url, method, target, body, { ...headers, ...SPOOFED, ...OVERRIDES, ...(proxy === 'caddy' ? { 'Latchkey-Cookie': 'spoofed', 'Latchkey-Authorization': 'spoofed' } : {}) });
          const { status } = asked.reply;
          if (direct.reply.status !== 200) {
            // The proxy refuses some of these by itself.
            t.ok(direct.reply.status === 401 ? status === 401 || status === 400 : status === 403 || status === 400, `${what}: ${direct.reply.status} is ${status}`);
            t.same(asked.received, [], what);
            continue;
          }
          allowed += 1;
          t.same([status, asked.reply.text === '' ? method : ''], [200, method === 'HEAD' ? method : ''], what);
          t.same(asked.received.map(told), direct.received.map(told), what);
          const [received] = asked.received;
          const left = ['service-key', 'service-otp', 'latchkey-cookie', 'latchkey-authorization', ...TAKEN].filter((name) => name in (received?.headers ?? {}));
          t.same(left, [], what);
          t.notMatch(JSON.stringify(received?.rawHeaders), /spoofed|service\.session|lk[A-Za-z0-9]{38}/, what);
          t.match(received?.headers['x-request-id'], /^[\w-]{10,}$/);
        }
      }
      t.ok(allowed > 50, `${allowed} allowed`);
    });

    t.test('built-in paths lead to Latchkey', async (t) => {
      const { received } = await ask(url, 'GET', '/_latchkey/', undefined, {});
      t.same(received, []);
      t.match((await send(url, '/_latchkey/')).text, '<!doctype html>');
      t.equal((await send(url, '/_latchkey')).status < 400, true);
      t.match((await send(url, '/tokens', { headers: { Cookie: session } })).json, [{ user_id: 'U1' }]);
      t.equal((await send(url, '/customer/C1/tokens', { headers: { Cookie: session } })).status, 200);
      const victim = await token('ada');
      t.match((await send(url, '/tokens/self', { headers: { 'Service-Key': victim } })).json, { user_id: 'U1', ip: '127.0.0.1' });
      t.equal((await send(url, '/service/S1', { headers: { 'Service-Key': victim } })).status, 200);
      t.equal((await send(url, '/tokens/self', { method: 'DELETE', headers: { 'Service-Key': victim } })).status, 204);
      t.equal((await send(url, '/service/S1', { headers: { 'Service-Key': victim } })).status, 401, 'a revoked token is refused at once');
      const denied = await send(url, '/billing', { headers: CREDENTIALS['engineer, with cookies of others'] ?? {} });
      t.equal(denied.status, 403);
      const nobody = await send(url, '/service/S1');
      t.equal(nobody.headers['www-authenticate'], 'Basic realm="api", Bearer realm="api"');
      t.notMatch(latchkey.stdout(), 'misconfigured forward-auth proxy');
    });

    t.test('a field named by Connection removes nothing from what the API receives', async (t) => {
      const limited = CREDENTIALS['limited token'] ?? {};
      const plain = await ask(url, 'GET', '/service/S1', undefined, limited);
      t.equal(plain.received[0]?.headers['x-auth-services'], 'S1');
      for (const name of ['X-Auth-Services', 'x-auth-user-id, X-Auth-Role', 'Cookie', 'X-Original-URI', 'X-Forwarded-Uri', 'Service-Key']) {
        const { reply, received } = await ask(url, 'GET', '/service/S1', undefined, { ...limited, Connection: `close, ${name}` });
        if (reply.status === 200) t.same(received.map(({ headers }) => identityOf(headers)), plain.received.map(({ headers }) => identityOf(headers)), name);
        else t.same([received.length, reply.status < 500], [0, true], `${name}: ${reply.status}`);
      }
      for (const name of ['X_Auth_User_Id', 'X.Auth.Role']) {
        const { received } = await ask(url, 'GET', '/status', undefined, { [name]: 'spoofed' });
        t.notMatch(JSON.stringify(received), 'spoofed', name);
      }
    });

    t.test('large cookies', async (t) => {
      const { reply, received } = await ask(url, 'GET', '/service/S1', undefined, { Cookie: `${session}; big=${'x'.repeat(6_000)}` });
      t.equal(reply.status, 200);
      t.equal(received[0]?.headers.cookie?.length, 6_004);
    });

    t.test('WebSockets', async (t) => {
      const open = (headers: Record<string, string>) => new Promise<string>((done) => {
        const socket = new WebSocket(`${url.replace('http', 'ws')}/service/S1/live`, { headers });
        socket.on('open', () => socket.send('hello'));
        socket.on('message', (data) => { done((data as Buffer).toString()); socket.close(); });
        socket.on('unexpected-response', (_req, res) => { done(String(res.statusCode)); res.destroy(); });
        socket.on('error', (error) => done(error.message));
      });
      upstream.received.length = 0;
      t.equal(await open({}), '401');
      t.equal(await open({ Cookie: session, Origin: 'http://evil.example' }), '403');
      t.same(upstream.received, []);
      t.equal(await open({ Cookie: session, Origin: url }), '/service/S1/live hello');
      t.equal(await open({ 'Service-Key': key, ...SPOOFED }), '/service/S1/live hello');
      t.same(upstream.received.map(({ headers }) => [headers['x-auth-user-id'], headers.cookie, headers['service-key']]), [['U1', undefined, undefined], ['U1', undefined, undefined]]);
    });

    t.test('denies everything while Latchkey is down or responds otherwise', async (t) => {
      const headers = { 'Service-Key': key };
      t.equal((await ask(url, 'GET', '/service/S1', undefined, headers)).reply.status, 200);
      await latchkey.stop('SIGKILL');
      for (const path of ['/service/S1', '/status', '/login']) {
        const { reply, received } = await ask(url, 'GET', path, undefined, headers);
        t.ok(reply.status >= 500, `${path}: ${reply.status}`);
        t.same(received, []);
      }
      // Created by hand, because it needs Latchkey's port.
      const other = createServer((_req, res) => res.writeHead(status, { 'X-Auth-User-Id': 'U1' }).end());
      let status = 500;
      await new Promise<void>((done) => void other.listen(Number(new URL(latchkey.decision).port), '127.0.0.1', done));
      t.teardown(() => { other.close(); other.closeAllConnections(); });
      for (status of [500, 503, 403, 401, 404, 429, 302]) {
        const { reply, received } = await ask(url, 'GET', '/service/S1', undefined, headers);
        t.ok(reply.status >= 300, `${status} is ${reply.status}`);
        t.same(received, []);
      }
    });
  });
} // prettier-ignore

interface Patterns {
  readonly patterns: {
    readonly exact?: string;
    readonly prefix?: string;
    readonly safe_regex?: { readonly regex: string };
  }[];
}

/** The parts of Traefik's and Envoy's examples that concern the check. */
const TRAEFIK = parse(readFileSync('examples/traefik/dynamic.yaml', 'utf8')).http;
const ENVOY = parse(readFileSync('examples/envoy/envoy.yaml', 'utf8')).static_resources.listeners[0]
  .filter_chains[0].filters[0].typed_config;
const ENVOY_CHECK = ENVOY.http_filters[0].typed_config;

const matches = ({ patterns }: Patterns, name: string) =>
  patterns.some(
    ({ exact, prefix, safe_regex: pattern }) =>
      exact === name.toLowerCase() ||
      (prefix !== undefined && name.toLowerCase().startsWith(prefix)) ||
      (pattern !== undefined && new RegExp(`^${pattern.regex}$`).test(name.toLowerCase())),
  );
const lowerCase = (headers: Record<string, string>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** Sets and removes headers like a Traefik middleware. */
function change(headers: Record<string, unknown>, middleware: string): void {
  const { customRequestHeaders } = TRAEFIK.middlewares[middleware].headers;
  for (const [name, value] of Object.entries(customRequestHeaders)) {
    if (value === '') delete headers[name.toLowerCase()];
    else headers[name.toLowerCase()] = value;
  }
}

/**
 * The headers that the API gets with an allowed request, as each proxy builds them by its example;
 * undefined if refused.
 */
const THROUGH: Record<
  string,
  (
    decision: string,
    target: string,
    headers: Record<string, string>,
  ) => Promise<Record<string, unknown> | undefined>
> = {
  Traefik: async (decision, target, sent) => {
    const out: Record<string, unknown> = lowerCase(sent);
    change(out, 'drop');
    const headers = { ...out } as Record<string, string>;
    const reply = await PROXIES.Traefik(decision, { method: 'GET', target, headers });
    if (reply.status !== 200) return undefined;
    for (const name of TRAEFIK.middlewares['ask-latchkey-about-read'].forwardAuth
      .authResponseHeaders as string[]) {
      delete out[name.toLowerCase()];
      if (reply.headers[name.toLowerCase()] !== undefined)
        out[name.toLowerCase()] = reply.headers[name.toLowerCase()];
    }
    change(out, 'keep-here');
    change(out, 'no-upgrade');
    return out;
  },
  Envoy: async (decision, target, headers) => {
    const asked = Object.fromEntries(
      Object.entries(headers).filter(([name]) => matches(ENVOY_CHECK.allowed_headers, name)),
    );
    const reply = await PROXIES.Envoy(decision, { method: 'GET', target, headers: asked });
    if (reply.status !== 200) return undefined;
    const out: Record<string, unknown> = lowerCase(headers);
    for (const [name, value] of Object.entries(reply.headers))
      if (matches(ENVOY_CHECK.http_service.authorization_response.allowed_upstream_headers, name))
        out[name] = value;
    const removed = String(reply.headers['x-envoy-auth-headers-to-remove']).split(',');
    for (const name of [...removed, ...ENVOY.route_config.request_headers_to_remove]) delete out[name];
    return out;
  },
};

t.test('Traefik and Envoy behave as Latchkey expects, simulated from their examples', async (t) => {
  const upstream = await startUpstream(t);
  const { latchkey } = await startExample(t, 'traefik', upstream.url);
  const { login, token } = client(latchkey.url);
  const session = await login('ada');
  const CREDENTIALS: Record<string, Record<string, string>> = {
    nobody: {},
    token: { 'Service-Key': await token('ada') },
    'engineer, with cookies of others': { 'Service-Key': await token('bob'), Cookie: `a=1; ${session}; b=2` },
    'limited token': { 'Service-Key': await token('ada', { service_id: 'S1' }) },
    'Bearer token': { Authorization: `bearer ${await token('ada')}` },
    'token, with Basic': { 'Service-Key': await token('ada'), Authorization: 'Basic YTpi' },
    session: { Cookie: session },
    'foreign page': {
      Cookie: session,
      Origin: 'http://evil.example',
      'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
    },
    'a one-time password': { Cookie: 'a=1', 'Service-OTP': '123456' },
  };
  for (const [proxy, through] of Object.entries(THROUGH)) {
    for (const [who, headers] of Object.entries(CREDENTIALS)) {
      for (const target of ['/service/S1?a=b', '/service/S2', '/billing', '/status']) {
        upstream.received.length = 0;
        const { 'Sec-WebSocket-Key': handshake, ...direct } = headers;
        await send(latchkey.url, target, { headers: { ...direct, ...SPOOFED } });
        const out = await through(latchkey.decision, target, { ...headers, ...SPOOFED, ...OVERRIDES });
        const wanted = target !== '/status' && handshake !== undefined ? undefined : upstream.received[0];
        t.equal(out === undefined, wanted === undefined, `${target} by ${who}, ${proxy}`);
        if (out === undefined || wanted === undefined) continue;
        t.same(
          identityOf(out as Record<string, string>),
          identityOf(wanted.headers),
          `${target} by ${who}, ${proxy}`,
        );
        t.same(
          ['service-key', 'service-otp', ...TAKEN].filter((name) => name in out),
          [],
        );
        t.match(out['x-request-id'], /^(?!spoofed)[\w-]{10,}$/);
      }
    }
    t.equal(await through(latchkey.decision, '/status', { X_Auth_User_Id: 'spoofed' }), undefined);
  }
  t.match(ENVOY_CHECK, { failure_mode_allow: false, http_service: { path_prefix: '/ext_authz' } });
  t.equal(ENVOY.http_filters.at(-1).name, 'envoy.filters.http.router', 'the check runs before routing');
  t.same(ENVOY_CHECK.with_request_body, { max_request_bytes: 1, allow_partial_message: true });
  t.same(ENVOY.upgrade_configs, [{ upgrade_type: 'websocket' }]);
  const { forwardAuth: check } = TRAEFIK.middlewares['ask-latchkey'];
  t.match(check, { address: 'http://127.0.0.1:9902/forward-auth', trustForwardHeader: false });
  const { forwardAuth: checkOfRead } = TRAEFIK.middlewares['ask-latchkey-about-read'];
  t.same(checkOfRead, { ...check, forwardBody: true, maxBodySize: 1 });
  t.same(
    Object.entries(TRAEFIK.routers).map(([name, router]) => [
      name,
      (router as { middlewares: string[] }).middlewares,
    ]),
    [
      ['latchkey', ['drop', 'no-upgrade']],
      ['api-websocket', ['drop', 'ask-latchkey-about-read', 'keep-here', 'websocket']],
      ['api-read', ['drop', 'ask-latchkey-about-read', 'keep-here', 'no-upgrade']],
      ['api', ['drop', 'ask-latchkey', 'keep-here', 'no-upgrade']],
    ],
  );
  t.same(TRAEFIK.middlewares['no-upgrade'].headers.customRequestHeaders, { Upgrade: '' });
  t.same(TRAEFIK.middlewares.websocket.headers.customRequestHeaders, { Upgrade: 'websocket' });
});

t.test('Traefik and Envoy remove every header that clients may not send', async (t) => {
  const names = [...NEVER_FORWARDED, ...FORWARDED_NAMES];
  /** Headers that each proxy replaces or removes by itself, and those set from the response. */
  const OWN: Record<string, string[]> = {
    Traefik: (
      'connection keep-alive te trailer transfer-encoding upgrade proxy-connection proxy-authenticate proxy-authorization content-length host expect x-request-id x-real-ip ' +
      'x-forwarded-proto x-forwarded-for x-forwarded-host x-forwarded-port x-forwarded-server x-forwarded-uri x-forwarded-method x-forwarded-prefix x-forwarded-tls-client-cert x-forwarded-tls-client-cert-info'
    ).split(' '),
    Envoy: 'connection keep-alive proxy-connection transfer-encoding upgrade content-length host expect x-request-id x-forwarded-for x-forwarded-proto x-envoy-external-address x-envoy-internal'.split(' '),
  };
  const dropped: Record<string, string[]> = {
    Traefik: Object.keys(TRAEFIK.middlewares.drop.headers.customRequestHeaders).map((name) => name.toLowerCase()),
    Envoy: ENVOY.route_config.request_headers_to_remove,
  };
  for (const [proxy, all] of Object.entries(dropped))
    t.same(names.filter((name) => !all.includes(name) && !OWN[proxy]?.includes(name)), [], proxy);
  t.ok(Object.values(TRAEFIK.middlewares.drop.headers.customRequestHeaders).every((value) => value === ''));
  for (const name of ['x_auth_role', 'x.auth.role', 'x~auth~role', 'x+real+ip', 'x-forwarded-user', 'x-forwarded-_'])
    t.ok(matches(ENVOY_CHECK.allowed_headers, name), `Envoy shows ${name} to Latchkey`);
  for (const name of [':path', ':method', ':authority', 'accept', 'x-other'])
    t.notOk(matches(ENVOY_CHECK.allowed_headers, name), `Envoy keeps ${name}`);
}); // prettier-ignore

t.test('ingress-nginx has the same settings as nginx', async (t) => {
  const { data } = parse(readFileSync('examples/kubernetes/ingress-nginx.yaml', 'utf8')) as { data: Record<string, string> };
  const settings = (text = '') => [...text.matchAll(/^ *(proxy_set_header .*;)$/gm)].map(([, line = '']) => line);
  const nginx = readFileSync('examples/nginx/nginx.conf', 'utf8');
  const told = settings(/location = \/_decision \{([^}]*)\}/.exec(nginx)?.[1]);
  // The controller sets these itself.
  const own = ['Connection', 'Content-Length', 'Host', 'X-Original-Method', 'X-Original-URL', 'X-Forwarded-For'].map((name) => `proxy_set_header ${name} `);
  const wanted = told.filter((line) => !own.some((start) => line.startsWith(start)));
  t.ok(wanted.length >= 6);
  t.same(settings(data['global-auth-snippet']).toSorted(), wanted.toSorted());
  const dropped = settings(readFileSync('examples/nginx/dropped.conf', 'utf8'));
  t.same(settings(data['location-snippet']), ["proxy_set_header Service-Key '';", "proxy_set_header Service-OTP '';", ...dropped]);
  const identity = [...nginx.matchAll(/auth_request_set \S+ \$upstream_http_(\S+);/g)].map(([, name = '']) => name.replaceAll('_', '-')).filter((name) => name !== 'location');
  t.same(data['global-auth-response-headers']?.trim().toLowerCase().split(','), identity.filter((name) => name !== 'x-request-id'));
  const [mesh] = parseAllDocuments(readFileSync('examples/kubernetes/istio.yaml', 'utf8')).map((document) => document.toJS());
  const { envoyExtAuthzHttp: check } = mesh.extensionProviders[0];
  t.same(check.headersToUpstreamOnAllow, identity.includes('x-request-id') ? [...identity.filter((name) => name !== 'cookie'), 'cookie'] : []);
  t.match(check, { failOpen: false, pathPrefix: '/ext_authz', includeRequestBodyInCheck: { maxRequestBytes: 1, allowPartialMessage: true } });
}); // prettier-ignore

t.test("every example sends exactly Latchkey's paths to Latchkey; a comment has the optional ones", async (t) => {
  const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const whole = (kind: string | undefined, exact: string, path: string) => `^${escaped(path)}${kind === exact ? '$' : ''}`;
  /** How to read the Latchkey paths of each proxy from its file. */
  const READERS: Record<string, [file: string, patterns: (text: string) => string[]]> = {
    nginx: ['nginx/nginx.conf', (text) => [...text.matchAll(/^ *location (= |~ )?(\S+) \{ include latchkey-own/gm)].map(([, kind, path = '']) => (kind === '~ ' ? path : whole(kind, '= ', path)))],
    caddy: ['caddy/Caddyfile', (text) => [...text.matchAll(/^\t*(@\w+) path_regexp (\S+)\n\t*reverse_proxy \1 /gm)].map(([, , pattern = '']) => pattern)],
    traefik: ['traefik/dynamic.yaml', (text) => {
      const routers = Object.values<{ rule: string; service: string }>(parse(text).http.routers);
      const rules = routers.filter(({ service }) => service === 'latchkey').map(({ rule }) => rule);
      return [...rules.join(' ').matchAll(/(Path|PathPrefix|PathRegexp)\(`([^`]*)`\)/g)].map(([, kind, path = '']) => (kind === 'PathRegexp' ? path : whole(kind, 'Path', path)));
    }],
    envoy: ['envoy/envoy.yaml', (text) => {
      const { route_config: config } = parse(text).static_resources.listeners[0].filter_chains[0].filters[0].typed_config;
      return (config.virtual_hosts[0].routes as { match: Record<string, any>; typed_per_filter_config?: unknown }[]) // oxlint-disable-line typescript/no-explicit-any -- YAML
        .filter(({ typed_per_filter_config: unasked }) => unasked !== undefined)
        .map(({ match }) => (match['safe_regex'] === undefined ? whole(match['path'] && 'path', 'path', match['path'] ?? match['prefix']) : `^${match['safe_regex'].regex}$`));
    }],
  };
  const withComment = (text: string) =>
    text.replace(/(# With interface\.account_endpoints, these too:\n)((?:[ \t]*# .*\n)+)/, (_all, head: string, lines: string) => head + lines.replaceAll(/^([ \t]*)# /gm, '$1'));
  const builtInPaths = (account: boolean) =>
    builtInRoutes({ tokenEndpoints: 'session', page: '/_latchkey/', assertion: true, account, oidc: true, resourcePath: null, readyPath: null }).filter(({ auth }) => auth !== 'deny').map(({ path }) => path.replace(/:\w+/g, 'x1'));
  const account = builtInPaths(true).filter((path) => !builtInPaths(false).includes(path));
  t.same([builtInPaths(false).length > 15, account.length], [true, 4]);
  const others = ['/', '/loginx', '/x/login', '/tokensx', '/customer/x', '/customer/x/y/tokens', '/customer/x/tokens/y', '/_latchkeyx', '/service/tokens/', '/verify/x', '/current_user/password', '/x/verify', '/sudox'];
  for (const [proxy, [file, patterns]] of Object.entries(READERS)) {
    const text = readFileSync(`examples/${file}`, 'utf8');
    const [plain, full] = [patterns(text), patterns(withComment(text))];
    const isOwn = (all: string[], path: string) => all.some((pattern) => new RegExp(pattern).test(path));
    t.ok(plain.length > 0, proxy);
    t.same(builtInPaths(false).filter((path) => !isOwn(plain, path)), [], proxy);
    t.same([...others, ...account].filter((path) => isOwn(plain, path)), [], proxy);
    t.same(builtInPaths(true).filter((path) => !isOwn(full, path)), [], `${proxy} with its comment`);
    t.same(others.filter((path) => isOwn(full, path)), [], `${proxy} with its comment`);
  }
}); // prettier-ignore

t.test("Envoy's gRPC example matches the HTTP one, except for the check itself", async (t) => {
  const read = (file: string) => parse(readFileSync(`examples/envoy/${file}`, 'utf8')).static_resources;
  const [http, grpc] = [read('envoy.yaml'), read('envoy-grpc.yaml')];
  const take = (config: typeof http) => {
    const [filter] = config.listeners[0].filter_chains[0].filters[0].typed_config.http_filters.splice(0, 1);
    return { check: filter.typed_config, cluster: config.clusters.pop() };
  };
  const { check, cluster } = take(grpc);
  const { check: byHttp } = take(http);
  t.same(grpc, http);
  const { allowed_headers: _, http_service: __, with_request_body: body, ...rest } = byHttp;
  const { encode_raw_headers: raw, transport_api_version: version, grpc_service: service, with_request_body: own, ...same } = check;
  t.same(same, rest);
  t.equal(same.failure_mode_allow, false);
  t.same(own, { ...body, pack_as_bytes: true });
  t.same([raw, version, service.envoy_grpc], [true, 'V3', { cluster_name: cluster.name }]);
  const { host, port } = loadConfig('examples/envoy/latchkey-grpc.yaml', {}).config.decision?.grpc ?? {};
  t.same(cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address, { address: host, port_value: port });
}); // prettier-ignore
