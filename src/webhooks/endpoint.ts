import { createHash } from 'node:crypto';
import type { Config } from '../config/schema/config.js';
import type { WebhookSubscription } from '../store/core/events.js';

type Settings = Config['webhooks'][number];

export interface WebhookEndpoint {
  /** Name in metrics, logs and commands. The URL itself may be a secret. */
  readonly id: string;
  readonly url: string;
  /** The newest first. */
  readonly secrets: readonly string[];
  readonly allowPrivate: boolean;
  /** Milliseconds. */
  readonly timeout: number;
  readonly maxAttempts: number;
}

export function endpointOf(settings: Settings): WebhookEndpoint {
  const url = new URL(settings.url);
  const digest = createHash('sha256').update(url.href).digest('hex');
  return {
    id: `${url.host}/${digest.slice(0, 8)}`,
    url: url.href,
    secrets: [settings.secret].flat(),
    allowPrivate: settings.allow_private,
    timeout: settings.timeout,
    maxAttempts: settings.max_attempts,
  };
}

export function subscriptionsOf({ webhooks }: Pick<Config, 'webhooks'>): WebhookSubscription[] {
  return webhooks.map((settings) => ({ endpoint: endpointOf(settings).id, events: settings.events }));
}
