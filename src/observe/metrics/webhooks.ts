import { Counter, Gauge } from 'prom-client';

export const webhookDeliveries = new Counter({
  name: 'latchkey_webhook_deliveries_total',
  help: 'Webhook delivery attempts by this process, by outcome.',
  labelNames: ['endpoint', 'outcome'] as const,
});

export const webhookDrops = new Counter({
  name: 'latchkey_webhook_dropped_total',
  help: 'Webhooks dropped because the queue of the endpoint was full, counted by the sending process.',
  labelNames: ['endpoint', 'queue'] as const,
});

export const webhookSender = new Gauge({
  name: 'latchkey_webhook_sender',
  help: 'Whether this process is the one in the fleet that sends webhooks.',
  aggregator: 'max',
});

const queued = gauge('latchkey_webhook_queued', 'Webhooks in the store waiting for delivery.');
const oldest = gauge(
  'latchkey_webhook_oldest_seconds',
  'Age of the oldest webhook waiting for delivery; 0 if there is none.',
);
const dead = gauge(
  'latchkey_webhook_dead_letters',
  'Dead letters: webhooks in the store that were given up.',
);
const disabled = gauge(
  'latchkey_webhook_endpoint_disabled',
  'Whether an endpoint is disabled because it responded with 410.',
);

export interface WebhookGauges {
  readonly endpoint: string;
  readonly queued: number;
  readonly oldestSeconds: number;
  readonly dead: number;
  readonly disabled: boolean;
}

export function setWebhookGauges(endpoints: readonly WebhookGauges[]): void {
  for (const each of [queued, oldest, dead, disabled]) each.reset();
  for (const { endpoint, ...values } of endpoints) {
    queued.set({ endpoint }, values.queued);
    oldest.set({ endpoint }, values.oldestSeconds);
    dead.set({ endpoint }, values.dead);
    disabled.set({ endpoint }, Number(values.disabled));
  }
}

function gauge(name: string, help: string): Gauge<'endpoint'> {
  return new Gauge({ name, help, labelNames: ['endpoint'] as const, aggregator: 'max' });
}
