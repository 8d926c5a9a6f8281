import type { Refusal } from '../../domain/refusal.js';
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

/** The parts of a check request that are read. */
export interface CheckRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly rawHeaders: readonly string[];
}

/** A forward-auth protocol. */
export interface ForwardAuthProtocol {
  /** Its path on the decision port. */
  readonly path: string;
  /** Fields with the method and target; null if the check itself has them, after the path. */
  readonly fields: readonly [method: OriginalField, target: OriginalField] | null;
  /**
   * Original names of fields that the proxy renames, by new name in lower case.
   *
   * They describe one message or connection, so under their own names they would describe the
   * check. Empty if the check has these fields whenever the request has them.
   */
  readonly renamed: ReadonlyMap<string, string>;
  /** Whether the response lists fields for the proxy to remove. */
  readonly namesRemoved: boolean;
  /** Whether nginx asks: it takes any refusal but 401 and 403 for an error. */
  readonly isNginx: boolean;
}

interface OriginalField {
  readonly name: string;
  readonly lowerName: string;
  /** How to configure the proxy to send it, for error messages. */
  readonly hint: string;
}

const NOT_RENAMED: ReadonlyMap<string, string> = new Map();

const FORWARDED_HINT = 'Traefik and Caddy set it; configure any other proxy to do so';

/**
 * The supported protocols. Only the fields of the one in use count: clients
 * may send those of another.
 *
 * nginx `auth_request` has no standard names. Traefik `forwardAuth` and Caddy `forward_auth` have
 * their own. Envoy's HTTP `ext_authz` prepends its `path_prefix` to the path and keeps the method.
 */
export const PROTOCOLS: readonly ForwardAuthProtocol[] = [
  {
    path: '/auth-request',
    fields: [
      field('X-Original-Method', 'in nginx: proxy_set_header X-Original-Method $request_method'),
      field('X-Original-URI', 'in nginx: proxy_set_header X-Original-URI $request_uri'),
    ],
    renamed: new Map([
      ['x-original-content-length', 'Content-Length'],
      ['x-original-transfer-encoding', 'Transfer-Encoding'],
      ['x-original-upgrade', 'Upgrade'],
    ]),
    namesRemoved: false,
    isNginx: true,
  },
  {
    path: '/forward-auth',
    fields: [field('X-Forwarded-Method', FORWARDED_HINT), field('X-Forwarded-Uri', FORWARDED_HINT)],
    renamed: NOT_RENAMED,
    namesRemoved: false,
    isNginx: false,
  },
  { path: '/ext_authz', fields: null, renamed: NOT_RENAMED, namesRemoved: true, isNginx: false },
];

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
  { method = '', url = '', rawHeaders }: CheckRequest,
): OriginalRequest | Refusal {
  const fields = protocol.renamed.size === 0 ? rawHeaders : restored(rawHeaders, protocol.renamed);
  if (protocol.fields === null) return { method, target: url.slice(protocol.path.length), fields };
  const [ofMethod, ofTarget] = protocol.fields;
  const originalMethod = readField(rawHeaders, ofMethod);
  if (typeof originalMethod !== 'string') return originalMethod;
  const reported = protocol.isNginx ? readUrl(rawHeaders) : undefined;
  if (reported !== undefined && 'refusal' in reported) return reported;
  if (reported !== undefined && firstField(rawHeaders, ofTarget.lowerName) === undefined)
    return { ...reported, method: originalMethod, fields: withUrl(fields, reported) };
  const target = readField(rawHeaders, ofTarget);
  if (typeof target !== 'string') return target;
  // Clients may send the field that the proxy does not set.
  if (reported !== undefined && reported.target !== target) return differs('targets');
  return { method: originalMethod, target, fields, host: reported?.host };
}

/** Refuses a check whose URL has another host than the client is known to have requested. */
export function refuseHost({ host }: OriginalRequest, { client }: RequestHead): Refusal | undefined {
  if (host === undefined || host.toLowerCase() === client.host.toLowerCase()) return undefined;
  return differs('hosts');
}

/** The URL of the original request, as ingress-nginx reports it. */
interface OriginalUrl {
  readonly scheme: string;
  readonly host: string;
  readonly target: string;
}

/** Reads `X-Original-URL`. Anything but an absolute URL is some client's, and ignored. */
function readUrl(fields: readonly string[]): OriginalUrl | Refusal | undefined {
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
function withUrl(fields: readonly string[], { scheme, host }: OriginalUrl): string[] {
  const kept = fields.filter((_, i) => !OF_URL.has((fields[i - (i % 2)] as string).toLowerCase()));
  return [...kept, 'Host', host, 'X-Forwarded-Proto', scheme];
}

function differs(what: 'targets' | 'hosts'): Refusal {
  const fix =
    what === 'targets'
      ? 'X-Original-URI name different targets; let the proxy set both, or remove one of them'
      : 'Host or X-Forwarded-Host name different hosts; list the proxy in listen.trusted_proxies, and let it set X-Forwarded-Host or remove X-Original-URL';
  return malformedCheck(`X-Original-URL and ${fix}`);
}

/**
 * Restores the original names of renamed fields.
 *
 * If the check has such a field of its own, it is then repeated, which the head reader refuses.
 */
function restored(fields: readonly string[], renamed: ReadonlyMap<string, string>): string[] {
  return fields.map((text, i) => (i % 2 === 0 ? (renamed.get(text.toLowerCase()) ?? text) : text));
}

/**
 * Returns whether a check is about a WebSocket handshake: some proxies do not pass on `Upgrade`.
 */
export function isHandshakeCheck(fields: readonly string[]): boolean {
  return firstField(fields, 'sec-websocket-key') !== undefined;
}

function field(name: string, hint: string): OriginalField {
  return { name, lowerName: name.toLowerCase(), hint };
}

function readField(fields: readonly string[], { name, lowerName, hint }: OriginalField): string | Refusal {
  let found: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    if ((fields[i] as string).toLowerCase() !== lowerName) continue;
    if (found !== undefined) return malformedCheck(`the header ${name} was sent more than once; ${hint}`);
    found = fields[i + 1] as string;
  }
  if (found === undefined) return malformedCheck(`the header ${name} is missing; ${hint}`);
  return found === '' ? malformedCheck(`the header ${name} is empty; ${hint}`) : found;
}

function malformedCheck(detail: string): Refusal {
  return { refusal: 'malformed_check', detail };
}
