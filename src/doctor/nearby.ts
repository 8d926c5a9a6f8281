import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Deployment } from './check.js';
import { type Destination, guessedPort } from './exchange.js';
import type { ProbeResponse } from './message.js';
import { isLoopback } from './trust.js';
import { isOfLatchkey, shapeOf, verdictOf } from './verdict.js';

/** Ports at which APIs and plain HTTP are often exposed. */
const USUAL_PORTS: readonly number[] = [80, 3000, 3001, 4000, 5000, 8000, 8080, 8081, 8082, 8090, 8888, 9000, 9090]; // prettier-ignore
/** Maximum number of addresses of a name that are examined. */
const MAX_ADDRESSES = 8;

/** A response from another port or address of the host. */
export interface Neighbour {
  readonly to: Destination;
  readonly path: string;
  readonly answer: ProbeResponse;
}

const asked = new WeakMap<Deployment, Promise<readonly Neighbour[]>>();

/**
 * Requests one path at the usual ports and other addresses of the host, once per run. Returns those
 * that responded.
 */
export async function neighbours(deployment: Deployment): Promise<readonly Neighbour[]> {
  const known = asked.get(deployment) ?? ask(deployment);
  asked.set(deployment, known);
  return known;
}

async function ask(deployment: Deployment): Promise<readonly Neighbour[]> {
  const { to, options, unknownPath } = deployment;
  const path = options.paths[0] ?? unknownPath;
  const beside = await addressesBeside(deployment);
  const ports = [to, ...beside].flatMap((at) => USUAL_PORTS.filter((port) => port !== to.port).map((port) => guessedPort(at, port)));
  const all = await Promise.all(
    [...beside, ...ports].map(async (to) => ({ to, path, answer: await deployment.send({ target: path }, to) })),
  );
  return all.filter(({ answer }) => answer.status !== 0);
} // prettier-ignore

/**
 * Returns other addresses of the host: those of its name and, on loopback, that of the other IP
 * version.
 */
async function addressesBeside({ to, answers }: Deployment): Promise<Destination[]> {
  const seen = answers.map(({ remote }) => remote);
  const named = isIP(to.host) === 0 ? await lookup(to.host, { all: true }).catch(() => []) : [];
  const near = seen.some(isLoopback) ? ['127.0.0.1', '::1'] : [];
  const addresses = new Set([...named.map(({ address }) => address), ...near]);
  const others = [...addresses].filter((address) => !seen.includes(address)).slice(0, MAX_ADDRESSES);
  return others.map((host) => ({ ...guessedPort(to, to.port), isTls: to.isTls, host, serverName: isIP(to.host) === 0 ? to.host : '' }));
} // prettier-ignore

/**
 * Whether another port or address serves what the deployment refuses: it lets the path in and, on
 * another port, looks like the API.
 */
export async function isApi(deployment: Deployment, { to, path, answer }: Neighbour): Promise<boolean> {
  const isRefused = deployment.subjects.some((one) => one.path === path && one.verdict === 'refused');
  if (!isRefused || verdictOf(answer) !== 'passed') return false;
  if (to.port === deployment.to.port || deployment.isOfApi(answer) === true) return true;
  const open = deployment.subjects.find(({ kind, verdict }) => kind === 'public' && verdict === 'passed');
  return open !== undefined && deployment.isOfApi(await deployment.send({ target: open.path }, to)) === true;
}

/**
 * Whether a response is the deployment's own: in Latchkey's form, or of the same shape as its
 * response.
 */
export function isDeployment({ subjects }: Deployment, path: string, answer: ProbeResponse): boolean {
  if (isOfLatchkey(answer)) return true;
  return subjects.some(
    (one) => one.path === path && one.view.fields.length === 0 && shapeOf(one.baseline) === shapeOf(answer),
  );
}
