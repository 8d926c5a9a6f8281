import { createLogThrottle, formatTime, type EpochMs } from '../util/time.js';
import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { webhookMetrics } from '../observe/metrics.js';
import { type EndpointStatus, NO_COUNTS } from '../store/core/events.js';
import { endpointOf, type WebhookEndpoint } from '../webhooks/endpoint.js';
import { type SenderEvents, WebhookSender, type Deliver } from '../webhooks/sender.js';
import type { OpenedStore } from './stores/open-store.js';
import { printable } from '../util/text.js';
import type { DEAD, ValueOf } from '../store/core/kinds.js';

const STATUS_MS = 5_000;
/** Time for attempts in flight when the process stops; the next sender repeats those without a response. */
const STOP_MS = 3_000;

/** Loaded before the server listens (`loadModules`), if there are webhooks. */
const delivered: Deliver = async (...attempt) => (await import('../webhooks/deliver.js')).deliver(...attempt);

/** Sends webhooks while this process is the fleet's sender, and reports their state. */
export function createWebhooks({ store, audit }: Pick<OpenedStore, 'store' | 'audit'>, log: Log) {
  const queue = store.webhooks;
  let endpoints: readonly WebhookEndpoint[] = [];
  let sends = false;
  let running: { readonly sender: WebhookSender; readonly timer: NodeJS.Timeout } | undefined;
  let seen = new Map<string, EndpointStatus>();

  /** Reports drops since the last look. All processes look, but only the sender reports. */
  const reportDrops = ({ endpoint, dropped, deadDropped }: EndpointStatus): void => {
    const before = seen.get(endpoint);
    if (before === undefined || !sends) return;
    const [events, dead] = [dropped - before.dropped, deadDropped - before.deadDropped];
    if (events > 0) webhookMetrics.webhookDrops.inc({ endpoint, queue: 'waiting' }, events);
    if (dead > 0) webhookMetrics.webhookDrops.inc({ endpoint, queue: 'dead_letters' }, dead);
    if (events > 0 || dead > 0)
      log.error({ endpoint, events, dead_letters: dead }, 'webhooks dropped; endpoint queue full');
  };
  const refreshStatus = async (): Promise<void> => {
    const statuses = await queue.status();
    const shown = statuses.filter(({ endpoint }) => endpoints.some(({ id }) => id === endpoint));
    showStatuses(shown);
    shown.forEach(reportDrops);
    seen = new Map(shown.map((status) => [status.endpoint, status]));
  };
  return {
    /** Sends to the endpoints of a configuration. Nothing runs until there is one. */
    use: ({ webhooks }: Pick<Config, 'webhooks'>): void => {
      endpoints = webhooks.map(endpointOf);
      if (running !== undefined || endpoints.length === 0) return;
      const events = createSenderEvents(log, (now) => (sends = now));
      const sender = new WebhookSender(queue, () => endpoints, delivered, events);
      const refresh = () => void refreshStatus().catch(events.failed);
      running = { sender, timer: setInterval(refresh, STATUS_MS).unref() };
      refresh();
      sender.start();
    },
    /** Returns the state of webhooks for operators, without URL paths, queries or secrets. */
    report: async () => {
      const configured = endpoints.map(({ id }) => id);
      const statuses = await queue.status();
      const unused = configured.filter((id) => !statuses.some(({ endpoint }) => endpoint === id));
      const all = [...statuses, ...unused.map((endpoint) => ({ ...UNUSED, endpoint }))];
      const deadLetters = [];
      for (const { endpoint } of statuses)
        for (const dead of await queue.listDead(endpoint)) deadLetters.push(deadObject(endpoint, dead));
      return {
        sender: sends,
        endpoints: all
          .map((status) => endpointObject(status, configured.includes(status.endpoint)))
          .toSorted((a, b) => (a.endpoint < b.endpoint ? -1 : 1)),
        dead_letters: deadLetters,
      };
    },
    /**
     * @param endpoint undefined for all
     * @param ids null for all
     * @returns the resent events per endpoint; undefined when the endpoint is unknown
     */
    resend: async (endpoint: string | undefined, ids: readonly string[] | null) => {
      const ofStore = (await queue.status()).map((each) => each.endpoint);
      const known = new Set([...endpoints.map(({ id }) => id), ...ofStore]);
      if (endpoint !== undefined && !known.has(endpoint)) return undefined;
      const all = [];
      for (const each of endpoint === undefined ? known : [endpoint]) {
        const target = { endpoint: each, resent: await queue.resend(each, ids) };
        audit.note({ event: 'webhooks.resent', outcome: 'success', target, actor: null });
        all.push(target);
      }
      return all;
    },
    stop: async (): Promise<void> => {
      clearInterval(running?.timer);
      await running?.sender.stop(STOP_MS);
    },
  };
}

function showStatuses(statuses: readonly EndpointStatus[]): void {
  const { queued, oldest, dead, disabled } = webhookMetrics;
  for (const each of [queued, oldest, dead, disabled]) each.reset();
  for (const { endpoint, oldestAt, ...status } of statuses) {
    queued.set({ endpoint }, status.queued);
    oldest.set({ endpoint }, oldestAt === null ? 0 : Math.max(0, Date.now() - oldestAt) / 1000);
    dead.set({ endpoint }, status.dead);
    disabled.set({ endpoint }, Number(status.disabledAt !== null));
  }
}

function createSenderEvents(log: Log, onSending: (sends: boolean) => void): SenderEvents {
  const throttle = createLogThrottle(60_000);
  const failing = new Set<string>();
  return {
    attempted: (endpoint, { event, attempts }, { error }, outcome) => {
      webhookMetrics.webhookDeliveries.inc({ endpoint, outcome: outcome.kind });
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
      else if (outcome.disable === true)
        log.error(fields, 'webhook endpoint disabled; it responded with 410');
      else {
        const suppressed = throttle(endpoint);
        const retryIn = Math.max(0, outcome.retryAt - Date.now());
        if (suppressed !== undefined)
          log.warn({ ...fields, retry_in_ms: retryIn, suppressed }, 'webhook not delivered; retrying');
      }
    },
    sending: (sends) => {
      onSending(sends);
      webhookMetrics.webhookSender.set(Number(sends));
      log.info(sends ? 'sending webhooks' : 'no longer sending webhooks');
    },
    failed: (error) => {
      const suppressed = throttle();
      if (suppressed !== undefined)
        log.warn({ err: error, suppressed }, 'webhooks not sent; store unavailable');
    },
  };
}

const UNUSED: Omit<EndpointStatus, 'endpoint'> = { ...NO_COUNTS, oldestAt: null, dead: 0 };

function endpointObject(status: EndpointStatus, configured: boolean) {
  return {
    endpoint: status.endpoint,
    configured,
    queued: status.queued,
    oldest_at: time(status.oldestAt),
    dead_letters: status.dead,
    dropped: status.dropped,
    dead_letters_dropped: status.deadDropped,
    disabled_at: time(status.disabledAt),
    last_success_at: time(status.lastSuccessAt),
    last_failure_at: time(status.lastFailureAt),
    last_error: status.lastError,
  };
}

function deadObject(endpoint: string, { event, attempts, failedAt, error }: ValueOf<typeof DEAD>) {
  const { id, type, subject, at } = event;
  return { endpoint, id, type, subject, timestamp: time(at), attempts, failed_at: time(failedAt), error };
}

function time(at: EpochMs | null): string | null {
  return at === null ? null : formatTime(at);
}
