import type { IncomingHttpHeaders } from 'node:http';
import type { Agent } from 'undici';
import { ConnectionFailed } from '../util/system-error.js';
import { pinnedLookup, refuseLiteral, type Resolve } from './pinned-lookup.js';

/** Maximum size of a response head, in bytes. */
const MAX_HEAD = 16 * 1024;

/** How connections are made, and what they may receive. */
interface Limits {
  /** Milliseconds for the whole exchange, from the connection to the last byte. */
  readonly timeout: number;
  /** Maximum size of the body in bytes; 0: it is not read. */
  readonly maxBody: number;
  /** PEM certificate authorities to trust instead of the system's. */
  readonly ca?: string | undefined;
  /** Restricts the addresses that may be connected to; without it, all may. */
  readonly addresses?: { readonly resolve: Resolve; readonly allowPrivate: boolean };
}

interface FetchOptions extends Limits {
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Whether the body of a response with this status is read; by default, each is. */
  readonly readsBody?: (status: number) => boolean;
  /** Aborts the request. */
  readonly signal?: AbortSignal;
  /** From `openAgent` with the same limits; without it, the connection serves one request. */
  readonly agent?: Agent;
}

interface Fetched {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Empty if the body was not read. */
  readonly text: string;
}

/** @param connections maximum number that are kept open; omitted: each serves one request */
export async function openAgent(
  { timeout, maxBody, ca, addresses }: Limits,
  connections?: number,
): Promise<Agent> {
  const { Agent } = await import('undici');
  return new Agent({
    ...(connections === undefined ? { pipelining: 0 } : { connections }),
    connect: {
      timeout,
      ...(ca === undefined ? {} : { ca }),
      ...(addresses === undefined ? {} : { lookup: pinnedLookup(addresses.resolve, addresses.allowPrivate) }),
    },
    maxHeaderSize: MAX_HEAD,
    maxResponseSize: maxBody || -1,
  });
}

/**
 * Sends a request and reads the response, within limits of time and size. Follows no redirects and
 * uses no proxies.
 *
 * @throws ConnectionFailed if there is no complete response; it names only the host, because the
 *   rest of a URL may be a secret
 */
export async function fetchLimited(url: string, options: FetchOptions): Promise<Fetched> {
  const { host, hostname } = new URL(url);
  const { method = 'GET', headers = {}, body = null, timeout, maxBody, addresses, signal } = options;
  const { request } = await import('undici');
  const agent = options.agent ?? (await openAgent(options));
  // Not before the library is loaded, which takes long on a busy machine.
  const within = AbortSignal.timeout(timeout);
  try {
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
    if (options.agent === undefined) void agent.destroy();
  }
}
