import { isIP } from 'node:net';
import type { Alteration } from './alter.js';
import type { Deployment, Subject } from './check.js';
import type { Destination } from './exchange.js';
import type { Answer } from './message.js';
import { verdictOf } from './verdict.js';

/** Requests for a path at hosts that may have no check. @param names of virtual hosts that there are */
export function hostAlterations(deployment: Deployment, { path }: Subject, names: readonly string[]): Alteration[] {
  const { to } = deployment;
  const own = to.host;
  const port = to.authority.slice(to.authority.lastIndexOf(':') + 1);
  const usual = ['localhost', '127.0.0.1', 'latchkey-doctor.invalid', 'internal', `${own}.`, `${own}:1`, own.toUpperCase(), `localhost:${port}`, 'default', 'api', 'app', 'backend', 'upstream', 'origin', ''];
  const prefixed = isIP(own) === 0 ? ['admin', 'internal', 'www', 'api', 'origin', 'direct', 'backend', 'old', 'dev', 'staging'].map((prefix) => `${prefix}.${own}`) : [];
  const alterationOf = (host: string, to?: Destination): Alteration => ({
    label: `${path} with Host: ${host}${to === undefined ? '' : ` and the TLS name ${to.serverName || 'missing'}`}`,
    probe: { target: path, host },
    ...(to === undefined ? {} : { to }),
    isElsewhere: async (answer) => isElsewhere(deployment, host, answer, to),
  });
  return [
    ...[...usual, ...prefixed, ...names].filter((host) => host !== to.authority).map((host) => alterationOf(host)),
    ...(to.isTls ? [alterationOf(to.authority, { ...to, serverName: '' })] : []),
    ...(to.isTls ? names.map((name) => alterationOf(name, { ...to, serverName: name })) : []),
  ];
} // prettier-ignore

/** Another virtual host may be another site, such as the first page of a proxy. */
async function isElsewhere(
  deployment: Deployment,
  host: string,
  answer: Answer,
  to: Destination | undefined,
): Promise<boolean> {
  const isAlike = deployment.isOfApi(answer);
  if (isAlike === true) return false;
  if (verdictOf(answer) !== 'passed' || answer.body === '') return true;
  if (isAlike === undefined) return false;
  const open = deployment.subjects.find(({ kind, verdict }) => kind === 'public' && verdict === 'passed');
  if (open === undefined) return false;
  return deployment.isOfApi(await deployment.send({ target: open.path, host }, to)) !== true;
}
