import { Webhook } from 'standardwebhooks';
import { Agent, request } from 'undici';
import { readVersion } from '../observe/version.js';
import { readRetryAfter } from './backoff.js';
import type { WebhookEndpoint } from './endpoint.js';
import { AddressRefused, pinnedLookup, refuseLiteral, type Resolve, systemResolve } from './pinned-lookup.js';

/** Maximum size of the response head, bytes. The body is not read. */
const MAX_HEAD = 16 * 1024;

const USER_AGENT = `Latchkey/${readVersion()}`;

/** The payload of a delivery, and the id under which it is sent. */
export interface Message {
  readonly id: string;
  readonly body: string;
}

/** The result of one attempt. */
export interface DeliveryResult {
  /** Null when there was no response. */
  readonly status: number | null;
  /** Why the attempt counts as failed; null when it was delivered. */
  readonly error: string | null;
  /** Milliseconds that the endpoint requested in `Retry-After`, or null. */
  readonly retryAfter: number | null;
}

/** How connections to endpoints are made. */
export interface Network {
  readonly resolve: Resolve;
  /** PEM certificate authorities to trust instead of the system's. */
  readonly ca?: string;
}

/**
 * Sends a message once.
 *
 * Only 2xx is success. Redirects are not followed, proxies are not used, and the response body is
 * not read. Each attempt opens its own connection, to the address that was checked for it.
 *
 * @param signal aborts the attempt
 */
export async function deliver(
  endpoint: WebhookEndpoint,
  message: Message,
  signal: AbortSignal,
  { resolve, ca }: Network = { resolve: systemResolve },
): Promise<DeliveryResult> {
  const url = new URL(endpoint.url);
  const within = AbortSignal.timeout(endpoint.timeout);
  const dispatcher = new Agent({
    connect: {
      timeout: endpoint.timeout,
      lookup: pinnedLookup(resolve, endpoint.allowPrivate),
      ...(ca === undefined ? {} : { ca }),
    },
    maxHeaderSize: MAX_HEAD,
    pipelining: 0,
  });
  try {
    refuseLiteral(url.hostname, endpoint.allowPrivate);
    if (url.protocol !== 'https:' && !endpoint.allowPrivate)
      throw new AddressRefused('the URL is not https://');
    const { statusCode, headers, body } = await request(url, {
      dispatcher,
      method: 'POST',
      headers: headersOf(endpoint, message, new Date()),
      body: message.body,
      signal: AbortSignal.any([within, signal]),
    });
    // The rest of the response is discarded with its connection. Until the body has ended, its
    // listener on the signal, which lasts as long as the lease, keeps all of this in memory.
    body.on('error', () => undefined).destroy();
    const delivered = statusCode >= 200 && statusCode < 300;
    const [retryAfter] = [headers['retry-after']].flat();
    return {
      status: statusCode,
      error: delivered ? null : `the endpoint responded with ${statusCode}`,
      retryAfter: readRetryAfter(retryAfter, Date.now()),
    };
  } catch (error) {
    const reason = within.aborted ? `no response within ${endpoint.timeout} ms` : reasonOf(error);
    return { status: null, error: reason, retryAfter: null };
  } finally {
    void dispatcher.destroy();
  }
}

/** Header fields of a message (Standard Webhooks). The timestamp is that of the attempt. */
function headersOf({ secrets }: WebhookEndpoint, { id, body }: Message, now: Date): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': secrets.map((secret) => new Webhook(secret).sign(id, now, body)).join(' '),
  };
}

/** A short description of an error, without anything that the remote side sent. */
function reasonOf(error: unknown): string {
  if (error instanceof AddressRefused) return error.message;
  const { code, errors } = error as NodeJS.ErrnoException & { errors?: readonly NodeJS.ErrnoException[] };
  const known = code ?? errors?.[0]?.code;
  if (known !== undefined) return `the endpoint cannot be reached (${known})`;
  return error instanceof Error ? error.message.slice(0, 200) : 'the endpoint cannot be reached';
}
