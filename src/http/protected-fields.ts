/**
 * Folds a field name to the form in which protected names are compared: lower case, with `-` for every
 * character other than a letter or digit. Most gateways map these to `_` in variables (RFC 3875 4.1.18):
 * lighttpd's `HTTP_X_AUTH_ROLE` may have been `X-Auth-Role` or `X~Auth~Role`.
 */
export function foldName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '-');
}

// Folded names that upstreams or their frameworks are known to read. Full names, because clients legitimately
// send X-Original-Filename, X-Method or Uri.

/** Fields that could make an upstream see another request than the authorized one. */
export const OVERRIDES: readonly string[] = [
  // Another method.
  'x-http-method', 'x-http-method-override', 'x-method-override', 'x-original-method',
  'x-envoy-original-method',
  // Another target: all of it, its path or mount point. gunicorn honors the last three from trusted addresses.
  'x-original-url', 'x-original-uri', 'x-original-path', 'x-original-prefix', 'x-original-request-uri',
  'x-override-url', 'x-rewrite-url', 'x-rewrite-uri', 'x-rewrite-path', 'x-request-uri', 'request-uri',
  'x-envoy-original-path', 'x-replaced-path', 'x-waws-unencoded-url', 'x-proxy-url', 'proxy-url',
  'x-http-destinationurl',
  'script-name', 'path-info', 'x-script-name',
  // Rack::Sendfile responds with a path for the proxy in front.
  'x-sendfile-type', 'x-accel-mapping',
  // A host other than that of `Host`.
  'x-host', 'x-host-override', 'x-http-host', 'x-http-host-override', 'x-original-host',
  'x-envoy-original-host', 'x-envoy-original-dst-host', 'disguised-host', 'proxy-host',
  // A scheme or port other than that of the client's connection.
  'x-scheme', 'x-url-scheme', 'x-original-proto', 'x-original-scheme', 'x-original-port', 'front-end-https',
  'x-arr-ssl', 'wl-proxy-ssl', 'fastly-ssl', 'cf-visitor', 'cloudfront-forwarded-proto',
  // The client's certificate; whoever terminates TLS must remove these (RFC 9440 2.4).
  'client-cert', 'client-cert-chain',
]; // prettier-ignore

/** Fields in which proxies and content delivery networks report the client's address. */
export const ADDRESSES: readonly string[] = [
  'forwarded', 'forwarded-for', 'x-forwarded', 'x-forward-for', 'x-forwarder-for', 'x-original-for',
  'x-original-forwarded-for', 'x-original-remote-addr', 'x-real-ip', 'real-ip', 'client-ip', 'x-client-ip',
  'x-cluster-client-ip', 'true-client-ip', 'x-true-client-ip', 'remote-addr', 'remote-host', 'remote-ip',
  'x-remote-addr', 'x-remote-host', 'x-remote-ip', 'x-originating-ip', 'x-coming-from', 'x-proxyuser-ip',
  'x-custom-ip-authorization', 'proxy-client-ip', 'wl-proxy-client-ip', 'cf-connecting-ip',
  'cf-connecting-ipv6', 'cf-pseudo-ipv4', 'cf-connecting-o2o', 'fastly-client-ip', 'fly-client-ip',
  'do-connecting-ip', 'incap-client-ip', 'x-sucuri-clientip', 'x-nf-client-connection-ip',
  'x-vercel-forwarded-for', 'cloudfront-viewer-address', 'ali-cdn-real-ip', 'cdn-src-ip',
  'x-azure-clientip', 'x-azure-socketip', 'x-appengine-user-ip', 'x-appengine-remote-addr',
  'x-envoy-external-address', 'x-envoy-internal',
]; // prettier-ignore

/** Hop-by-hop fields (RFC 9110 7.6.1), and `Proxy`, which CGI programs read as `http_proxy`. */
export const HOP_BY_HOP: readonly string[] = [
  'connection', 'keep-alive', 'proxy-connection', 'proxy-authorization', 'proxy-authenticate', 'te',
  'trailer', 'upgrade', 'http2-settings', 'proxy',
]; // prettier-ignore

/** Fields that frame and route a message; the forwarder sets these itself. */
const FRAMING: readonly string[] = ['content-length', 'transfer-encoding', 'expect', 'host', 'x-request-id'];

/** Names that are never forwarded from a client to an upstream, whatever the configuration. */
export const NEVER_FORWARDED: readonly string[] = [...OVERRIDES, ...ADDRESSES, ...HOP_BY_HOP, ...FRAMING];

/** Folded prefix of the fields in which proxies report what they saw; rewritten, never passed on. */
export const FORWARDED_PREFIX = 'x-forwarded-';

/** Names that the configuration adds to {@link NEVER_FORWARDED}. */
export interface ProtectedNames {
  /** Names of identity fields: those injected, and others that an upstream may trust. */
  readonly protectedNames: readonly string[];
  /** Folded prefixes of such names. */
  readonly protectedPrefixes: readonly string[];
  /** Names of the key and one-time-password fields. */
  readonly credentialNames: readonly string[];
}

/** Decides which client fields an upstream could mistake for a protected one, at every entrance. */
export class ProtectedFields {
  readonly #folded: ReadonlySet<string>;
  readonly #exact: ReadonlySet<string>;
  readonly #prefixes: readonly string[];

  constructor({ protectedNames, protectedPrefixes, credentialNames }: ProtectedNames) {
    const configured = [...protectedNames, ...credentialNames];
    this.#folded = new Set([...NEVER_FORWARDED, ...configured.map(foldName)]);
    this.#exact = new Set([...NEVER_FORWARDED, ...configured.map((name) => name.toLowerCase())]);
    this.#prefixes = [FORWARDED_PREFIX, ...protectedPrefixes];
  }

  /** Whether some reader may take a name for a protected one. @param folded by {@link foldName} */
  has(folded: string): boolean {
    return this.#folded.has(folded) || this.hasPrefix(folded);
  }

  /** @param folded by {@link foldName} */
  hasPrefix(folded: string): boolean {
    for (const prefix of this.#prefixes) if (folded.startsWith(prefix)) return true;
    return false;
  }

  /** Returns whether a name is another spelling of a protected one, such as `X_Auth_Role`. */
  isAlias(name: string): boolean {
    const folded = foldName(name);
    if (!this.has(folded)) return false;
    const lower = name.toLowerCase();
    return !this.#exact.has(lower) && (lower !== folded || !this.hasPrefix(folded));
  }
}
