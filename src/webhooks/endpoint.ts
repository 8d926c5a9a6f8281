import { createHash } from 'node:crypto';
import type { Config } from '../config/schema/config.js';
import type { WebhookSubscription } from '../store/core/events.js';

/** With its name in metrics, logs and commands: the URL itself may be a secret. */
export type WebhookEndpoint = Omit<Config['webhooks'][number], 'events'> & { readonly id: string };

export function endpointOf(settings: Config['webhooks'][number]): WebhookEndpoint {
  const { href, host } = new URL(settings.url);
  const digest = createHash('sha256').update(href).digest('hex');
  return { ...settings, url: href, id: `${host}/${digest.slice(0, 8)}` };
}

export function subscriptionsOf({ webhooks }: Pick<Config, 'webhooks'>): WebhookSubscription[] {
  return webhooks.map((settings) => ({ endpoint: endpointOf(settings).id, events: settings.events }));
}
