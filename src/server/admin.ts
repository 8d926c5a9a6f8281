import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { createAdminGuard } from './admin-guard.js';
import { type MetricsPage, metricsPage } from './metrics-page.js';
import { listen } from '../listeners/server.js';
import type { Restarted } from './processes/restart.js';
import type { Reloaded } from './reload/reload.js';

/** Whether requests are served, and each check by its name: what is wrong, or null. */
type ReadyCheck = () => Promise<{
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string | null>>;
  /** What is wrong and keeps no request from being served. */
  readonly warnings: Readonly<Record<string, string>>;
}>;

/** What the admin port tells. */
export interface AdminViews {
  readonly metrics: () => Promise<{ type: string; text: string }>;
  readonly ready: ReadyCheck;
  readonly reload: () => Promise<Reloaded>;
  readonly restartWorkers: () => Promise<Restarted>;
  /** What waits to be sent, and what was given up. */
  readonly webhooks: () => Promise<unknown>;
  /** Sends what was given up again; undefined when there is no such endpoint. */
  readonly resendWebhooks: (endpoint: string | undefined, ids: readonly string[] | null) => Promise<unknown>;
  /** The configuration that serves, without its secrets. */
  readonly config: () => unknown;
  /** What the shadow policy would decide otherwise. */
  readonly shadow: () => Promise<unknown>;
}

const HEADERS_TIMEOUT_MS = 5_000;
/** For the whole of the metrics, to whoever asked for them. */
const READ_TIMEOUT_MS = 10_000;

/** Starts the admin port: metrics, health, readiness and reload. It is no part of the public port. */
export async function startAdmin(
  settings: Config['admin'],
  views: AdminViews,
  log: Log,
): Promise<{ server: Server; url: string }> {
  const metrics = metricsPage(views.metrics);
  const refuse = createAdminGuard([settings.host, ...settings.hosts]);
  const server = createServer(
    { headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: HEADERS_TIMEOUT_MS },
    (req, res) => {
      const refused = refuse(req);
      if (refused !== undefined) {
        req.resume();
        sendJson(res, 403, { msg: 'Forbidden', detail: refused });
        return;
      }
      answer(req, res, views, metrics).catch((error: unknown) => {
        log.error({ err: error }, 'admin request failed');
        if (!res.headersSent) sendJson(res, 500, { msg: 'Internal error', detail: 'see the log' });
      });
    },
  );
  return { server, url: await listen(server, settings.host, settings.port) };
}

async function answer(
  req: IncomingMessage,
  res: ServerResponse,
  views: AdminViews,
  metrics: () => Promise<MetricsPage>,
): Promise<void> {
  req.resume();
  const [path = '', query = ''] = (req.url ?? '').split('?', 2);
  const task = TASKS.get(path);
  if (task !== undefined && req.method === 'POST') {
    await task(res, views, new URLSearchParams(query));
  } else if (task !== undefined || (req.method !== 'GET' && req.method !== 'HEAD')) {
    const detail = `the admin port takes GET, and POST at ${TASK_PATHS}`;
    sendJson(res, 405, { msg: 'Method not allowed', detail });
  } else if (path === '/healthz') {
    sendJson(res, 200, { status: 'ok' });
  } else if (path === '/readyz') {
    const { ready, checks, warnings } = await views.ready();
    const warned = Object.keys(warnings).length > 0 ? { warnings } : {};
    sendJson(res, ready ? 200 : 503, { ready, checks: describe(checks), ...warned });
  } else if (path === '/metrics') {
    sendMetrics(res, await metrics());
  } else if (path === '/-/config') {
    sendJson(res, 200, views.config());
  } else if (path === '/-/shadow') {
    sendJson(res, 200, await views.shadow());
  } else if (path === '/-/webhooks') {
    sendJson(res, 200, await views.webhooks());
  } else {
    const detail = `the admin port has /healthz, /readyz, /metrics, /-/config, /-/shadow, /-/webhooks, and POST at ${TASK_PATHS}`;
    sendJson(res, 404, { msg: 'Record not found', detail });
  }
}

/** What the admin port does when it is asked by POST. */
const TASKS = new Map<string, (res: ServerResponse, views: AdminViews, query: URLSearchParams) => Promise<void>>([
  ['/-/reload', async (res, views) => sendReloaded(res, await views.reload())],
  ['/-/restart-workers', async (res, views) => sendRestarted(res, await views.restartWorkers())],
  ['/-/webhooks/resend', resendWebhooks],
]); // prettier-ignore
const TASK_PATHS = [...TASKS.keys()].join(', ').replace(/, ([^,]*)$/, ' and $1');

/** `endpoint` and `id` name what is meant; all without them. */
async function resendWebhooks(res: ServerResponse, views: AdminViews, query: URLSearchParams): Promise<void> {
  const ids = query.getAll('id');
  const resent = await views.resendWebhooks(query.get('endpoint') ?? undefined, ids.length > 0 ? ids : null);
  if (resent !== undefined) sendJson(res, 200, { resent });
  else sendJson(res, 404, { msg: 'Record not found', detail: 'there is no such endpoint; see /-/webhooks' });
}

function sendRestarted(res: ServerResponse, { fault }: Restarted): void {
  if (fault === null) sendJson(res, 200, { restarted: true });
  else sendJson(res, 409, { msg: 'Workers not replaced', detail: fault });
}

/** A reader that does not take them in time is let go. */
function sendMetrics(res: ServerResponse, { type, body }: MetricsPage): void {
  const timer = setTimeout(() => res.destroy(), READ_TIMEOUT_MS);
  res.once('close', () => clearTimeout(timer));
  res
    .writeHead(200, { 'Content-Type': type, 'Content-Length': body.length, 'Cache-Control': 'no-store' })
    .end(body);
}

function sendReloaded(res: ServerResponse, { faults, unconfirmed, needsRestart }: Reloaded): void {
  const detail = 'The running configuration stays; the directory is not confirmed and may have been applied';
  if (faults.length === 0) sendJson(res, 200, { reloaded: true, needs_restart: needsRestart });
  else if (unconfirmed) sendJson(res, 503, { msg: 'Reload not confirmed', detail, faults });
  else sendJson(res, 422, { msg: 'Reload refused', detail: 'The running configuration stays', faults });
}

function describe(checks: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(Object.entries(checks).map(([name, fault]) => [name, fault ?? 'ok']));
}

function sendJson(res: ServerResponse, status: number, value: unknown): void {
  res
    .writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
    .end(JSON.stringify(value));
}
