import { type Check, type Deployment, type Finding, type Severity, fine, unknown } from '../check.js';
import { type Destination, destinationOf, guessedPort } from '../exchange.js';
import { Http2Client } from '../http2-client.js';
import { isLocal, onLoopback } from '../loopback.js';
import { type ProbeResponse, type Field, valuesOf } from '../message.js';
import { IDENTITY_HEADERS } from '../spellings.js';
import { describeAnswer, messageOf, verdictOf } from '../verdict.js';

/** Default ports of Latchkey. */
const ADMIN_PORT = 9901;
const DECISION_PORTS: readonly number[] = [9902, 9903];

const ADMIN_PATHS: readonly string[] = ['/metrics', '/-/config', '/readyz', '/healthz', '/-/reload'];
/** Prefixes below which proxies publish the admin port by mistake. */
const ADMIN_PREFIXES: readonly string[] = [
  '',
  '/admin',
  '/latchkey',
  '/_latchkey',
  '/latchkey-admin',
  '/latchkey/admin',
  '/internal',
  '/monitoring',
  '/ops',
  '/-',
  '/prometheus',
  '/sidecar',
];
/** Virtual hosts that may be meant for operators. */
const ADMIN_HOSTS: readonly string[] = ['localhost', 'admin', 'metrics', 'internal']; // prettier-ignore

/** The guard against DNS rebinding refuses public names, but any client can send this one. */
const NEAR_HOST = 'localhost';

/** Returns what a response of the admin port shows; empty for any other response. */
function adminContent({ status, body }: ProbeResponse): string {
  if (status === 0) return '';
  if (/^latchkey_|^# (?:HELP|TYPE) latchkey_/m.test(body)) return 'metrics';
  if (status === 200 && /"?upstreams?"?\s*:/.test(body) && /"?(?:policy|interface|routes)"?\s*:/.test(body)) return 'configuration';
  if (/"checks"\s*:/.test(body) || /"(?:store|draining|live)"\s*:/.test(body)) return 'health';
  if (/admin port/.test(body)) return 'refusal of the admin port';
  return '';
} // prettier-ignore

/** Whether metrics, configuration and reload are reachable from here. */
export const adminPort: Check = {
  name: 'admin-port',
  title: 'The admin port',
  severity: 'serious',
  remedy: 'Bind admin.host to loopback or a private network, restrict the port to Prometheus and probes (networkPolicy.adminFrom in the chart), and forward none of its paths.',
  async run(deployment) {
    const { admin } = deployment.options;
    const named = admin === undefined ? [] : await namedAdmin(deployment, admin);
    const usual = guessedPort(deployment.to, ADMIN_PORT);
    const guessed = isNamed(admin, usual) ? [] : await guessedAdmin(deployment, usual);
    const forwarded = await forwardedAdmin(deployment);
    const findings = [...named, ...guessed, ...forwarded];
    if (findings.length > 0) return { findings, seen: '' };
    if (admin !== undefined) return fine(`neither ${admin.host} nor a path of the deployment shows it`);
    return unknown(`neither port ${ADMIN_PORT} of ${deployment.to.host} nor a path of the deployment shows it; name its URL with --admin, as it may have another port`);
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

/** Examines the admin port that an operator named: any response there counts. */
async function namedAdmin(deployment: Deployment, url: URL): Promise<Finding[]> {
  const to = destinationOf(url);
  const near = await probeAdmin(deployment, to);
  if (near.every(({ status }) => status === 0)) return [];
  // Behind a proxy it may have a host name of its own.
  const answers = showsAdmin(near) ? near : await probeAdmin(deployment, to, to.authority);
  const isOpen = showsAdmin(answers);
  return [exposed(url.origin, answers, isOpen ? 'serious' : 'warning')];
}

async function guessedAdmin(deployment: Deployment, to: Destination): Promise<Finding[]> {
  const answers = await probeAdmin(deployment, to);
  if (answers.every((answer) => adminContent(answer) === '')) return [];
  return [exposed(`http://${to.host}:${to.port}`, answers, severityAt(answers))];
}

function exposed(origin: string, answers: readonly ProbeResponse[], severity: Severity): Finding {
  const evidence = answers.map((answer, i) => `GET ${origin}${ADMIN_PATHS[i]}: ${describeAnswer(answer)}`);
  return { severity, summary: `The admin port responds at ${origin}${onLoopback(answers)}`, evidence };
}

/** Returns the severity of an open port: on loopback, only this machine can reach it. */
function severityAt(answers: readonly ProbeResponse[]): Severity {
  return isLocal(answers) ? 'warning' : 'serious';
}

/** Reports paths that the deployment forwards to the admin port. */
async function forwardedAdmin(deployment: Deployment): Promise<Finding[]> {
  const targets = ADMIN_PREFIXES.flatMap((prefix) => ADMIN_PATHS.map((path) => `${prefix}${path}`));
  const views = [
    [],
    ...deployment.subjects.flatMap(({ view }) => (view.fields.length > 0 ? [view.fields] : [])).slice(0, 1),
  ];
  const hits = await Promise.all(
    targets.flatMap((target) =>
      views.map(async (fields) => {
        const answer = await deployment.send({ target, fields });
        const content = adminContent(answer);
        const isRefusal =
          verdictOf(answer) !== 'passed' && content !== 'refusal of the admin port' && content !== 'health';
        if (content === '' || isRefusal) return [];
        return [
          `GET ${target}${fields.length > 0 ? ' with the token' : ''}: ${describeAnswer(answer)}, ${content}`,
        ];
      }),
    ),
  );
  const byHost = await Promise.all(
    ADMIN_HOSTS.map(async (host) => {
      const content = adminContent(await deployment.send({ target: '/metrics', host }));
      return content === '' ? [] : [`GET /metrics with Host: ${host}: ${content}`];
    }),
  );
  const evidence = [...hits.flat(), ...byHost.flat()];
  if (evidence.length === 0) return [];
  return [{ severity: 'serious', summary: 'The deployment forwards paths of the admin port', evidence }];
}

/** Paths at which proxies request decisions. */
const PROTOCOL_PATHS: readonly string[] = ['/auth-request', '/forward-auth', '/ext_authz/'];

/** Paths at which proxies commonly place their checks. */
const DECISION_PATHS: readonly string[] = [
  ...PROTOCOL_PATHS,
  ...['/_decision', '/decision', '/decisions', '/_latchkey', '/latchkey', '/internal', '/auth'].flatMap((prefix) => PROTOCOL_PATHS.map((path) => `${prefix}${path}`)),
  '/_decision', '/decision', '/_auth', '/auth', '/__auth', '/validate', '/auth_request', '/authrequest', '/authz', '/authorize', '/authenticate',
  '/auth/verify', '/auth/validate', '/auth/check', '/_latchkey_auth', '/latchkey-auth', '/latchkey', '/check', '/_check', '/verify',
  '/oauth2/auth', '/internal/auth', '/api/verify', '/forwardauth', '/ext-authz/', '/ext_authz',
]; // prettier-ignore

const CHECK_FIELDS: readonly Field[] = [
  ['X-Original-Method', 'GET'],
  ['X-Original-URI', '/status'],
  ['X-Forwarded-Method', 'GET'],
  ['X-Forwarded-Uri', '/status'],
];

/** Whether a response has a message that only a decision port sends. */
function isDecision(answer: ProbeResponse): boolean {
  return /^(?:The check request is incomplete|This path is not decided here)$/.test(messageOf(answer));
}

/** Whether clients can request decisions, and so test credentials and learn their permissions. */
export const decisionPort: Check = {
  name: 'decision-port',
  title: 'The decision port',
  severity: 'serious',
  remedy: 'Bind decision.host to loopback or a private network that only the proxy reaches, and mark the location of the check as internal.',
  async run(deployment) {
    const { decision } = deployment.options;
    const usual = DECISION_PORTS.map((port) => guessedPort(deployment.to, port)).filter((to) => !isNamed(decision, to));
    const named = decision === undefined ? [] : await openDecision(deployment, destinationOf(decision), true);
    const guessed = await Promise.all(usual.map(async (to) => openDecision(deployment, to, false)));
    const findings = [...named, ...guessed.flat()];
    const forwarded = await Promise.all(DECISION_PATHS.map(async (target) => decides(deployment, target)));
    const evidence = forwarded.flat();
    if (evidence.length > 0)
      findings.push({ severity: 'serious', summary: 'The deployment forwards paths of the decision port', evidence });
    if (findings.length > 0) return { findings, seen: '' };
    if (decision !== undefined) return fine('it does not respond here');
    return unknown(`it does not respond at port ${DECISION_PORTS.join(' or ')}, nor through the deployment; name its URL with --decision, as it may have another port`);
  },
}; // prettier-ignore

async function openDecision(deployment: Deployment, to: Destination, isNamed: boolean): Promise<Finding[]> {
  const grpc = await openGrpc(deployment, to, isNamed);
  if (grpc !== undefined) return [grpc];
  const targets = PROTOCOL_PATHS;
  const answers = await Promise.all(targets.map(async (target) => deployment.send({ target }, to)));
  const isOpen = isNamed ? answers.some(({ status }) => status !== 0) : answers.some(isDecision);
  if (!isOpen) return [];
  const origin = `http://${to.host}:${to.port}`;
  const severity = isNamed ? 'serious' : severityAt(answers);
  const evidence = answers.map((answer, i) => `GET ${origin}${targets[i]}: ${describeAnswer(answer)}`);
  return [{ severity, summary: `The decision port responds at ${origin}${onLoopback(answers)}`, evidence }];
} // prettier-ignore

/** Looks for the decision port for gRPC, at which Envoy uses HTTP/2 by prior knowledge. */
async function openGrpc(deployment: Deployment, to: Destination, isNamed: boolean): Promise<Finding | undefined> {
  const client = await Http2Client.open(deployment, to);
  const answer = await client?.request('/envoy.service.auth.v3.Authorization/Check', [['content-type', 'application/grpc'], ['te', 'trailers']]);
  if (answer === undefined || answer.fault !== '') return undefined;
  const severity = isNamed ? 'serious' : severityAt([answer]);
  const summary = `A port that speaks HTTP/2, like the decision port for gRPC, responds at http://${to.host}:${to.port}${onLoopback([answer])}`;
  return { severity, summary, evidence: [`GET /envoy.service.auth.v3.Authorization/Check over h2c: ${describeAnswer(answer)}`] };
} // prettier-ignore

/**
 * Returns evidence of a decision port behind a path: identity headers, its own refusals, or a
 * refusal that the fields of a check turn into an allowed response.
 */
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
