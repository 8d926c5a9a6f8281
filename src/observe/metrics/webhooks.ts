import { counter, gauge } from './series.js';

export const webhookMetrics = {
  webhookDeliveries: counter('latchkey_webhook_deliveries_total', 'Webhook delivery attempts by this process, by outcome.', ['endpoint', 'outcome']),
  webhookDrops: counter('latchkey_webhook_dropped_total', 'Webhooks dropped because the queue of the endpoint was full, counted by the sending process.', ['endpoint', 'queue']),
  webhookSender: gauge('latchkey_webhook_sender', 'Whether this process is the one in the fleet that sends webhooks.', 'max'),
  queued: gauge('latchkey_webhook_queued', 'Webhooks in the store waiting for delivery.', 'max', ['endpoint']),
  dead: gauge('latchkey_webhook_dead_letters', 'Dead letters: webhooks in the store that were given up.', 'max', ['endpoint']),
  disabled: gauge('latchkey_webhook_endpoint_disabled', 'Whether an endpoint is disabled because it responded with 410.', 'max', ['endpoint']),
  oldest: gauge('latchkey_webhook_oldest_seconds', 'Age of the oldest webhook waiting for delivery; 0 if there is none.', 'max', ['endpoint']),
}; // prettier-ignore

export interface WebhookGauges {
  readonly endpoint: string;
  readonly queued: number;
  readonly oldestSeconds: number;
  readonly dead: number;
  readonly disabled: boolean;
}

export function setWebhookGauges(endpoints: readonly WebhookGauges[]): void {
  const { queued, oldest, dead, disabled } = webhookMetrics;
  for (const each of [queued, oldest, dead, disabled]) each.reset();
  for (const { endpoint, ...values } of endpoints) {
    queued.set({ endpoint }, values.queued);
    oldest.set({ endpoint }, values.oldestSeconds);
    dead.set({ endpoint }, values.dead);
    disabled.set({ endpoint }, Number(values.disabled));
  }
}
