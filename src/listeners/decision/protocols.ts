import type { Refusal } from '../../domain/refusal.js';
import type { ParsedRequest } from '../../http/exchange.js';
import { fieldValues, firstField } from '../../http/fields.js';
import type { RequestHead } from '../../http/head.js';

/** The original request that a proxy asks about. */
export interface OriginalRequest {
  readonly method: string;
  /** The request target with its query, as reported by the proxy. */
  readonly target: string;
  /** The fields of the check. Those that the proxy had to rename have their original names. */
  readonly fields: readonly string[];
  /** The host of the request's URL, if the proxy reports one. */
  readonly host?: string | undefined;
}

/** A forward-auth protocol. */
export interface ForwardAuthProtocol {
  /** Its path on the decision port. */
  readonly path: string;
  readonly proxy: 'nginx' | 'envoy' | 'other';
  /** Names of the fields with the method and target; null if the check itself has them, after the path. */
  readonly fields: { readonly method: string; readonly target: string } | null;
  /** How to configure the proxy to send these fields, for error messages. */
  readonly hint: string;
}

/**
 * The supported protocols. Only the fields of the one in use count: clients may send those of another.
 * nginx `auth_request` has no standard names. Traefik `forwardAuth` and Caddy `forward_auth` have their own.
 * Envoy's HTTP `ext_authz` prepends its `path_prefix` to the path and keeps the method.
 */
export const PROTOCOLS: readonly ForwardAuthProtocol[] = [
  {
    path: '/auth-request',
    proxy: 'nginx',
    fields: { method: 'X-Original-Method', target: 'X-Original-URI' },
    hint: 'in nginx: proxy_set_header X-Original-Method $request_method; proxy_set_header X-Original-URI $request_uri',
  },
  {
    path: '/forward-auth',
    proxy: 'other',
    fields: { method: 'X-Forwarded-Method', target: 'X-Forwarded-Uri' },
    hint: 'Traefik and Caddy set it; configure any other proxy to do so',
  },
  { path: '/ext_authz', proxy: 'envoy', fields: null, hint: '' },
];

/**
 * Original names of the fields that nginx has to rename, by their new names in lower case: they describe one
 * message or connection, so under their own names they would describe the check.
 */
const RENAMED: ReadonlyMap<string, string> = new Map([
  ['x-original-content-length', 'Content-Length'],
  ['x-original-transfer-encoding', 'Transfer-Encoding'],
  ['x-original-upgrade', 'Upgrade'],
]);

/** Returns the protocol of a path on the decision port. A query on the check URL is ignored. */
export function protocolOf(url: string): ForwardAuthProtocol | undefined {
  const question = url.indexOf('?');
  const path = question < 0 ? url : url.slice(0, question);
  for (const protocol of PROTOCOLS) {
    if (protocol.fields === null ? path.startsWith(`${protocol.path}/`) : path === protocol.path)
      return protocol;
  }
  return undefined;
}

/** Reads the request that a check is about, or refuses a check that leaves it unclear. */
export function readOriginalRequest(
  protocol: ForwardAuthProtocol,
  { method = '', url = '', rawHeaders }: Pick<ParsedRequest, 'method' | 'url' | 'rawHeaders'>,
): OriginalRequest | Refusal {
  if (protocol.fields === null)
    return { method, target: url.slice(protocol.path.length), fields: rawHeaders };
  const isNginx = protocol.proxy === 'nginx';
  const fields = isNginx ? restored(rawHeaders) : rawHeaders;
  const originalMethod = readField(rawHeaders, protocol.fields.method, protocol.hint);
  if (typeof originalMethod !== 'string') return originalMethod;
  const reported = isNginx ? readUrl(rawHeaders) : undefined;
  if (reported !== undefined && 'refusal' in reported) return reported;
  const { target: name } = protocol.fields;
  if (reported !== undefined && firstField(rawHeaders, name.toLowerCase()) === undefined)
    return { ...reported, method: originalMethod, fields: withUrl(fields, reported) };
  const target = readField(rawHeaders, name, protocol.hint);
  if (typeof target !== 'string') return target;
  // Clients may send the field that the proxy does not set.
  if (reported !== undefined && reported.target !== target)
    return malformedCheck(
      'X-Original-URL and X-Original-URI name different targets; let the proxy set both, or remove one of them',
    );
  return { method: originalMethod, target, fields, host: reported?.host };
}

/** Refuses a check whose URL has another host than the client is known to have requested. */
export function refuseHost({ host }: OriginalRequest, { client }: RequestHead): Refusal | undefined {
  if (host === undefined || host.toLowerCase() === client.host.toLowerCase()) return undefined;
  return malformedCheck(
    'X-Original-URL and Host or X-Forwarded-Host name different hosts; list the proxy in listen.trusted_proxies, and let it set X-Forwarded-Host or remove X-Original-URL',
  );
}

/**
 * Reads `X-Original-URL`, in which ingress-nginx reports the URL of the original request. Anything but an
 * absolute URL is some client's, and ignored.
 */
function readUrl(fields: readonly string[]) {
  const values = fieldValues(fields, 'x-original-url');
  const url = values.map((value) => ABSOLUTE_URL.exec(value)).find((match) => match !== null);
  if (url === undefined) return undefined;
  if (values.length > 1) return malformedCheck('the header X-Original-URL was sent more than once');
  const [, scheme = '', host = '', target = ''] = url;
  return { scheme, host, target };
}

const ABSOLUTE_URL = /^(https?):\/\/([^/?#]+)(\/.*)$/;

const OF_URL: ReadonlySet<string> = new Set(['host', 'x-forwarded-host', 'x-forwarded-proto']);

/** Replaces what the fields say about the host and scheme: ingress-nginx sets none of them. */
function withUrl(
  fields: readonly string[],
  { scheme, host }: { readonly scheme: string; readonly host: string },
): string[] {
  const kept = fields.filter((_, i) => !OF_URL.has((fields[i - (i % 2)] as string).toLowerCase()));
  return [...kept, 'Host', host, 'X-Forwarded-Proto', scheme];
}

/** A check that has such a field of its own then has it twice, which the head reader refuses. */
function restored(fields: readonly string[]): string[] {
  return fields.map((text, i) => (i % 2 === 0 ? (RENAMED.get(text.toLowerCase()) ?? text) : text));
}

function readField(fields: readonly string[], name: string, hint: string): string | Refusal {
  const [value, ...more] = fieldValues(fields, name.toLowerCase());
  if (value !== undefined && value !== '' && more.length === 0) return value;
  const fault = more.length > 0 ? 'was sent more than once' : value === '' ? 'is empty' : 'is missing';
  return malformedCheck(`the header ${name} ${fault}; ${hint}`);
}

export function malformedCheck(detail: string): Refusal {
  return { refusal: 'malformed_check', detail };
}
