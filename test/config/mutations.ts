import { isMap, isScalar, isSeq, parse, parseDocument, stringify } from 'yaml';

/** Rewrites YAML in block style, because `{ a: ${B} }` would read the braces as a mapping. */
const block = (text: string) => stringify(parse(text));

/** A configuration with every section, as YAML. */
export const FULL = block(`
listen: { host: 127.0.0.1, port: 0, tls: null, trusted_proxies: [10.0.0.0/8, '::1'] }
admin: { host: 127.0.0.1, port: 0 }
decision: { host: 127.0.0.1, port: 0, grpc: { host: 127.0.0.1, port: 0 } }
workers: 1
interface:
  vendor: Service
  session_cookie: a.session
  token_endpoints: session
  account_endpoints: false
  ui: { enabled: true, path: /_latchkey/ }
store:
  type: redis
  url: redis://127.0.0.1:1/1
  prefix: 'latchkey:'
  tls: { ca: null, cert: null, key: null, server_name: a.example }
  username: someone
  password: a-password
  command_timeout: 250ms
  sealing_key: 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
on_store_failure: { serve_cached_for: 60s }
cache: { size: 1000, ttl: 30s, negative_ttl: 2s }
directory: { file: null, http: { url: 'http://127.0.0.1:1/login', timeout: 5s } }
sessions: { idle_timeout: 30m, absolute_timeout: 12h }
tokens: { max_per_user: 10, max_lifetime: 36500d, last_seen_interval: 1s, owner_login_within: 90d }
login:
  max_failures: 5
  lockout: 15m
  max_concurrent_hashes: 2
  public_url: https://api.example
  oidc:
    - name: sso
      title: Company
      issuer: https://idp.example
      client_id: latchkey
      client_secret: a-client-secret
      scopes: [openid, email]
      login_claim: email
      allow_unverified_email: false
      customer_id: C1
      roles: { claim: groups, map: { developers: superuser }, default: reader }
on_unauthenticated: login
webhooks: [{ url: 'https://hooks.example/services/a', secret: whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= }]
rate_limit: { writes_per_hour: 1000 }
limits:
  { connections: 1000, head_timeout: 20s, head_size: 16KiB, head_fields: 100, target_size: 8KiB, body_size: 64KiB, body_timeout: 15s, keep_alive: 65s, drain_timeout: 1s }
proxy: { stream_recheck: 30s }
audit: { to: ./audit.log, required: false }
log: { level: info, requests: all, sample: 1, fields: [path, client] }
tracing: { otlp: 'http://127.0.0.1:1', service_name: latchkey, sample_ratio: 1 }
upstreams:
  api:
    url: http://127.0.0.1:1/base
    connect_timeout: 2s
    response_timeout: 30s
    idle_timeout: 60s
    max_response_head: 64KiB
    retries: 1
    max_connections: 10
    max_waiting: 10
    wait_timeout: 10s
    health_check: { path: /healthz, interval: 5s, timeout: 2s }
    host: upstream
    tls: null
  other: { urls: ['http://127.0.0.1:1', 'https://127.0.0.1:2'], tls: { ca: null, cert: null, key: null, server_name: a.example } }
identity:
  preset: latchkey
  headers: { user_id: X-User, role: X-Role }
  forward_credentials: false
  assertion: { enabled: true, header: X-Assertion, issuer: 'https://a.example', audience: api, ttl: 60s, algorithm: EdDSA, rotate_after: 30d }
policy:
  roles: { superuser: { allow: ['*'], deny: [] }, reader: { allow: ['*:read'] } }
  scopes: { global: { allow: ['*'] } }
  service_limited: { deny: ['user:write'] }
routes:
  - { path: '/service/:id', methods: [GET, HEAD], action: service, service: id, auth: required, upstream: other }
  - { path: '/user/:id', methods: [DELETE], action: 'user:write', refuse_if_active_tokens: id }
  - { path: '/api/v1/*', action: api, strip_prefix: /api }
  - { path: /open, auth: none }
default_route: { action: api, upstream: api, auth: required }
`);

/** A directory with every field. */
export const DIRECTORY = block(`
customers: [{ id: C1, name: One }]
services: [{ id: S1, customer_id: C1, name: www }]
users:
  - id: U1
    customer_id: C1
    login: a@example.com
    name: A
    role: superuser
    password_hash: $argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA
    otp_secret: JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP
    locked: false
  - { id: U2, customer_id: C1, login: b@example.com, name: B, role: superuser, password: correct horse battery staple }
legacy_keys:
  - { customer_id: C1, key: my-old-key-1234, user_agent: curl }
  - { customer_id: C1, key_sha256: 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff }
tokens:
  - id: T1
    user_id: U1
    name: ci
    secret_sha256: ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100
    scope: [global]
    services: [S1]
    expires_at: 2030-01-31T12:00:00Z
`);

/** A place in a YAML text: its path, its current text, and a function that replaces it. */
export interface Place {
  readonly path: string;
  readonly written: string;
  /** Its value; undefined for mappings and lists. */
  readonly value: unknown;
  readonly with: (other: string) => string;
}

/** Returns every value of a text, including mappings and lists. */
export function placesOf(text: string): Place[] {
  const places: Place[] = [];
  const walk = (node: unknown, path: string): void => {
    if (isScalar(node) || isMap(node) || isSeq(node)) {
      const [from] = node.range as [number, number, number];
      const written = text.slice(from, node.range?.[1]).trimEnd();
      const to = from + written.length;
      if (path !== '')
        places.push({ path, written, value: isScalar(node) ? node.value : undefined, with: (other) => text.slice(0, from) + other + text.slice(to) });
    }
    if (isMap(node)) for (const { key, value } of node.items) walk(value, `${path}${path && '.'}${String(key)}`);
    if (isSeq(node)) for (const [i, item] of node.items.entries()) walk(item, `${path}.${i}`);
  };
  const document = parseDocument(text);
  walk(document.contents, '');
  return places;
} // prettier-ignore
