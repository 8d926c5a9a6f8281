import { loadConfig, type LoadedConfig } from '../config/load.js';
import { newId } from '../domain/secret.js';
import { endpointOf, type WebhookEndpoint } from '../webhooks/endpoint.js';
import { resendWebhooks, webhookReport } from '../webhooks/report.js';
import type { ReportOptions } from './terminal/options.js';
import { CommandFailed, renderList, report } from './terminal/output.js';
import { recordOperation, withStore } from './with-store.js';

interface WebhookOptions extends ReportOptions {
  readonly endpoint?: string;
}

const ENDPOINT_COLUMNS = ['endpoint', 'queued', 'dead_letters', 'state', 'last_success_at', 'last_error'];
const DEAD_COLUMNS = ['id', 'endpoint', 'type', 'subject', 'failed_at', 'error'];

export async function list(options: ReportOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async ({ store }) => {
    const ids = endpointsOf(loaded).map(({ id }) => id);
    const { endpoints, dead_letters: dead } = await webhookReport(store.webhooks, ids);
    const rows = endpoints.map((each) => ({ ...each, state: stateOf(each) }));
    const tables = [
      rows.length === 0 ? 'no webhooks' : await renderList(rows, ENDPOINT_COLUMNS),
      ...(dead.length === 0 ? [] : [await renderList(dead, DEAD_COLUMNS)]),
    ];
    report(options, { endpoints, dead_letters: dead }, tables.join('\n').trimEnd());
  });
} // prettier-ignore

function stateOf({ configured, disabled_at: disabledAt }: { configured: boolean; disabled_at: string | null }): string {
  if (!configured) return 'not configured';
  return disabledAt === null ? 'enabled' : 'disabled (410)';
} // prettier-ignore

export async function resend(ids: readonly string[], options: WebhookOptions): Promise<void> {
  const loaded = loadConfig(options.config);
  await withStore(loaded, async (opened) => {
    const configured = endpointsOf(loaded).map(({ id }) => id);
    const { webhooks } = opened.store;
    const resent = await resendWebhooks(webhooks, configured, options.endpoint, ids.length > 0 ? ids : null);
    if (resent === undefined)
      throw new CommandFailed(`there is no endpoint ${options.endpoint}; "latchkey webhook list" shows them`);
    for (const target of resent)
      recordOperation(opened, [{ event: 'webhooks.resent', outcome: 'success', target }]);
    const count = resent.reduce((sum, each) => sum + each.resent, 0);
    if (ids.length > 0 && count === 0) throw new CommandFailed('there are no such dead letters');
    report(options, { resent }, `${count} queued again`);
  });
}

/** Sends a signed `webhook.test` event to each endpoint, bypassing the queue. */
export async function test(options: WebhookOptions): Promise<void> {
  const { deliver } = await import('../webhooks/deliver.js');
  const all = endpointsOf(loadConfig(options.config));
  const chosen = all.filter(({ id }) => options.endpoint === undefined || id === options.endpoint);
  if (chosen.length === 0) {
    const which = options.endpoint === undefined ? 'webhooks' : `endpoint ${options.endpoint}`;
    throw new CommandFailed(`the configuration has no ${which}`);
  }
  const body = JSON.stringify({ type: 'webhook.test', timestamp: new Date().toISOString(), data: {} });
  const results = await Promise.all(
    chosen.map(async (endpoint) => {
      const message = { id: `msg_${newId()}`, body };
      const { status, error } = await deliver(endpoint, message, new AbortController().signal);
      return { endpoint: endpoint.id, delivered: error === null, status, error };
    }),
  );
  const lines = results.map(({ endpoint, status, error }) => `${endpoint}: ${error ?? `delivered (${status})`}`);
  report(options, { results }, lines.join('\n'));
  if (results.some(({ delivered }) => !delivered)) process.exitCode = 1;
} // prettier-ignore

function endpointsOf({ config }: LoadedConfig): WebhookEndpoint[] {
  return config.webhooks.map(endpointOf);
}
