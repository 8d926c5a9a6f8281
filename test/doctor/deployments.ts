import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo, Server } from 'node:net';
import type { DoctorOptions } from '../../src/doctor/check.js';
import { examine, type Report } from '../../src/doctor/examine.js';

type Test = { teardown: (fn: () => void | Promise<void>) => void };

/** The fault of a deployment. Absent parts are correct. */
export interface Fault {
  /** True if a request that should be refused is let through. */
  readonly lets?: (req: IncomingMessage) => boolean;
  /** How the API responds; by default it echoes nothing of the request. */
  readonly api?: RequestListener;
  /** Header fields of every response. */
  readonly fields?: Record<string, string | string[]>;
  /** Handles a request before everything else; true if it has. */
  readonly before?: (req: IncomingMessage, res: ServerResponse) => boolean;
}

export const KEY = 'good-token-of-the-test';

/** Refuses as Latchkey does. */
function refuse(res: ServerResponse, status: number, msg: string): void {
  const fields = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', 'X-Request-Id': 'r1' };
  res.writeHead(status, {
    ...fields,
    ...(status === 401 ? { 'WWW-Authenticate': 'Basic realm="api", Bearer realm="api"' } : {}),
  });
  res.end(JSON.stringify({ msg }));
}

/**
 * A deployment that is correct except for one fault: it decides on exact paths, and its API echoes
 * nothing.
 */
export function deployment({ lets, api, fields = {}, before }: Fault): RequestListener {
  const serve = api ?? ((_req, res) => res.end('hello'));
  return (req, res) => {
    for (const [name, value] of Object.entries(fields)) res.setHeader(name, value);
    if (before?.(req, res) === true) return;
    if (req.rawHeaders.filter((name) => name.toLowerCase() === 'host').length > 1)
      return refuse(res, 400, 'Bad request');
    const isKnown = req.headers['service-key'] === KEY;
    if (!/^\/[\w/-]*$/.test(req.url ?? '') && lets?.(req) !== true) return refuse(res, 400, 'Bad request');
    if (req.url === '/status' || isKnown || lets?.(req) === true) return serve(req, res);
    refuse(res, 401, 'Provided credentials are missing or invalid');
  };
}

/** A server of any protocol; an HTTP/2 server cannot close all its connections. */
type Listening = Pick<Server, 'listen' | 'close' | 'address'> & { closeAllConnections?: () => void };

/** Starts a server on loopback. @returns its origin */
export async function listenOn(t: Test, server: Listening, scheme = 'http'): Promise<string> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    server.closeAllConnections?.();
    server.close();
  });
  return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a deployment with a fault. */
export async function startFaulty(t: Test, fault: Fault, options: object = {}): Promise<string> {
  return listenOn(t, createServer(options, deployment(fault)));
}

/** Diagnoses a deployment as `latchkey doctor` does. */
export async function diagnose(url: string, more: Partial<DoctorOptions> = {}): Promise<Report> {
  return examine({
    url: new URL(url),
    paths: ['/service/S1'],
    publicPaths: ['/status'],
    identityHeaders: [],
    keyHeader: 'Service-Key',
    version: 'test',
    maxRequests: 6_000,
    ...more,
  });
}

/** The checks with findings, each with its worst result. */
export function found({ checks }: Report): string[] {
  return checks.filter(({ result }) => result === 'serious' || result === 'warning').map(({ check, result }) => `${check} ${result}`);
} // prettier-ignore
