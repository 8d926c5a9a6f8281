import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { listen } from '../listeners/server.js';
import type { Restarted } from './processes/serving.js';
import type { Reloaded } from './reload/reload.js';
import { isIP } from 'node:net';

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

/** A host with an optional port, as `Host` has it. */
const HOST = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/;

/** Ends of names that no public DNS has (RFC 6761, RFC 9476), those of Kubernetes among them. */
const PRIVATE = /\.(?:localhost|internal|svc|svc\.cluster\.local)$/;

/** Says why a request to the admin port is refused; undefined when it is not. */
type AdminGuard = (req: IncomingMessage) => string | undefined;

/**
 * Makes the guard of the admin port, which has no credential: what a browser asks because of a page from elsewhere is
 * refused, reads included.
 *
 * A page can give its own name the address of this port (DNS rebinding); then the port is of the page's origin and only
 * `Host` tells. So names count that nobody can register: addresses, names without a dot, and those of private domains.
 *
 * @param hosts further names, `admin.host` and `admin.hosts`
 */
function createAdminGuard(hosts: readonly string[]): AdminGuard {
  const known = new Set(hosts.map((host) => host.toLowerCase()));
  return ({ headers }) => {
    const { host, origin, 'sec-fetch-site': site } = headers;
    // Only HTTP/1.0 may leave it out, which no browser speaks.
    if (host !== undefined && !isOwnHost(host, known))
      return `the admin port does not answer to this host; add its name to admin.hosts, or ask by its address`;
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
  // A last label of digits would be an address in a form that is read in several ways (WHATWG URL 4.3).
  return PRIVATE.test(name) || (!name.includes('.') && !/^(?:0x[0-9a-f]*|\d+)$/.test(name));
}

/** Metrics as they are sent. */
export interface MetricsPage {
  readonly type: string;
  readonly body: Buffer;
}

const FRESH_MS = 1_000;

/**
 * Puts the metrics together at most once a second and once at a time, however many ask. All of them are sent the same
 * bytes, so that those who read slowly hold nothing of their own.
 */
export function metricsPage(
  render: () => Promise<{ readonly type: string; readonly text: string }>,
): () => Promise<MetricsPage> {
  let rendering: Promise<MetricsPage> | null = null;
  let page: MetricsPage | undefined;
  let madeAt = -Infinity;
  const make = async (): Promise<MetricsPage> => {
    const { type, text } = await render();
    madeAt = performance.now();
    return (page = { type, body: Buffer.from(text) });
  };
  return async () => {
    if (page !== undefined && performance.now() - madeAt < FRESH_MS) return page;
    return (rendering ??= make().finally(() => (rendering = null)));
  };
}
