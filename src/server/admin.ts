import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { jsonBody } from '../http/replies.js';
import { listen } from '../listeners/server.js';
import { newRequestId } from '../pipeline/record.js';
import { createAdminGuard } from './admin-guard.js';
import type { Restarted } from './processes/serving.js';
import type { Reloaded } from './reload/reload.js';

type ReadyCheck = () => Promise<{
  readonly ready: boolean;
  readonly checks: Readonly<Record<string, string | null>>;
  /** Problems that do not prevent requests from being served. */
  readonly warnings: Readonly<Record<string, string>>;
}>;

export interface AdminViews {
  readonly metrics: () => Promise<{ type: string; text: string }>;
  readonly ready: ReadyCheck;
  readonly reload: () => Promise<Reloaded>;
  readonly restartWorkers: () => Promise<Restarted>;
  readonly webhooks: () => Promise<unknown>;
  /** Sends dead letters again; undefined when the endpoint is unknown. */
  readonly resendWebhooks: (endpoint: string | undefined, ids: readonly string[] | null) => Promise<unknown>;
  readonly config: () => unknown;
  readonly shadow: () => Promise<unknown>;
}

/** Milliseconds to send a request, and between checks of that. */
const REQUEST_MS = 5_000;
const CHECK_MS = 1_000;

/** Starts the admin port: metrics, health, readiness and reload. */
export async function startAdmin(
  settings: Config['admin'],
  views: AdminViews,
  log: Log,
): Promise<{ server: Server; url: string }> {
  const refuse = createAdminGuard([settings.host, ...settings.hosts]);
  const server = createServer(
    { headersTimeout: REQUEST_MS, requestTimeout: REQUEST_MS, connectionsCheckingInterval: CHECK_MS },
    (req, res) => {
      const requestId = newRequestId();
      res.setHeader('X-Request-Id', requestId);
      const refused = refuse(req);
      if (refused !== undefined) {
        req.resume();
        sendJson(res, 403, { msg: 'Forbidden', detail: refused });
        return;
      }
      answer(req, res, views).catch((error: unknown) => {
        log.error({ err: error, request_id: requestId }, 'admin request failed');
        if (!res.headersSent) sendJson(res, 500, { msg: 'Internal error', detail: 'see the log' });
      });
    },
  );
  return { server, url: await listen(server, settings, 'admin') };
}

async function answer(req: IncomingMessage, res: ServerResponse, views: AdminViews): Promise<void> {
  req.resume();
  const [path = '', query = ''] = (req.url ?? '').split('?', 2);
  const task = TASKS.get(path);
  const reads = req.method === 'GET' || req.method === 'HEAD';
  if (task !== undefined && req.method === 'POST') {
    await task(res, views, new URLSearchParams(query));
  } else if (task !== undefined || !reads) {
    const detail = `the admin port accepts GET, and POST at ${TASK_PATHS}`;
    res.setHeader('Allow', task === undefined ? 'GET, HEAD' : 'POST');
    sendJson(res, 405, { msg: 'Method not allowed', detail });
  } else if (hasBody(req)) {
    res.setHeader('Connection', 'close');
    sendJson(res, 400, {
      msg: 'Bad request',
      detail: `a ${req.method} to the admin port must not have a body`,
    });
  } else if (path === '/healthz') {
    sendJson(res, 200, { status: 'ok' });
  } else if (path === '/readyz') {
    const { ready, checks, warnings } = await views.ready();
    const warned = Object.keys(warnings).length > 0 ? { warnings } : {};
    sendJson(res, ready ? 200 : 503, { ready, checks: describe(checks), ...warned });
  } else if (path === '/metrics') {
    const { type, text } = await views.metrics();
    res.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' }).end(text);
  } else if (path === '/-/config') {
    sendJson(res, 200, views.config());
  } else if (path === '/-/shadow') {
    sendJson(res, 200, await views.shadow());
  } else if (path === '/-/webhooks') {
    sendJson(res, 200, await views.webhooks());
  } else {
    const detail = `the admin port serves /healthz, /readyz, /metrics, /-/config, /-/shadow, /-/webhooks, and POST at ${TASK_PATHS}`;
    sendJson(res, 404, { msg: 'Record not found', detail });
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

const TASKS = new Map<string, (res: ServerResponse, views: AdminViews, query: URLSearchParams) => Promise<void>>([
  ['/-/reload', async (res, views) => sendReloaded(res, await views.reload())],
  ['/-/restart-workers', async (res, views) => sendRestarted(res, await views.restartWorkers())],
  ['/-/webhooks/resend', resendWebhooks],
]); // prettier-ignore
const TASK_PATHS = [...TASKS.keys()].join(', ').replace(/, ([^,]*)$/, ' and $1');

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

function sendReloaded(res: ServerResponse, { outcome, faults, needsRestart }: Reloaded): void {
  if (outcome === 'applied') sendJson(res, 200, { reloaded: true, needs_restart: needsRestart });
  else sendJson(res, outcome === 'refused' ? 422 : 503, { ...NOT_RELOADED[outcome], faults });
}

const NOT_RELOADED = {
  refused: { msg: 'Reload refused', detail: 'The running configuration stays' },
  postponed: {
    msg: 'Reload postponed',
    detail: 'The running configuration stays; the reload is tried again',
  },
  unconfirmed: {
    msg: 'Reload not confirmed',
    detail:
      'The running configuration stays; the directory is not confirmed and may have been applied; the reload is tried again',
  },
} as const;

function describe(checks: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(Object.entries(checks).map(([name, fault]) => [name, fault ?? 'ok']));
}

function sendJson(res: ServerResponse, status: number, value: unknown): void {
  res
    .writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
    .end(jsonBody(value));
}
