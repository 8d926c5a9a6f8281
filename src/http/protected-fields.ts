/**
 * Folds a field name to the one form in which protected names are compared: lower case, and `-` for every
 * character outside letters and digits.
 *
 * A gateway makes a variable of each field, and most map all of these characters to `_` (RFC 3875 4.1.18): lighttpd's
 * `HTTP_X_AUTH_ROLE` may have been `X-Auth-Role`, `X_Auth_Role` or `X~Auth~Role`. The length stays.
 */
export function foldName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '-');
}

// The lists hold folded names that upstreams or their frameworks are known to read. They are names and not beginnings,
// because clients send fields of their own end to end: X-Original-Filename, X-Method, Uri.

/** Another method than the request line's, and so than the authorized one. */
const METHOD_OVERRIDES: readonly string[] = [
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-method',
  'x-envoy-original-method',
];

/** Another target: whole, its path, what the application is mounted at, or the file that a server is to send. */
const TARGET_OVERRIDES: readonly string[] = [
  'x-original-url',
  'x-original-uri',
  'x-original-path',
  'x-original-prefix',
  'x-original-request-uri',
  'x-override-url',
  'x-rewrite-url',
  'x-rewrite-uri',
  'x-rewrite-path',
  'x-request-uri',
  'request-uri',
  'x-envoy-original-path',
  'x-replaced-path',
  'x-waws-unencoded-url',
  'x-proxy-url',
  'proxy-url',
  'x-http-destinationurl',
  // gunicorn takes these over from addresses that it trusts, and loopback is one.
  'script-name',
  'path-info',
  'x-script-name',
  // Rack::Sendfile answers with a path for the proxy in front.
  'x-sendfile-type',
  'x-accel-mapping',
];

/** Another host than that of `Host`. */
const HOST_OVERRIDES: readonly string[] = [
  'x-host',
  'x-host-override',
  'x-http-host',
  'x-http-host-override',
  'x-original-host',
  'x-envoy-original-host',
  'x-envoy-original-dst-host',
  'disguised-host',
  'proxy-host',
];

/** Another scheme or port than the client's connection has. */
const SCHEME_OVERRIDES: readonly string[] = [
  'x-scheme',
  'x-url-scheme',
  'x-original-proto',
  'x-original-scheme',
  'x-original-port',
  'front-end-https',
  'x-arr-ssl',
  'wl-proxy-ssl',
  'fastly-ssl',
  'cf-visitor',
  'cloudfront-forwarded-proto',
];

/** The address of a client, as proxies and content delivery networks tell it. */
export const ADDRESSES: readonly string[] = [
  'forwarded',
  'forwarded-for',
  'x-forwarded',
  'x-forward-for',
  'x-forwarder-for',
  'x-original-for',
  'x-original-forwarded-for',
  'x-original-remote-addr',
  'x-real-ip',
  'real-ip',
  'client-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'true-client-ip',
  'x-true-client-ip',
  'remote-addr',
  'remote-host',
  'remote-ip',
  'x-remote-addr',
  'x-remote-host',
  'x-remote-ip',
  'x-originating-ip',
  'x-coming-from',
  'x-proxyuser-ip',
  'x-custom-ip-authorization',
  'proxy-client-ip',
  'wl-proxy-client-ip',
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'cf-pseudo-ipv4',
  'cf-connecting-o2o',
  'fastly-client-ip',
  'fly-client-ip',
  'do-connecting-ip',
  'incap-client-ip',
  'x-sucuri-clientip',
  'x-nf-client-connection-ip',
  'x-vercel-forwarded-for',
  'cloudfront-viewer-address',
  'ali-cdn-real-ip',
  'cdn-src-ip',
  'x-azure-clientip',
  'x-azure-socketip',
  'x-appengine-user-ip',
  'x-appengine-remote-addr',
  'x-envoy-external-address',
  'x-envoy-internal',
];

/** The certificate of a client: whoever ends TLS must take these away (RFC 9440 2.4). */
const CLIENT_CERTIFICATES: readonly string[] = ['client-cert', 'client-cert-chain'];

/** Fields for one connection (RFC 9110 7.6.1), and `Proxy`, which CGI programs take for `http_proxy`. */
export const HOP_BY_HOP: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'proxy-authenticate',
  'te',
  'trailer',
  'upgrade',
  'http2-settings',
  'proxy',
];

/** What frames and routes a message. The forwarder writes these itself, as it does `X-Request-Id`. */
const FRAMING: readonly string[] = ['content-length', 'transfer-encoding', 'expect', 'host', 'x-request-id'];

/** What could make an upstream see another request than the authorized one: no client gets one through. */
export const OVERRIDES: readonly string[] = [
  ...METHOD_OVERRIDES,
  ...TARGET_OVERRIDES,
  ...HOST_OVERRIDES,
  ...SCHEME_OVERRIDES,
  ...CLIENT_CERTIFICATES,
];

/** Every name that no client gets through to an upstream, whatever the configuration says. */
export const NEVER_FORWARDED: readonly string[] = [...OVERRIDES, ...ADDRESSES, ...HOP_BY_HOP, ...FRAMING];

/** Folded beginning of the names that say what a proxy in front saw. They are rewritten, never passed on. */
export const FORWARDED_PREFIX = 'x-forwarded-';

/** What the configuration adds to {@link NEVER_FORWARDED}. */
export interface ProtectedNames {
  /** Names of fields that say who is calling: those injected, and others that an upstream may believe. */
  readonly protectedNames: readonly string[];
  /** Folded beginnings of such names. */
  readonly protectedPrefixes: readonly string[];
  /** Names of the key and one-time-password fields. */
  readonly credentialNames: readonly string[];
}

/** The names that a client's field must not be taken for. Every entrance asks here. */
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

  /** Whether some reader takes a name for a protected one. @param folded the name by {@link foldName} */
  has(folded: string): boolean {
    return this.#folded.has(folded) || this.hasPrefix(folded);
  }

  /** Whether all names of this beginning are protected. @param folded the name by {@link foldName} */
  hasPrefix(folded: string): boolean {
    for (const prefix of this.#prefixes) if (folded.startsWith(prefix)) return true;
    return false;
  }

  /** Whether a name is another spelling of a protected one, such as `X_Auth_Role`. */
  isAlias(name: string): boolean {
    const folded = foldName(name);
    if (!this.has(folded)) return false;
    const lower = name.toLowerCase();
    return !this.#exact.has(lower) && (lower !== folded || !this.hasPrefix(folded));
  }
}
