import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { jsonBody } from '../http/replies.js';
import { listen } from '../listeners/server.js';
import { newRequestId } from '../pipeline/record.js';
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
  const [task, view] = [TASKS.get(path), VIEWS.get(path)];
  const reads = req.method === 'GET' || req.method === 'HEAD';
  if (task !== undefined && req.method === 'POST') {
    await task(res, views, new URLSearchParams(query));
  } else if (task !== undefined || !reads) {
    const detail = `the admin port accepts GET, and POST at ${TASK_PATHS}`;
    res.setHeader('Allow', task === undefined ? 'GET, HEAD' : 'POST');
    sendJson(res, 405, { msg: 'Method not allowed', detail });
  } else if (hasBody(req)) {
    res.setHeader('Connection', 'close');
    const detail = `a ${req.method} to the admin port must not have a body`;
    sendJson(res, 400, { msg: 'Bad request', detail });
  } else if (view === undefined) {
    const detail = `the admin port serves ${[...VIEWS.keys()].join(', ')}, and POST at ${TASK_PATHS}`;
    sendJson(res, 404, { msg: 'Record not found', detail });
  } else await view(res, views);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

const VIEWS = new Map<string, (res: ServerResponse, views: AdminViews) => unknown>([
  ['/healthz', (res) => sendJson(res, 200, { status: 'ok' })],
  ['/readyz', async (res, views) => sendReadiness(res, await views.ready())],
  ['/metrics', async (res, views) => sendMetrics(res, await views.metrics())],
  ['/-/config', (res, views) => sendJson(res, 200, views.config())],
  ['/-/shadow', async (res, views) => sendJson(res, 200, await views.shadow())],
  ['/-/webhooks', async (res, views) => sendJson(res, 200, await views.webhooks())],
]);

const TASKS = new Map<string, (res: ServerResponse, views: AdminViews, query: URLSearchParams) => unknown>([
  ['/-/reload', async (res, views) => sendReloaded(res, await views.reload())],
  ['/-/webhooks/resend', resendWebhooks],
]);
const TASK_PATHS = [...TASKS.keys()].join(', ').replace(/, ([^,]*)$/, ' and $1');

function sendReadiness(res: ServerResponse, { ready, checks, warnings }: Awaited<ReturnType<ReadyCheck>>): void {
  const shown = Object.entries(checks).map(([name, fault]) => [name, fault ?? 'ok']);
  const warned = Object.keys(warnings).length > 0 ? { warnings } : {};
  sendJson(res, ready ? 200 : 503, { ready, checks: Object.fromEntries(shown), ...warned });
} // prettier-ignore

function sendMetrics(res: ServerResponse, { type, text }: { type: string; text: string }): void {
  res.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' }).end(text);
}

async function resendWebhooks(res: ServerResponse, views: AdminViews, query: URLSearchParams): Promise<void> {
  const ids = query.getAll('id');
  const resent = await views.resendWebhooks(query.get('endpoint') ?? undefined, ids.length > 0 ? ids : null);
  if (resent !== undefined) sendJson(res, 200, { resent });
  else sendJson(res, 404, { msg: 'Record not found', detail: 'there is no such endpoint; see /-/webhooks' });
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

function sendJson(res: ServerResponse, status: number, value: unknown): void {
  res
    .writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
    .end(jsonBody(value));
}

/** A host with an optional port, as in the `Host` field. */
const HOST = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/;

/** Suffixes that public DNS never has (RFC 6761, RFC 9476), including those of Kubernetes. */
const PRIVATE = /\.(?:localhost|internal|svc|svc\.cluster\.local)$/;

type AdminGuard = (req: IncomingMessage) => string | undefined;

/**
 * Refuses what a browser sends on behalf of a page from elsewhere, reads included: a page can point its own
 * name at this port (DNS rebinding), and only `Host` reveals it. So only names are accepted that nobody can
 * register: addresses, names without a dot, and names in private domains.
 * @param hosts further accepted names: `admin.host` and `admin.hosts`
 */
function createAdminGuard(hosts: readonly string[]): AdminGuard {
  const known = new Set(hosts.map((host) => host.toLowerCase()));
  return ({ headers }) => {
    const { host, origin, 'sec-fetch-site': site } = headers;
    // Only HTTP/1.0 may omit it, which no browser uses.
    if (host !== undefined && !isOwnHost(host, known))
      return `the admin port does not accept this host name; add it to admin.hosts, or use the IP address`;
    if (origin !== undefined && origin.toLowerCase() !== `http://${host?.toLowerCase()}`)
      return 'the request comes from another origin';
    if (site !== undefined && site !== 'same-origin' && site !== 'none')
      return 'the request comes from another site';
    return undefined;
  };
}

function isOwnHost(field: string, known: ReadonlySet<string>): boolean {
  const name = HOST.exec(field)?.[1]?.toLowerCase();
  if (name === undefined) return false;
  if (name.startsWith('[')) return isIP(name.slice(1, -1)) === 6;
  if (isIP(name) === 4 || known.has(name)) return true;
  // A last label of digits would be an address that readers parse differently (WHATWG URL 4.3).
  return PRIVATE.test(name) || (!name.includes('.') && !/^(?:0x[0-9a-f]*|\d+)$/.test(name));
}
