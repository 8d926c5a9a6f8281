import { Webhook } from 'standardwebhooks';
import { fetchLimited } from '../net/fetch-limited.js';
import { AddressRefused, type Resolve, systemResolve } from '../net/pinned-lookup.js';
import { readVersion } from '../files/files.js';
import { ConnectionFailed } from '../util/system-error.js';
import type { WebhookEndpoint } from './endpoint.js';

/** Parses `Retry-After` (RFC 9110 10.2.3) into milliseconds from now; null for anything else. */
export function readRetryAfter(field: string | undefined, now: number): number | null {
  if (field === undefined) return null;
  if (/^\d{1,9}$/.test(field)) return Number(field) * 1000;
  const at = /^[A-Z][a-z]{2}, /.test(field) ? Date.parse(field) : NaN;
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

const USER_AGENT = `Latchkey/${readVersion()}`;

export interface Message {
  readonly id: string;
  readonly body: string;
}

export interface DeliveryResult {
  /** Null when there was no response. */
  readonly status: number | null;
  /** Why the attempt counts as failed; null when it was delivered. */
  readonly error: string | null;
  /** Milliseconds that the endpoint requested in `Retry-After`, or null. */
  readonly retryAfter: number | null;
}

export interface Network {
  readonly resolve: Resolve;
  /** PEM certificate authorities to trust instead of the system's. */
  readonly ca?: string;
}

/**
 * Sends a message once. Only 2xx is success; redirects are not followed. Each attempt opens its own
 * connection, to the address that was checked for it or to a proxy.
 */
export async function deliver(
  endpoint: WebhookEndpoint,
  message: Message,
  signal: AbortSignal,
  { resolve, ca }: Network = { resolve: systemResolve },
): Promise<DeliveryResult> {
  const { url, timeout, allow_private: allowPrivate } = endpoint;
  try {
    if (!url.startsWith('https:') && !allowPrivate) throw new AddressRefused('the URL is not https://');
    const { status, headers } = await fetchLimited(url, {
      method: 'POST',
      headers: headersOf(endpoint, message, new Date()),
      body: message.body,
      timeout,
      maxBody: 0,
      ca,
      addresses: { resolve, allowPrivate },
      signal,
    });
    const delivered = status >= 200 && status < 300;
    return {
      status,
      error: delivered ? null : `the endpoint responded with ${status}`,
      retryAfter: readRetryAfter(headers['retry-after'], Date.now()),
    };
  } catch (error) {
    return { status: null, error: reasonOf(error, timeout), retryAfter: null };
  }
}

/** Header fields of a message (Standard Webhooks). The timestamp is that of the attempt. */
function headersOf({ secret }: WebhookEndpoint, { id, body }: Message, now: Date): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': USER_AGENT,
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': [secret]
      .flat()
      .map((each) => new Webhook(each).sign(id, now, body))
      .join(' '),
  };
}

/** A short description of an error, without anything that the remote side sent. */
function reasonOf(error: unknown, timeout: number): string {
  if (!(error instanceof ConnectionFailed)) return (error as Error).message.slice(0, 200);
  const { cause, reason, systemCode } = error;
  if ((cause as Error).name === 'TimeoutError') return `no response within ${timeout} ms`;
  return systemCode === undefined ? reason.slice(0, 200) : `the endpoint cannot be reached (${systemCode})`;
}
