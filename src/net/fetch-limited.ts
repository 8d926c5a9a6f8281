import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { ConnectionFailed } from '../util/system-error.js';
import { pinnedLookup, refuseLiteral, type Resolve } from './pinned-lookup.js';

/** Maximum size of a response head, in bytes. */
const MAX_HEAD = 16 * 1024;

interface Limits {
  /** Milliseconds for the whole exchange, from the connection to the last byte. */
  readonly timeout: number;
  /** Maximum size of the body in bytes; 0: it is not read. */
  readonly maxBody: number;
  /** PEM certificate authorities to trust instead of the system's. */
  readonly ca?: string | undefined;
  /** Restricts the addresses that may be connected to; without it, all may. */
  readonly addresses?: { readonly resolve: Resolve; readonly allowPrivate: boolean };
  /** Whether the proxies of the environment are not used, as for a server of this machine. */
  readonly direct?: true;
}

interface FetchOptions extends Limits {
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Whether the body of a response with this status is read; by default, each is. */
  readonly readsBody?: (status: number) => boolean;
  readonly signal?: AbortSignal;
  /** From `openAgent` with the same limits; without it, the connection serves one request. */
  readonly agent?: Dispatcher;
}

interface Fetched {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Empty if the body was not read. */
  readonly text: string;
}

const PROXY_VARIABLES = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY'] as const;

/** Hosts that no proxy can reach. */
const LOOPBACK = 'localhost,127.0.0.1,[::1]';

/**
 * Opens connections, through the proxies that the environment names (`HTTPS_PROXY`, `HTTP_PROXY`,
 * `NO_PROXY`). A proxy resolves names itself, so of `addresses` only IP literals are checked there.
 * @param connections maximum number that are kept open; omitted: each serves one request
 */
export async function openAgent(
  { timeout, maxBody, ca, addresses, direct }: Limits,
  connections?: number,
): Promise<Dispatcher> {
  const { Agent, EnvHttpProxyAgent, Pool } = await import('undici');
  const tls = { timeout, ...(ca === undefined ? {} : { ca }) };
  const lookup = addresses && { lookup: pinnedLookup(addresses.resolve, addresses.allowPrivate) };
  const limits = { maxHeaderSize: MAX_HEAD, maxResponseSize: maxBody || -1 };
  const options = {
    ...(connections === undefined ? { pipelining: 0 } : { connections }),
    ...limits,
    connect: { ...tls, ...lookup },
  };
  if (direct === true || !namesProxy()) return new Agent(options);
  const { no_proxy: noProxy = process.env['NO_PROXY'] ?? '' } = process.env;
  return new EnvHttpProxyAgent({
    ...options,
    // Many proxies allow CONNECT to port 443 only.
    proxyTunnel: false,
    requestTls: tls,
    proxyTls: { timeout },
    noProxy: noProxy === '*' ? noProxy : `${noProxy},${LOOPBACK}`,
    // Without a tunnel, undici drops the limits.
    factory: (origin, more) => new Pool(origin, Object.assign({}, more, limits)),
  });
}

/** @throws Error if a proxy has no valid URL */
function namesProxy(): boolean {
  const named = PROXY_VARIABLES.filter((name) => (process.env[name] ?? '') !== '');
  for (const name of named)
    if (!/^https?:\/\//i.test(process.env[name] ?? '') || !URL.canParse(process.env[name] ?? ''))
      throw new Error(`${name} is not a URL like http://HOST:PORT`);
  return named.length > 0;
}

/**
 * Sends a request and reads the response, within limits of time and size. Follows no redirects.
 * @throws ConnectionFailed; it names only the host, because the rest of a URL may be a secret
 */
export async function fetchLimited(url: string, options: FetchOptions): Promise<Fetched> {
  const { host, hostname } = new URL(url);
  const { method = 'GET', headers = {}, body = null, timeout, maxBody, addresses, signal } = options;
  const { request } = await import('undici');
  let { agent } = options;
  // Not before the library is loaded, which takes long on a busy machine.
  const within = AbortSignal.timeout(timeout);
  try {
    agent ??= await openAgent(options);
    if (addresses !== undefined) refuseLiteral(hostname, addresses.allowPrivate);
    const response = await request(url, {
      dispatcher: agent,
      method,
      headers,
      body,
      signal: signal === undefined ? within : AbortSignal.any([within, signal]),
    });
    const status = response.statusCode;
    const isRead = maxBody > 0 && (options.readsBody?.(status) ?? true);
    // An unread body keeps its listener on the signal, and so all of this in memory, until it ends.
    if (!isRead) response.body.on('error', () => undefined).destroy();
    return { status, headers: response.headers, text: isRead ? await response.body.text() : '' };
  } catch (error) {
    throw new ConnectionFailed(host, (within.aborted ? within.reason : error) as Error);
  } finally {
    if (options.agent === undefined) void agent?.destroy();
  }
}
