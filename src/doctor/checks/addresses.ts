import { type Alteration, echoedIn, findingsOf, probeOf, shorten, tryOnRefused } from '../alter.js';
import type { Check, Deployment, Finding, Subject } from '../check.js';
import type { ProbeResponse, Field } from '../message.js';
import { certificateNames } from '../trust.js';
import { isIP } from 'node:net';
import type { Destination } from '../exchange.js';
import { verdictOf } from '../verdict.js';

const LOCAL = '127.0.0.1';

/** Header fields in which a proxy or an API may expect the address of a client. */
const ADDRESSES: readonly string[] = [
  'X-Forwarded-For', 'X-Real-IP', 'X-Client-IP', 'Client-IP', 'X-Cluster-Client-IP', 'X-Originating-IP', 'X-Remote-IP',
  'X-Remote-Addr', 'True-Client-IP', 'CF-Connecting-IP', 'Fastly-Client-IP', 'X-Envoy-External-Address', 'X-ProxyUser-IP',
  'X-Original-Forwarded-For', 'X-Forwarded',
]; // prettier-ignore

const HOSTS: readonly string[] = [
  'X-Forwarded-Host', 'X-Host', 'X-Original-Host', 'X-HTTP-Host-Override', 'X-Forwarded-Server', 'X-HTTP-Host', 'X-Host-Override',
]; // prettier-ignore

/** Combinations of fields that may make a proxy believe that a client is local. */
const NEAR: readonly (readonly Field[])[] = [
  [['X-Forwarded-For', LOCAL]],
  [['X-Forwarded-For', '10.0.0.1'], ['X-Real-IP', '10.0.0.1']],
  [['X-Forwarded-For', '192.168.0.1'], ['X-Real-IP', '192.168.0.1']],
  [['X-Forwarded-For', '::1']],
  [['X-Forwarded-For', `${LOCAL}, ${LOCAL}`]],
  [['Forwarded', `for=${LOCAL};proto=https;host=localhost`]],
  [['X-Real-IP', LOCAL], ['X-Client-IP', LOCAL], ['Client-IP', LOCAL], ['X-Cluster-Client-IP', LOCAL], ['X-Originating-IP', LOCAL], ['X-Remote-IP', LOCAL], ['X-Remote-Addr', LOCAL]],
  [['True-Client-IP', LOCAL], ['CF-Connecting-IP', LOCAL], ['Fastly-Client-IP', LOCAL], ['X-Envoy-External-Address', LOCAL], ['X-ProxyUser-IP', LOCAL], ['X-Custom-IP-Authorization', LOCAL]],
  HOSTS.map((name): Field => [name, 'localhost']),
  HOSTS.map((name): Field => [name, 'internal']),
  ADDRESSES.map((name): Field => [name.replaceAll('-', '_'), LOCAL]),
  HOSTS.map((name): Field => [name.replaceAll('-', '_'), 'localhost']),
  [['X-Forwarded-Proto', 'https'], ['X-Forwarded-Port', '443'], ['X-Forwarded-Scheme', 'https'], ['Front-End-Https', 'on']],
]; // prettier-ignore

/** Whether a client can forge its address or host. */
export const addresses: Check = {
  name: 'addresses',
  title: 'Forged addresses and hosts',
  severity: 'serious',
  remedy: 'Have the outermost proxy overwrite X-Forwarded-* (nginx: $remote_addr, not $proxy_add_x_forwarded_for), remove Forwarded, X-Real-IP and the like, list only proxies in listen.trusted_proxies, require a credential from every address, and give every virtual host, the default one included, the same check.',
  async run(deployment) {
    const names = await namesBeside(deployment);
    const hits = await tryOnRefused(deployment, (subject) => [
      ...NEAR.map((fields) => nearAlteration(subject, fields)),
      // The token must not be sent to other hosts.
      ...(subject.view.fields.length > 0 ? [] : hostAlterations(deployment, subject, names)),
    ]);
    const shown = await Promise.all(deployment.subjects.filter(({ verdict }) => verdict === 'passed').map(async (subject) => shownBy(deployment, subject)));
    const findings = [...findingsOf(hits, 'A forged address or host'), ...shown.flat(), ...(await ofLastUse(deployment))];
    return { findings, seen: `${hits.tried} requests with forged addresses and hosts are refused` };
  },
}; // prettier-ignore

function nearAlteration({ path }: Subject, fields: readonly Field[]): Alteration {
  const label = `${path} with ${fields.map(([name, value]) => `${name}: ${value}`).join(', ')}`;
  return { label, probe: { target: path, fields } };
}

/** Returns names of other virtual hosts of the server, from the options and the certificate. */
async function namesBeside({ options, to }: Deployment): Promise<string[]> {
  const ofCertificate = to.isTls ? await certificateNames(to).catch(() => []) : [];
  return [...new Set([...options.hosts, ...ofCertificate])].filter((name) => name !== to.host);
}

/**
 * Reports forged addresses and hosts that a response shows, so that the API must have received
 * them.
 */
async function shownBy(deployment: Deployment, subject: Subject): Promise<Finding[]> {
  const host = `${deployment.marker}.invalid`;
  const forged: Field[] = [
    ...ADDRESSES.map((name, i): Field => [name, addressOf(i)]),
    ['Forwarded', `for=${addressOf(ADDRESSES.length)};host=${host}`],
    ...HOSTS.map((name): Field => [name, host]),
  ];
  const lines = await Promise.all(
    forged.map(async ([name, value]) => {
      const answer = await deployment.send(probeOf(subject, { probe: { fields: [[name, value]] } }));
      const address = /\d+\.\d+\.\d+\.\d+/.exec(value)?.[0] ?? host;
      if (echoedIn(answer, [address]).length === 0) return [];
      // The proxy appended the address that it knows.
      const isAppended = answer.body.includes(`${value}, `);
      return [{ isAppended, line: `${subject.path} ${subject.view.name}: the response shows the forged ${name}: ${value}` }];
    }),
  );
  return [false, true].flatMap((appended): Finding[] => {
    const evidence = lines.flat().filter(({ isAppended }) => isAppended === appended).map(({ line }) => line);
    if (evidence.length === 0) return [];
    return appended
      ? [{ severity: 'warning', summary: 'A forged address reaches the API ahead of the real one', evidence: shorten(evidence) }]
      : [{ severity: 'serious', summary: 'A forged address or host reaches the API', evidence: shorten(evidence) }];
  });
} // prettier-ignore

/** Returns an address reserved for documentation (RFC 5737). */
function addressOf(i: number): string {
  return `198.51.100.${i + 1}`;
}

/**
 * Reports forged addresses that Latchkey shows to a token's holder as the address of its last use.
 */
async function ofLastUse(deployment: Deployment): Promise<Finding[]> {
  const fields = deployment.subjects.find(({ view }) => view.fields.length > 0)?.view.fields;
  if (fields === undefined) return [];
  const evidence: string[] = [];
  for (const [i, name] of [...ADDRESSES, 'Forwarded'].entries()) {
    const value = name === 'Forwarded' ? `for=${addressOf(i)}` : addressOf(i);
    const probe = { target: '/tokens/self', fields: [...fields, [name, value] as const] };
    // The first response may show the use before it.
    await deployment.send(probe); // oxlint-disable-line no-await-in-loop -- the last one counts
    const { status, body } = await deployment.send(probe); // oxlint-disable-line no-await-in-loop -- as above
    if (status !== 200) break;
    if (body.includes(addressOf(i))) evidence.push(`GET /tokens/self with ${name}: ${value} shows it as the address of last use`);
  }
  if (evidence.length === 0) return [];
  const remedy = 'List only the addresses of your own proxies in listen.trusted_proxies, and let the outermost one overwrite X-Forwarded-For: token and login limits use this address.';
  return [{ severity: 'serious', summary: 'Latchkey trusts an address that the client chose', evidence, remedy }];
} // prettier-ignore

/**
 * Returns requests for a path at hosts that may lack the check.
 *
 * @param names existing virtual hosts
 */
function hostAlterations(deployment: Deployment, { path }: Subject, names: readonly string[]): Alteration[] {
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

/** Whether a response comes from another site, such as the default page of a proxy. */
async function isElsewhere(
  deployment: Deployment,
  host: string,
  answer: ProbeResponse,
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
