import { endpointOf } from '../webhooks/endpoint.js';
import { refuseLiteral } from '../webhooks/pinned-lookup.js';
import type { Add } from './fault.js';
import type { Config } from './schema/config.js';

/** Checks what the keys of an endpoint say together, and that each endpoint is there once. */
export function checkWebhooks({ webhooks, tokens }: Config, add: Add): void {
  const seen = new Set<string>();
  webhooks.forEach((webhook, i) => {
    const fault = (key: string, message: string) => add(['webhooks', i, key], message);
    const { protocol } = new URL(webhook.url);
    if (protocol !== 'https:' && !webhook.allow_private)
      fault('url', 'http:// needs allow_private; write https://');
    const refused = refusalOf(webhook.url, webhook.allow_private);
    if (refused !== undefined) fault('url', refused);
    const { id } = endpointOf(webhook);
    if (seen.has(id)) fault('url', 'another endpoint has the same; remove one of them');
    seen.add(id);
    if (tokens.warn_before === null && webhook.events.every((event) => event === 'token.expiring'))
      fault('events', 'token.expiring needs tokens.warn_before');
  });
}

/** Why the address in a URL must not be connected to. Names are judged when they are looked up. */
function refusalOf(url: string, allowPrivate: boolean): string | undefined {
  try {
    refuseLiteral(new URL(url).hostname, allowPrivate);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
