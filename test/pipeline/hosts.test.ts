import t from 'tap';
import { checkBytes } from '../helpers/grpc.js';
import { HANDSHAKE } from '../helpers/entrances.js';
import { PASSWORD } from '../helpers/fixture.js';
import { startInProcess } from '../helpers/in-process.js';

const UPSTREAMS = {
  api: { url: 'http://127.0.0.1:1' },
  git: { url: 'http://127.0.0.1:2' },
  wiki: { url: 'http://127.0.0.1:3' },
};
const HOSTS = {
  upstream: undefined,
  upstreams: UPSTREAMS,
  default_route: { upstream: 'api' },
  decision: { port: 0 },
  interface: { hosts: ['Login.example', 'api.example'] },
  routes: [
    { host: 'git.example', path: '/*', action: 'git', upstream: 'git' },
    { host: '*.example', path: '/*', action: 'wiki', upstream: 'wiki' },
    { host: '*.deep.example', path: '/open', auth: 'none', upstream: 'git' },
    { path: '/open', auth: 'none', upstream: 'api' },
  ],
}; // prettier-ignore

t.test('the host selects the routes, read in one way at every entrance', async (t) => {
  const { request, requestByHttp2, decide, decideByGrpc, token } = await startInProcess(t, HOSTS);
  const key = { 'Service-Key': await token('superuser') };
  const rows: [host: string, path: string, route: string][] = [
    ['git.example', '/a', 'git.example/*'],
    ['GIT.example:8443', '/a', 'git.example/*'],
    ['git.example.', '/a', 'git.example/*'],
    ['git.example.:80', '/open', 'git.example/*'],
    ['x.example', '/open', '*.example/*'],
    ['a.b.example', '/a', '*.example/*'],
    ['x.deep.example', '/open', '*.deep.example/open'],
    ['x.deep.example', '/a', '*.example/*'],
    ['example', '/open', '/open'],
    ['notgit.example.org', '/open', '/open'],
    ['[::1]:80', '/a', '/'],
    ['other', '/a', '/'],
  ];
  for (const [host, path, route] of rows) {
    const headers = { ...key, Host: host };
    const told = { ...key, Host: 'latchkey:9902', 'X-Forwarded-Host': host, 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': path };
    const logs = {
      'HTTP/1.1': await request(path, { headers }),
      'HTTP/2': await requestByHttp2(path, { headers }),
      'forward-auth without trust': await decide('/forward-auth', { headers: { ...told, Host: host, 'X-Forwarded-Host': 'git.example' } }),
      'auth-request': await decide('/auth-request', { headers: { ...headers, 'X-Original-Method': 'GET', 'X-Original-URI': path } }),
      ext_authz: await decide(`/ext_authz${path}`, { headers }),
      gRPC: await decideByGrpc(checkBytes({ method: 'GET', target: path, headers })),
    };
    for (const [entrance, { log }] of Object.entries(logs)) t.match(log.at(-1), { route, decision: 'allowed' }, `${host}${path} by ${entrance}`);
  }
}); // prettier-ignore

t.test('a trusted proxy names the host, and one host only', async (t) => {
  const { request, decide, token } = await startInProcess(t, { ...HOSTS, listen: { trusted_proxies: ['127.0.0.1'] } });
  const key = { 'Service-Key': await token('superuser') };
  const told = (host: string | string[]) => ({ ...key, Host: 'inner', 'X-Forwarded-Host': host, 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/a' });
  for (const [host, status, route] of [
    ['git.example', 200, 'git.example/*'],
    ['git.example, Git.example', 200, 'git.example/*'],
    ['evil.example, git.example', 400, undefined],
    [['git.example', 'other'], 400, undefined],
  ] as const) {
    const sent = await request('/a', { headers: told(host as string) });
    t.equal(sent.status, status, String(host));
    t.equal(sent.log.at(-1)?.['route'] ?? undefined, route);
    const asked = await decide('/forward-auth', { headers: told(host as string) });
    t.match(asked, { status: status === 200 ? 200 : 403, log: [status === 200 ? { route } : { outcome: 'malformed' }] });
  }
  const chain = await startInProcess(t, { listen: { trusted_proxies: ['127.0.0.1'] } });
  t.equal((await chain.request('/', { headers: told('a, b') })).status, 401, 'where no route has a host, a chain of proxies may list several');
}); // prettier-ignore

t.test('built-in endpoints take only their methods, and only on their hosts', async (t) => {
  const { request, requestByHttp2, decideByGrpc, token } = await startInProcess(t, HOSTS);
  const key = { 'Service-Key': await token('superuser') };
  for (const [method, path, ...built] of [
    ['GET', '/tokens', 'login.example', 'LOGIN.example:80'],
    ['POST', '/login', 'login.example'],
    ['GET', '/_latchkey/', 'login.example'],
    ['HEAD', '/_latchkey/openapi.json', 'login.example'],
  ] as const)
    for (const host of [...built, 'git.example', 'other']) {
      const isBuiltIn = (built as readonly string[]).includes(host);
      const { log, forwarded } = await requestByHttp2(path, { method, headers: { ...key, Host: host } });
      t.equal(forwarded?.upstream, isBuiltIn ? undefined : host === 'other' ? 'api' : 'git', `${method} ${host}${path}`);
      t.equal(log.at(-1)?.['outcome'] === 'forwarded', !isBuiltIn);
      const checked = await decideByGrpc(checkBytes({ method, target: path, headers: { ...key, Host: host } }));
      t.match(checked.log.at(-1), { outcome: isBuiltIn ? 'own_endpoint' : 'allowed' });
    }
  for (const [method, path] of [
    ['GET', '/login'],
    ['PUT', '/tokens'],
    ['PATCH', '/login'],
    ['OPTIONS', '/tokens'],
    ['MKCOL', '/_latchkey/'],
    ['GET', '/tokens/a/b'],
  ] as const) {
    const { forwarded } = await request(path, { method, headers: { ...key, Host: 'login.example' } });
    t.match(forwarded, { upstream: 'wiki', target: path }, `${method} ${path} is the application's`);
  }
  const refused = await request('/_latchkey/x', { headers: { ...key, Host: 'login.example' } });
  t.match(refused, { status: 404, forwarded: undefined }, 'nothing is read from below the page');
}); // prettier-ignore

t.test('the web page is offered only where it is', async (t) => {
  const config = { ...HOSTS, on_unauthenticated: 'login' };
  const { request } = await startInProcess(t, config);
  const opened = async (host: string, path: string) => (await request(path, { headers: { Accept: 'text/html', Host: host } })).headers['location'];
  t.same([await opened('login.example', '/'), await opened('login.example', '/a')], ['/_latchkey/?return_to=%2F', '/_latchkey/?return_to=%2Fa']);
  t.same([await opened('git.example', '/'), await opened('git.example', '/a')], [undefined, undefined]);
}); // prettier-ignore

t.test('behind a proxy that drops the port, configured origins are the same origin', async (t) => {
  const { request, handshake, login } = await startInProcess(t, {
    listen: { public_origins: ['http://intranet.test:8080'] },
    login: { public_url: 'https://api.example:8443' },
    routes: [{ path: '/ws', action: 'app' }],
  });
  const Cookie = await login('superuser');
  const body = new URLSearchParams({ user: 'user@example.com', password: PASSWORD });
  for (const [Host, Origin, isOwn] of [
    ['intranet.test', 'http://intranet.test:8080', true],
    ['api.example', 'https://api.example:8443', true],
    ['intranet.test', 'http://intranet.test:8081', false],
  ] as const) {
    const opened = await handshake('/ws', { headers: { ...HANDSHAKE, Cookie, Host, Origin } });
    t.equal(opened.forwarded !== undefined, isOwn, `a WebSocket of ${Origin}`);
    const { status, log } = await request('/login', { method: 'POST', headers: { Host, Origin }, body });
    t.equal(status, isOwn ? 200 : 403, `a login of ${Origin}`);
    const detail = `it has Origin ${Origin}, expected https://${Host} or http://${Host} or https://api.example:8443`;
    if (!isOwn) t.match(log.find(({ msg }) => msg === 'request'), { outcome: 'cross_origin', detail });
  }
}); // prettier-ignore

t.test('default_route covers what a route for everything covers, byte for byte', async (t) => {
  const paths = [
    '/@scope%2Fname', '/@scope%2fname/-/name-1.0.0.tgz', '/api/v4/projects/group%2Fproject', '/api/queues/%2F/q', '/a//b',
    '/a//', '/a/', '/a%20b', '/%7Euser', '/a;v=1/b', '/a;b', '/a{b}', '/a%3Fb', '/a%23', '/A/b', '/a%2F%2Fb', '/%E6%97%A5', '/a|b',
    '/a/%2e%2e/b', '/./a', '/a/..', '//a', '/a%2Fb;c', '/a%00', '/a%5Cb', '/%c0%ae', '/ａ／b', '/a%', '/login/', '/Tokens', '/login;x',
  ].map((path) => (/[^\0-\x7f]/.test(path) ? encodeURI(path) : path));
  const byDefault = await startInProcess(t, { routes: [] });
  const byRoute = await startInProcess(t, { routes: [{ path: '/*', action: 'api' }] });
  let served = 0;
  for (const [server, key] of [[byDefault, await byDefault.token('superuser')], [byRoute, await byRoute.token('superuser')]] as const)
    for (const method of ['GET', 'POST'])
      for (const path of paths)
        for (const send of [server.request, server.requestByHttp2]) {
          const { status, forwarded } = await send(`${path}?q=%2F//`, { method, headers: { 'Service-Key': key } });
          t.equal(forwarded?.target, status === 200 ? `${path}?q=%2F//` : undefined, `${method} ${path}: ${status}`);
          served += server === byDefault ? Number(status === 200) : -Number(status === 200);
        }
  t.equal(served, 0, 'both serve the same paths');
  const { request, token } = await startInProcess(t, { routes: [{ path: '/admin/*', auth: 'deny' }, { path: '/x/:id', action: 'x' }] });
  const headers = { 'Service-Key': await token('superuser') };
  for (const [path, status] of [
    ['/a%2Fb', 200], ['/a//b', 200], ['/x/a%2Fb', 400], ['/admin%2Fx', 400], ['//admin/x', 400], ['/a//admin/x', 200], ['/x//a', 400],
  ] as const) t.equal((await request(path, { headers })).status, status, path);
}); // prettier-ignore
