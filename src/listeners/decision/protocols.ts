import type { Refusal } from '../../domain/refusal.js';
import { firstField } from '../../http/fields.js';

/** What a proxy asks about: the request of its client. */
export interface Asked {
  readonly method: string;
  /** The request target with its query, as the proxy says that its client sent it. */
  readonly target: string;
  /** The fields of the check, with those that the proxy can only tell under another name under their own. */
  readonly fields: readonly string[];
}

/** What is read of a check request. */
export interface CheckRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly rawHeaders: readonly string[];
}

/** A protocol in which proxies ask. */
export interface ForwardAuthProtocol {
  /** Its path on the decision port. */
  readonly path: string;
  /** Fields that hold the method and the target; null: they are the check request's own, behind the path. */
  readonly fields: readonly [method: AskedField, target: AskedField] | null;
  /**
   * What the proxy calls the fields of its client that are about one message or connection, and so are not the check's:
   * their names by these, in lower case. Empty where the check has those fields itself when the request has them.
   */
  readonly renamed: ReadonlyMap<string, string>;
  /** The answer names fields that the proxy has to remove from the request. */
  readonly namesRemoved: boolean;
}

interface AskedField {
  readonly name: string;
  readonly lowerName: string;
  /** How it comes to be there, for who left it out. */
  readonly hint: string;
}

const NOT_RENAMED: ReadonlyMap<string, string> = new Map();

const FORWARDED_HINT = 'Traefik and Caddy set it; configure any other proxy to do so';

/**
 * The protocols. Only the fields of the one in use count: a client may send those of another.
 *
 * nginx `auth_request` has no names of its own; Traefik `forwardAuth` and Caddy `forward_auth` have theirs; Envoy's HTTP
 * `ext_authz` puts its `path_prefix` before the path and keeps the method.
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
  },
  {
    path: '/forward-auth',
    fields: [field('X-Forwarded-Method', FORWARDED_HINT), field('X-Forwarded-Uri', FORWARDED_HINT)],
    renamed: NOT_RENAMED,
    namesRemoved: false,
  },
  { path: '/ext_authz', fields: null, renamed: NOT_RENAMED, namesRemoved: true },
];

/** The protocol of a path on the decision port; a query string on the check URL is ignored. */
export function protocolOf(url: string): ForwardAuthProtocol | undefined {
  const question = url.indexOf('?');
  const path = question < 0 ? url : url.slice(0, question);
  for (const protocol of PROTOCOLS) {
    if (protocol.fields === null ? path.startsWith(`${protocol.path}/`) : path === protocol.path)
      return protocol;
  }
  return undefined;
}

/** Reads what a check request asks about, or refuses one that does not say it once and for all. */
export function readAsked(
  protocol: ForwardAuthProtocol,
  { method = '', url = '', rawHeaders }: CheckRequest,
): Asked | Refusal {
  const fields = protocol.renamed.size === 0 ? rawHeaders : restored(rawHeaders, protocol.renamed);
  if (protocol.fields === null) return { method, target: url.slice(protocol.path.length), fields };
  const [ofMethod, ofTarget] = protocol.fields;
  const askedMethod = readField(rawHeaders, ofMethod);
  if (typeof askedMethod !== 'string') return askedMethod;
  const target = readField(rawHeaders, ofTarget);
  return typeof target === 'string' ? { method: askedMethod, target, fields } : target;
}

/** Fields that the proxy sent, under their own names. One that the check has as well is there twice then, which no head may have. */
function restored(fields: readonly string[], renamed: ReadonlyMap<string, string>): string[] {
  return fields.map((text, i) => (i % 2 === 0 ? (renamed.get(text.toLowerCase()) ?? text) : text));
}

/** Whether the request asked about is a WebSocket handshake: of some proxies `Upgrade` does not come through. */
export function asksAboutHandshake(fields: readonly string[]): boolean {
  return firstField(fields, 'sec-websocket-key') !== undefined;
}

function field(name: string, hint: string): AskedField {
  return { name, lowerName: name.toLowerCase(), hint };
}

function readField(fields: readonly string[], { name, lowerName, hint }: AskedField): string | Refusal {
  let found: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    if ((fields[i] as string).toLowerCase() !== lowerName) continue;
    if (found !== undefined) return malformedCheck(`the field ${name} was sent more than once; ${hint}`);
    found = fields[i + 1] as string;
  }
  if (found === undefined) return malformedCheck(`the field ${name} is missing; ${hint}`);
  return found === '' ? malformedCheck(`the field ${name} is empty; ${hint}`) : found;
}

function malformedCheck(detail: string): Refusal {
  return { refusal: 'malformed_check', detail };
}
