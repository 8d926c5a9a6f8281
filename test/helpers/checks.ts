import { type Reply, send } from './http.js';

/** The client's request, as the proxy received it. */
interface ClientRequest {
  readonly method: string;
  readonly target: string;
  readonly headers?: Record<string, string | string[]>;
}

/** Queries a decision port the way one kind of proxy does. */
export type Ask = (decision: string, request: ClientRequest) => Promise<Reply>;

/**
 * The check requests of each proxy, field by field.
 *
 * - nginx 1.22, ngx_http_auth_request_module: a subrequest with GET; the client's header fields and
 *   those of `proxy_set_header`. `Connection`, `TE` and `Expect` of the client are never copied
 *   (ngx_http_proxy_module).
 * - Traefik 3, pkg/middlewares/auth/forward.go (`ServeHTTP`, `writeHeader`): GET; the client's
 *   header fields without the hop-by-hop ones, and its own X-Forwarded-Method, -Proto, -Host, -Uri
 *   and -For.
 * - Caddy 2.6, modules/caddyhttp/reverseproxy/forwardauth: GET; `rewrite {uri}` appends the
 *   client's query to the check path; X-Forwarded-Method and X-Forwarded-Uri; the client's
 *   `Upgrade` is copied.
 * - Envoy 1.30, source/extensions/filters/common/ext_authz/ext_authz_http_impl.cc (`check`): the
 *   client's method, the path after `path_prefix`, `Content-Length: 0`, and the fields of
 *   `allowed_headers`.
 */
export const PROXIES: Readonly<Record<'nginx' | 'Traefik' | 'Caddy' | 'Envoy', Ask>> = {
  nginx: (decision, { method, target, headers }) =>
    send(decision, '/auth-request', {
      headers: {
        ...headers,
        'X-Original-Method': method,
        'X-Original-URI': target,
        'X-Forwarded-For': '203.0.113.9',
        'X-Forwarded-Proto': 'http',
      },
    }),
  Traefik: (decision, { method, target, headers }) =>
    send(decision, '/forward-auth', {
      headers: {
        ...headers,
        'X-Forwarded-Method': method,
        'X-Forwarded-Proto': 'http',
        'X-Forwarded-Host': String(headers?.['Host'] ?? 'api.example.com'),
        'X-Forwarded-Uri': target,
        'X-Forwarded-For': '203.0.113.9',
        Host: 'latchkey:9902',
      },
    }),
  Caddy: (decision, { method, target, headers }) =>
    send(decision, `/forward-auth${target.includes('?') ? target.slice(target.indexOf('?')) : ''}`, {
      headers: {
        ...headers,
        'X-Forwarded-For': '203.0.113.9',
        'X-Forwarded-Proto': 'http',
        'X-Forwarded-Host': String(headers?.['Host'] ?? 'api.example.com'),
        'X-Forwarded-Method': method,
        'X-Forwarded-Uri': target,
      },
    }),
  Envoy: (decision, { method, target, headers }) =>
    send(decision, `/ext_authz${target}`, {
      method,
      headers: {
        ...headers,
        'Content-Length': '0',
        'X-Envoy-Internal': 'true',
        'X-Forwarded-For': '203.0.113.9',
        'X-Envoy-Expected-Rq-Timeout-Ms': '500',
      },
    }),
};

/** Returns the identity headers, and the upstream credentials if any, from a check response. */
export function identityOf(headers: Reply['headers']): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => name.startsWith('x-auth-') || name === 'cookie' || name === 'authorization',
    ),
  );
}
