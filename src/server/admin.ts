import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { Config } from '../config/schema/config.js';
import type { Log } from '../observe/log.js';
import { jsonBody } from '../http/replies.js';
import { listen } from '../listeners/server.js';
import { newRequestId } from '../pipeline/record.js';
import type { Reloaded } from './reload/reload.js';

/** JSON, unless the headers say otherwise; with status 200 by default. */
interface AdminReply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

export type AdminAnswer = (query: URLSearchParams) => AdminReply | Promise<AdminReply>;

/** What the admin port answers, by path: views to GET, tasks to POST. */
type AdminPaths = Readonly<Record<'views' | 'tasks', ReadonlyMap<string, AdminAnswer>>>;

/** Milliseconds to send a request, and between checks of that. */
const REQUEST_MS = 5_000;
const CHECK_MS = 1_000;

/** Starts the admin port: metrics, health, readiness and reload. */
export async function startAdmin(
  settings: Config['admin'],
  paths: AdminPaths,
  log: Log,
): Promise<{ server: Server; url: string }> {
  const refuse = createAdminGuard([settings.host, ...settings.hosts]);
  const server = createServer(
    { headersTimeout: REQUEST_MS, requestTimeout: REQUEST_MS, connectionsCheckingInterval: CHECK_MS },
    (req, res) => {
      const requestId = newRequestId();
      res.setHeader('X-Request-Id', requestId);
      req.resume();
      const refused = refuse(req);
      if (refused !== undefined) {
        send(res, { status: 403, body: { msg: 'Forbidden', detail: refused } });
        return;
      }
      void answer(req, paths)
        .catch((error: unknown): AdminReply => {
          log.error({ err: error, request_id: requestId }, 'admin request failed');
          return { status: 500, body: { msg: 'Internal error', detail: 'see the log' } };
        })
        .then((reply) => send(res, reply));
    },
  );
  return { server, url: await listen(server, settings, 'admin') };
}

async function answer(req: IncomingMessage, { views, tasks }: AdminPaths): Promise<AdminReply> {
  const [path = '', query = ''] = (req.url ?? '').split('?', 2);
  const [task, view] = [tasks.get(path), views.get(path)];
  const reads = req.method === 'GET' || req.method === 'HEAD';
  const taskPaths = [...tasks.keys()].join(' and ');
  if (task !== undefined && req.method === 'POST') return task(new URLSearchParams(query));
  if (task !== undefined || !reads) {
    const detail = `the admin port accepts GET, and POST at ${taskPaths}`;
    const headers = { Allow: task === undefined ? 'GET, HEAD' : 'POST' };
    return { status: 405, headers, body: { msg: 'Method not allowed', detail } };
  }
  if (hasBody(req)) {
    const detail = `a ${req.method} to the admin port must not have a body`;
    return { status: 400, headers: { Connection: 'close' }, body: { msg: 'Bad request', detail } };
  }
  if (view !== undefined) return view(new URLSearchParams(query));
  const detail = `the admin port serves ${[...views.keys()].join(', ')}, and POST at ${taskPaths}`;
  return { status: 404, body: { msg: 'Record not found', detail } };
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function send(res: ServerResponse, { status = 200, headers, body }: AdminReply): void {
  res
    .writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', ...headers })
    .end(typeof body === 'string' ? body : jsonBody(body));
}

export function metricsReply({ type, text }: { type: string; text: string }): AdminReply {
  return { headers: { 'Content-Type': type }, body: text };
}

/**
 * @param faults why requests cannot be served, by check; null for a check that passes
 * @param warnings problems that do not prevent that
 */
export function readinessReply(
  faults: Readonly<Record<string, string | null>>,
  warnings: Readonly<Record<string, string>>,
  ready: boolean,
): AdminReply {
  const shown = Object.entries(faults).map(([name, fault]) => [name, fault ?? 'ok']);
  const checks: unknown = Object.fromEntries(shown);
  const body = Object.keys(warnings).length > 0 ? { ready, checks, warnings } : { ready, checks };
  return { status: ready ? 200 : 503, body };
}

export function reloadReply({ outcome, faults, needsRestart }: Reloaded): AdminReply {
  if (outcome === 'applied') return { body: { reloaded: true, needs_restart: needsRestart } };
  return { status: outcome === 'refused' ? 422 : 503, body: { ...NOT_RELOADED[outcome], faults } };
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
