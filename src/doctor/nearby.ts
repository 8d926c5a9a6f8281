import type { Deployment } from './check.js';
import type { Destination } from './exchange.js';
import type { Answer } from './message.js';
import { isOfLatchkey, shapeOf, verdictOf } from './verdict.js';

/** Ports at which APIs and plain HTTP are often left open. */
const USUAL_PORTS: readonly number[] = [80, 3000, 4000, 5000, 8000, 8080, 8081, 8888, 9000];

/** What answers at another port of the host. */
interface Neighbour {
  readonly to: Destination;
  readonly path: string;
  readonly answer: Answer;
}

const asked = new WeakMap<Deployment, Promise<readonly Neighbour[]>>();

/** Asks the usual ports of the host for one path, without TLS; once in a run. */
export async function neighbours(deployment: Deployment): Promise<readonly Neighbour[]> {
  const known = asked.get(deployment) ?? ask(deployment);
  asked.set(deployment, known);
  return known;
}

async function ask(deployment: Deployment): Promise<readonly Neighbour[]> {
  const { to, options, unknownPath } = deployment;
  const path = options.paths[0] ?? unknownPath;
  const ports = USUAL_PORTS.filter((port) => port !== to.port);
  const all = await Promise.all(
    ports.map(async (port) => {
      const neighbour = { ...to, port, isTls: false };
      return { to: neighbour, path, answer: await deployment.send({ target: path }, neighbour) };
    }),
  );
  return all.filter(({ answer }) => answer.status !== 0);
}

/** Whether a port serves what the deployment refuses: the path is let in, and the port looks like the API. */
export async function isApi(deployment: Deployment, { to, path, answer }: Neighbour): Promise<boolean> {
  const isRefused = deployment.subjects.some((one) => one.path === path && one.verdict === 'refused');
  if (!isRefused || verdictOf(answer) !== 'passed') return false;
  if (deployment.isOfApi(answer) === true) return true;
  const open = deployment.subjects.find(({ kind, verdict }) => kind === 'public' && verdict === 'passed');
  return open !== undefined && deployment.isOfApi(await deployment.send({ target: open.path }, to)) === true;
}

/** Whether an answer is that of the deployment itself, in form or byte for byte. */
export function isDeployment({ subjects }: Deployment, path: string, answer: Answer): boolean {
  if (isOfLatchkey(answer)) return true;
  return subjects.some(
    (one) => one.path === path && one.view.fields.length === 0 && shapeOf(one.baseline) === shapeOf(answer),
  );
}
