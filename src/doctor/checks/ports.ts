import type { Check, Deployment, Finding } from '../check.js';
import {
  type Destination,
  destinationOf,
  type Field,
  guessedPort,
  type ProbeResponse,
  speaksHttp2,
  valuesOf,
  verdictOf,
} from '../client.js';
import { describeAnswer, findingOf, isLocal, onLoopback } from '../compare.js';
import { IDENTITY_HEADERS } from './identity.js';

const ADMIN_PORT = 9901;
const DECISION_PORTS: readonly number[] = [9902, 9903];

const ADMIN_PATHS: readonly string[] = ['/metrics', '/-/config', '/readyz', '/healthz', '/-/reload'];
/** Prefixes below which proxies publish the admin port by mistake. */
const ADMIN_PREFIXES: readonly string[] = ['', '/admin', '/latchkey', '/_latchkey', '/internal', '/monitoring', '/ops', '/prometheus']; // prettier-ignore
/** The guard against DNS rebinding refuses public names, but any client can send this one. */
const NEAR_HOST = 'localhost';

function adminContent({ status, body }: ProbeResponse): string {
  if (status === 0) return '';
  if (/^latchkey_|^# (?:HELP|TYPE) latchkey_/m.test(body)) return 'metrics';
  if (status === 200 && /"?upstreams?"?\s*:/.test(body) && /"?(?:policy|interface|routes)"?\s*:/.test(body)) return 'configuration';
  if (/"checks"\s*:/.test(body) || /"(?:store|draining|live)"\s*:/.test(body)) return 'health';
  if (/admin port/.test(body)) return 'refusal of the admin port';
  return '';
} // prettier-ignore

export const adminPort: Check = {
  name: 'admin-port',
  title: 'The admin port',
  remedy: 'Bind admin.host to loopback or a private network, restrict the port to Prometheus and probes (networkPolicy.adminFrom in the chart), and forward none of its paths.',
  async run(deployment) {
    const { admin } = deployment.options;
    const named = admin === undefined ? [] : await openAdmin(deployment, destinationOf(admin), true);
    const usual = guessedPort(deployment.to, ADMIN_PORT);
    const guessed = isNamed(admin, usual) ? [] : await openAdmin(deployment, usual, false);
    const forwarded = await forwardedAdmin(deployment);
    const findings = [...named, ...guessed, ...forwarded];
    if (findings.length > 0) return { findings, seen: '' };
    const seen = `neither ${admin?.host ?? `port ${ADMIN_PORT} of ${deployment.to.host}`} nor a path of the deployment shows it`;
    if (admin !== undefined) return { findings, seen };
    return { findings, seen, unknown: `${seen}; name its URL with --admin, as it may have another port` };
  },
}; // prettier-ignore

function isNamed(url: URL | undefined, { host, port }: Destination): boolean {
  if (url === undefined) return false;
  const named = destinationOf(url);
  return named.host === host && named.port === port;
}

async function probeAdmin(
  deployment: Deployment,
  to: Destination,
  host = NEAR_HOST,
): Promise<ProbeResponse[]> {
  return Promise.all(ADMIN_PATHS.map(async (target) => deployment.send({ target, host }, to)));
}

function showsAdmin(answers: readonly ProbeResponse[]): boolean {
  return answers.some((answer) => adminContent(answer) !== '' || verdictOf(answer) === 'passed');
}

/** Examines an admin port: any response counts if the operator named it. */
async function openAdmin(deployment: Deployment, to: Destination, isNamed: boolean): Promise<Finding[]> {
  const near = await probeAdmin(deployment, to);
  if (near.every((answer) => (isNamed ? answer.status === 0 : adminContent(answer) === ''))) return [];
  // Behind a proxy it may have a host name of its own.
  const answers = !isNamed || showsAdmin(near) ? near : await probeAdmin(deployment, to, to.authority);
  const origin = `http${to.isTls ? 's' : ''}://${to.host}:${to.port}`;
  const evidence = answers.map((answer, i) => `GET ${origin}${ADMIN_PATHS[i]}: ${describeAnswer(answer)}`);
  // On loopback, only this machine can reach it.
  const isSerious = isNamed ? showsAdmin(answers) : !isLocal(answers);
  const severity = isSerious ? 'serious' : 'warning';
  return [{ severity, summary: `The admin port responds at ${origin}${onLoopback(answers)}`, evidence }];
}

async function forwardedAdmin(deployment: Deployment): Promise<Finding[]> {
  const targets = ADMIN_PREFIXES.flatMap((prefix) => ADMIN_PATHS.map((path) => `${prefix}${path}`));
  const keyed = deployment.subjects.find(({ view }) => view.fields.length > 0)?.view.fields;
  const evidence = await Promise.all(
    targets.flatMap((target) =>
      (keyed === undefined ? [[]] : [[], keyed]).map(async (fields) => {
        const answer = await deployment.send({ target, fields });
        const content = adminContent(answer);
        const isOwn = ['refusal of the admin port', 'health'].includes(content);
        if (content === '' || (verdictOf(answer) !== 'passed' && !isOwn)) return [];
        return [`GET ${target}${fields.length > 0 ? ' with the token' : ''}: ${describeAnswer(answer)}, ${content}`];
      }),
    ),
  );
  return findingOf('serious', 'The deployment forwards paths of the admin port', evidence.flat());
} // prettier-ignore

const PROTOCOL_PATHS: readonly string[] = ['/auth-request', '/forward-auth', '/ext_authz/'];

/** Paths at which proxies commonly place their checks. */
const DECISION_PATHS: readonly string[] = [
  ...['', '/_decision', '/decision', '/_latchkey', '/latchkey', '/internal', '/auth'].flatMap((prefix) => PROTOCOL_PATHS.map((path) => `${prefix}${path}`)),
  '/_decision', '/decision', '/_auth', '/auth', '/validate', '/authz', '/authorize', '/auth/verify', '/_latchkey_auth', '/latchkey-auth', '/verify',
  '/oauth2/auth', '/internal/auth', '/api/verify',
]; // prettier-ignore

const CHECK_FIELDS: readonly Field[] = [
  ['X-Original-Method', 'GET'],
  ['X-Original-URI', '/status'],
  ['X-Forwarded-Method', 'GET'],
  ['X-Forwarded-Uri', '/status'],
];

function isDecision({ body }: ProbeResponse): boolean {
  return /^\{"msg":"(?:The check request is incomplete|This path is not decided here)"/.test(body);
}

export const decisionPort: Check = {
  name: 'decision-port',
  title: 'The decision port',
  remedy: 'Bind decision.host to loopback or a private network that only the proxy reaches, and mark the location of the check as internal.',
  async run(deployment) {
    const { decision } = deployment.options;
    const usual = DECISION_PORTS.map((port) => guessedPort(deployment.to, port)).filter((to) => !isNamed(decision, to));
    const named = decision === undefined ? [] : await openDecision(deployment, destinationOf(decision), true);
    const guessed = await Promise.all(usual.map(async (to) => openDecision(deployment, to, false)));
    const findings = [...named, ...guessed.flat()];
    const forwarded = await Promise.all(DECISION_PATHS.map(async (target) => decides(deployment, target)));
    findings.push(...findingOf('serious', 'The deployment forwards paths of the decision port', forwarded.flat()));
    if (decision !== undefined || findings.length > 0) return { findings, seen: 'it does not respond here' };
    const unknown = `it does not respond at port ${DECISION_PORTS.join(' or ')}, nor through the deployment; name its URL with --decision, as it may have another port`;
    return { findings, seen: '', unknown };
  },
}; // prettier-ignore

async function openDecision(deployment: Deployment, to: Destination, isNamed: boolean): Promise<Finding[]> {
  const answers = await Promise.all(PROTOCOL_PATHS.map(async (target) => deployment.send({ target }, to)));
  const severity = !isNamed && isLocal(answers) ? 'warning' : 'serious';
  const at = `http://${to.host}:${to.port}${onLoopback(answers)}`;
  if (isNamed ? answers.some(({ status }) => status !== 0) : answers.some(isDecision))
    return findingOf(severity, `The decision port responds at ${at}`, answers.map((answer, i) => `GET http://${to.host}:${to.port}${PROTOCOL_PATHS[i]}: ${describeAnswer(answer)}`));
  // Envoy speaks HTTP/2 with prior knowledge to the decision port for gRPC.
  deployment.countRequest();
  const evidence = (await speaksHttp2(to)) ? ['it answers the connection preface of HTTP/2 with SETTINGS'] : [];
  return findingOf(severity, `A port that speaks HTTP/2, like the decision port for gRPC, responds at ${at}`, evidence);
} // prettier-ignore

/** Evidence is an identity header, a refusal of its own, or one that the fields of a check turn. */
async function decides(deployment: Deployment, target: string): Promise<string[]> {
  const asked = await deployment.send({ target, fields: CHECK_FIELDS });
  const keyed = deployment.subjects.find(({ view }) => view.fields.length > 0)?.view.fields;
  if (keyed !== undefined) {
    const answer = await deployment.send({ target, fields: keyed });
    const names = IDENTITY_HEADERS.filter((name) => valuesOf(answer, name.toLowerCase()).length > 0);
    if (names.length > 0)
      return [`GET ${target} with the token: ${describeAnswer(answer)} with ${names.join(', ')}`];
  }
  const isAllowed = verdictOf(asked) === 'passed' && asked.body === '';
  if (!isAllowed && !isDecision(asked)) return [];
  const bare = await deployment.send({ target });
  const line = `GET ${target}: ${describeAnswer(bare)}, and ${describeAnswer(asked)} with the fields of a check`;
  return isDecision(asked) || verdictOf(bare) === 'refused' ? [line] : [];
}
