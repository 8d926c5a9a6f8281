import type { Log } from '../observe/log.js';
import { createLogThrottle } from '../observe/log-throttle.js';
import { webhookDeliveries } from '../observe/metrics/webhooks.js';
import { printable } from '../observe/printable.js';
import type { SenderEvents } from '../webhooks/sender.js';

/** Makes the listener that counts attempts, and logs failures of an endpoint once a minute. */
export function createSenderEvents(log: Log): SenderEvents {
  const throttle = createLogThrottle(60_000);
  const failing = new Set<string>();
  return {
    attempted: (endpoint, { event, attempts }, { error }, outcome) => {
      webhookDeliveries.inc({ endpoint, outcome: outcome.kind });
      if (outcome.kind === 'delivered') {
        if (failing.delete(endpoint)) log.info({ endpoint }, 'webhook endpoint recovered');
        return;
      }
      failing.add(endpoint);
      const fields = {
        endpoint,
        webhook_id: event.id,
        webhook_type: event.type,
        attempts: attempts + 1,
        reason: printable(error ?? ''),
      };
      if (outcome.kind === 'dead') log.error(fields, 'webhook given up; kept as a dead letter');
      else if (outcome.disable === true) log.error(fields, 'webhook endpoint disabled; it answered 410');
      else {
        const suppressed = throttle(endpoint);
        const retryIn = Math.max(0, outcome.retryAt - Date.now());
        if (suppressed !== undefined)
          log.warn({ ...fields, retry_in_ms: retryIn, suppressed }, 'webhook not delivered; retrying');
      }
    },
    sending: (sends) => log.info(sends ? 'sending webhooks' : 'no longer sending webhooks'),
    failed: (error) => {
      const suppressed = throttle();
      if (suppressed !== undefined)
        log.warn({ err: error, suppressed }, 'webhooks not sent; store unavailable');
    },
  };
}
