import t from 'tap';
import { checkBytes } from '../helpers/grpc.js';
import { SILENT_PROVIDER } from '../helpers/identity-provider.js';
import { startInProcess } from '../helpers/in-process.js';

const server = await startInProcess(t, {
  listen: { host: '127.0.0.1', port: 0, trusted_proxies: ['127.0.0.1'] },
  on_unauthenticated: 'login',
  login: { oidc: [SILENT_PROVIDER], public_url: 'https://api.example' },
  routes: [
    { host: 'open.example', path: '/*', auth: 'none' },
    { path: '/sso/*', action: 'app', on_unauthenticated: { login: 'sso' } },
    { path: '/json/*', action: 'app', on_unauthenticated: 'json' },
  ],
});
const { decide, decideByGrpc } = server;
type Fields = Record<string, string>;

const PAGE = {
  Accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
  'Sec-Fetch-Mode': 'navigate',
  'Sec-Fetch-Dest': 'document',
};
const HERE = { 'X-Forwarded-Host': 'api.example', 'X-Forwarded-Proto': 'https' };
const nginx = (target: string) => ({ 'X-Original-Method': 'GET', 'X-Original-URI': target });
const forwardAuth = (target: string) => ({ 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': target });

/** How each proxy asks about a page: the status of a redirect there, and the origin of its Location. */
const PROXIES: Record<string, [number, string, (target: string, fields: Fields) => Promise<{ status: number; headers: Record<string, unknown> }>]> = {
  nginx: [401, '', (target, fields) => decide('/auth-request', { headers: { ...fields, ...nginx(target) } })],
  'ingress-nginx': [401, 'https://api.example', (target, fields) =>
    decide('/auth-request', { headers: { ...fields, Host: 'latchkey:9902', 'X-Original-Method': 'GET', 'X-Original-URL': `https://api.example${target}` } })],
  Caddy: [303, '', (target, fields) => decide('/forward-auth', { headers: { ...fields, ...HERE, ...forwardAuth(target) } })],
  // It resolves a Location against the address of the check.
  Traefik: [303, 'https://api.example', (target, fields) =>
    decide('/forward-auth', { headers: { ...fields, ...HERE, ...forwardAuth(target), Host: 'latchkey:9902' } })],
  Envoy: [303, '', (target, fields) => decide(`/ext_authz${target}`, { headers: fields })],
  'Envoy over gRPC': [303, '', (target, fields) => decideByGrpc(checkBytes({ method: 'GET', target, headers: fields }))],
}; // prettier-ignore

t.test('page requests get the login with the escaped target, all others JSON', async (t) => {
  const target = '/orders?from=2026-01&to=2026-02&q=a%26b';
  const query = '?return_to=%2Forders%3Ffrom%3D2026-01%26to%3D2026-02%26q%3Da%2526b';
  t.equal(new URLSearchParams(query).get('return_to'), target);
  for (const [name, [status, origin, ask]] of Object.entries(PROXIES)) {
    const sent = async (path: string, fields: Fields = PAGE) => {
      const { status, headers } = await ask(path, fields);
      return [status, headers['location']];
    };
    t.same(await sent(target), [status, `${origin}/_latchkey/${query}`], name);
    t.same(await sent('/sso/a'), [status, `${origin}/_latchkey/oidc/sso/login?return_to=%2Fsso%2Fa`], `${name}: a provider`);
    t.same(await sent(`/${'a'.repeat(2_048)}`), [status, `${origin}/_latchkey/`], `${name}: too long to return to`);
    for (const fields of [{}, { Accept: 'application/json' }, { ...PAGE, 'Service-Key': 'x' }, { ...PAGE, 'Sec-Fetch-Dest': 'iframe' }])
      t.same(await sent(target, fields), [401, undefined], `${name}: ${JSON.stringify(fields)}`);
    t.same(await sent('/json/a', PAGE), [401, undefined], `${name}: a route without`);
  }
}); // prettier-ignore

t.test('X-Original-URL counts alone, or if it agrees with everything else', async (t) => {
  const ask = async (fields: Fields) => {
    const { status, json } = await decide('/auth-request', { headers: { 'X-Original-Method': 'GET', ...fields } });
    return [status, json?.detail ?? ''] as const;
  };
  const open = 'https://open.example/x';
  const rows: [string, Fields, number, RegExp][] = [
    ['the proxy sets it alone', { Host: 'latchkey', 'X-Original-URL': open }, 200, /^$/],
    ['a client sends a host', { Host: 'latchkey', 'X-Original-URL': 'https://api.example/x', 'X-Forwarded-Host': 'open.example' }, 401, /^/],
    ['the proxy sets both', { ...nginx('/x'), Host: 'latchkey', 'X-Forwarded-Host': 'open.example', 'X-Original-URL': open }, 200, /^$/],
    ['a client sends the target', { ...nginx('/y'), Host: 'open.example', 'X-Original-URL': open }, 403, /X-Original-URI name different targets/],
    ['a client sends another host than Host', { ...nginx('/x'), Host: 'api.example', 'X-Original-URL': open }, 403, /X-Forwarded-Host name different hosts/],
    ['a client sends a path', { ...nginx('/x'), Host: 'api.example', 'X-Original-URL': '/y' }, 401, /^/],
    ['only a path', { Host: 'api.example', 'X-Original-URL': '/y' }, 403, /X-Original-URI is missing/],
    ['no host', { Host: 'api.example', 'X-Original-URL': 'https:///y' }, 403, /X-Original-URI is missing/],
    ['a user in the URL', { Host: 'api.example', 'X-Original-URL': 'https://a@open.example/y' }, 403, /Host header is not a host name/],
  ];
  for (const [what, fields, status, detail] of rows) t.match(await ask(fields), [status, detail], what);
}); // prettier-ignore
