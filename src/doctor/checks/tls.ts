import { isIP } from 'node:net';
import type { PeerCertificate, SecureVersion, TLSSocket } from 'node:tls';
import { kindOfAddress } from '../../net/pinned-lookup.js';
import type { Check, Deployment, Finding, Outcome } from '../check.js';
import {
  type Destination,
  destinationOf,
  isLoopback,
  type ProbeResponse,
  valuesOf,
  withTls,
  isOfLatchkey,
  verdictOf,
} from '../client.js';
import { describeAnswer, findingOf, shapeOf } from '../compare.js';
import { describeSystemError } from '../../util/system-error.js';

const DAY_MS = 86_400_000;
/** Days before the expiry of a certificate at which its renewal is late. */
const SOON_DAYS = 14;

const OLD_VERSIONS: readonly SecureVersion[] = ['TLSv1', 'TLSv1.1'];

export const tls: Check = {
  name: 'tls',
  title: 'TLS',
  remedy: 'Renew the certificate before it expires, for every name of the API, from an authority that clients trust, with its intermediate certificates (or give doctor its certificate with --ca).',
  async run(deployment) {
    return deployment.to.isTls ? examine(deployment) : withoutTls(deployment);
  },
}; // prettier-ignore

const USE_TLS =
  'Serve the API over TLS, at Latchkey (listen.tls) or at the proxy in front: tokens and session cookies can be read on the way.';

/** Returns the outcome for plain HTTP, whose severity depends on the network that it crosses. */
function withoutTls({ to, answers }: Deployment): Outcome {
  const { remote = '' } = answers.find((answer) => answer.remote !== '') ?? {};
  const isInside = !to.host.includes('.') || /\.(?:svc|local|internal|localhost)$|\.svc\.cluster\.local$/.test(to.host);
  if (isLoopback(remote)) return { findings: [], seen: 'plain HTTP on loopback' };
  if (isInside && isIP(to.host) === 0) return { findings: [], seen: 'plain HTTP, by a name of a private network' };
  const severity = kindOfAddress(remote) === 'private' ? 'warning' : 'serious';
  return { findings: findingOf(severity, 'The API is served without TLS', [`${to.authority} is ${remote}`], USE_TLS), seen: '' };
} // prettier-ignore

async function examine(deployment: Deployment): Promise<Outcome> {
  const { to, options } = deployment;
  const findings: Finding[] = [];
  deployment.countRequest();
  const seen = await withTls(to, options.ca === undefined ? {} : { ca: options.ca }, (socket) => {
    findings.push(...certificateFindings(socket));
    return `${socket.getProtocol()}, certificate valid until ${socket.getPeerCertificate().valid_to}`;
  });
  for (const version of OLD_VERSIONS) findings.push(...(await versionFindings(deployment, version))); // oxlint-disable-line no-await-in-loop -- one connection at a time
  findings.push(...(await plainFindings(deployment)));
  return { findings, seen };
}

function certificateFindings(socket: TLSSocket): Finding[] {
  const certificate = socket.getPeerCertificate();
  const findings = dateFindings(certificate);
  const fault = codeOf(socket.authorizationError);
  const isSaid = findings.length > 0 && (fault === 'CERT_HAS_EXPIRED' || fault === 'CERT_NOT_YET_VALID');
  if (fault !== '' && !isSaid)
    findings.push(certificateFinding(`The certificate is not trusted: ${describeSystemError({ code: fault })}`, certificate));
  return findings;
} // prettier-ignore

/** Node's types declare an Error; it is an Error with a code, or the code itself. */
function codeOf(fault: unknown): string {
  if (typeof fault === 'string') return fault;
  return fault instanceof Error ? ((fault as NodeJS.ErrnoException).code ?? fault.message) : '';
}

function dateFindings(certificate: PeerCertificate, now = Date.now()): Finding[] {
  const days = (Date.parse(certificate.valid_to) - now) / DAY_MS;
  if (Date.parse(certificate.valid_from) > now)
    return [certificateFinding(`The certificate is not valid before ${certificate.valid_from}`, certificate)];
  if (days < 0)
    return [certificateFinding(`The certificate expired on ${certificate.valid_to}`, certificate)];
  if (days > SOON_DAYS) return [];
  const summary = `The certificate expires in ${Math.floor(days)} days`;
  return [{ ...certificateFinding(summary, certificate), severity: 'warning' }];
}

function certificateFinding(summary: string, { subject, subjectaltname, issuer }: PeerCertificate): Finding {
  const names = subjectaltname ?? `CN=${String(subject?.CN ?? '')}`;
  return {
    severity: 'serious',
    summary,
    evidence: [`names: ${names}`, `issuer: ${String(issuer?.CN ?? '')}`],
  };
}

/** Returns a finding if a handshake with an old version alone succeeds. */
async function versionFindings(deployment: Deployment, version: SecureVersion): Promise<Finding[]> {
  deployment.countRequest();
  const offer = { minVersion: version, maxVersion: version, ciphers: 'ALL:@SECLEVEL=0' };
  const isAccepted = await withTls(deployment.to, offer, () => true).catch(() => false);
  const evidence = isAccepted ? [`a handshake with ${version} alone succeeded`] : [];
  return findingOf('serious', `${version.replace(/^TLSv1$/, 'TLSv1.0')} is accepted`, evidence, NEW_VERSIONS);
}

const NEW_VERSIONS =
  'Accept TLS 1.2 and 1.3 only (nginx: ssl_protocols TLSv1.2 TLSv1.3). RFC 8996 forbids older versions.';

const HTTP_PORT = 80;
const HTTPS_PORT = 443;
const REDIRECT =
  'Redirect plain HTTP to https, or do not serve it (nginx: return 308 https://api.example$request_uri; in a server of its own; Latchkey: no second listener without tls): clients that use it send their tokens in plain text.';

async function plainFindings(deployment: Deployment): Promise<Finding[]> {
  const { to, options } = deployment;
  const same = { ...to, isTls: false, port: to.port === HTTPS_PORT ? HTTP_PORT : to.port };
  const named = options.plain === undefined ? [] : [destinationOf(options.plain)];
  const asked = await Promise.all([same, ...named].map(async (plain) => askPlain(deployment, plain, plain !== same)));
  return findingOf('serious', 'The API is also served without TLS', [...new Set(asked.flat())], REDIRECT);
} // prettier-ignore

/** At a port that was not named, pages of another server do not count. */
async function askPlain(deployment: Deployment, plain: Destination, isNamed: boolean): Promise<string[]> {
  const paths = [...deployment.options.paths.slice(0, 1), deployment.unknownPath];
  const lines = await Promise.all(
    paths.map(async (target) => {
      const answer = await deployment.send({ target }, plain);
      if (answer.status === 0 || isHarmless(answer)) return [];
      const isApi = isNamed || verdictOf(answer) === 'passed' || isDeployment(deployment, target, answer);
      return isApi ? [`GET http://${plain.host}:${plain.port}${target}: ${describeAnswer(answer)}`] : [];
    }),
  );
  return lines.flat();
} // prettier-ignore

function isHarmless(answer: ProbeResponse): boolean {
  const { status } = answer;
  if (status >= 300 && status < 400) return valuesOf(answer, 'location').every((to) => to.startsWith('https:'));
  return status === 400 || status === 497 || status === 426;
} // prettier-ignore

function isDeployment({ subjects }: Deployment, path: string, answer: ProbeResponse): boolean {
  const own = subjects.filter((subject) => subject.path === path && subject.view.fields.length === 0);
  return isOfLatchkey(answer) || own.some(({ baseline }) => shapeOf(baseline) === shapeOf(answer));
}
