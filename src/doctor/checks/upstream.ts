import { isIP } from 'node:net';
import { type Check, type Deployment, type Finding, type Outcome, unknown } from '../check.js';
import { destinationOf } from '../exchange.js';
import { isLocal, onLoopback } from '../loopback.js';
import type { ProbeResponse, Field } from '../message.js';
import { isApi, type Neighbour, neighbours } from '../nearby.js';
import { IDENTITY_HEADERS } from '../spellings.js';
import { describeAnswer, isOfLatchkey, verdictOf } from '../verdict.js';

/** Whether the API responds to clients that bypass Latchkey. */
export const upstream: Check = {
  name: 'upstream',
  title: 'Direct access to the API',
  severity: 'serious',
  remedy:
    'Let the API listen on loopback or a private network that only Latchkey reaches, restrict it by a firewall or a NetworkPolicy, and verify the signed assertion in the API (identity.assertion).',
  async run(deployment) {
    const { upstream: url } = deployment.options;
    const near = await guessed(deployment);
    if (url !== undefined) return named(deployment, url, near);
    if (near.length > 0) return { findings: near, seen: '' };
    return unknown('name the API with --upstream to see whether it can be reached directly');
  },
};

async function named(deployment: Deployment, url: URL, near: readonly Finding[]): Promise<Outcome> {
  const prefix = url.pathname.replace(/\/$/, '');
  const targets = [...deployment.options.paths, deployment.unknownPath].map((path) => `${prefix}${path}`);
  const answers = await Promise.all(targets.map(async (target) => deployment.send({ target }, destinationOf(url))));
  if (answers.every(({ status }) => status === 0))
    return { findings: near, seen: `${url.host} responds with ${answers.map(describeAnswer)[0]}` };
  if (answers.every(isGuarded)) return { findings: near, seen: `${url.host} is behind Latchkey` };
  const lines = answers.map((answer, i) => `GET ${url.origin}${targets[i]}: ${describeAnswer(answer)}`);
  const findings = [reached(url, answers, lines), ...(await believing(deployment, url, answers, targets)), ...near];
  return { findings, seen: '' };
} // prettier-ignore

/**
 * Looks for the API at usual ports and other addresses. It is found only where it can be
 * recognized.
 */
async function guessed(deployment: Deployment): Promise<Finding[]> {
  const { upstream: url } = deployment.options;
  const known = url === undefined ? undefined : destinationOf(url);
  const found: Neighbour[] = [];
  for (const one of await neighbours(deployment)) {
    const isNamed = one.to.host === known?.host && one.to.port === known.port;
    if (!isNamed && (await isApi(deployment, one))) found.push(one); // oxlint-disable-line no-await-in-loop -- few
  }
  if (found.length === 0) return [];
  const answers = found.map(({ answer }) => answer);
  const severity = isLocal(answers) ? 'warning' : 'serious';
  const summary = `The API serves requests that bypass Latchkey at another port or address${onLoopback(answers)}`;
  return [{ severity, summary, evidence: found.map(lineOf) }];
} // prettier-ignore

function lineOf({ to: { host, port, isTls }, path, answer }: Neighbour): string {
  const name = isIP(host) === 6 ? `[${host}]` : host;
  return `GET ${isTls ? 'https' : 'http'}://${name}:${port}${path}: ${describeAnswer(answer)}`;
}

function isGuarded(answer: ProbeResponse): boolean {
  return answer.status === 0 || (isOfLatchkey(answer) && verdictOf(answer) === 'refused');
}

function reached(url: URL, answers: readonly ProbeResponse[], evidence: readonly string[]): Finding {
  const isRefusing = answers.every((answer) => ['refused', 'none'].includes(verdictOf(answer)));
  return isRefusing
    ? {
        severity: 'warning',
        summary: `${url.origin} responds directly, but refuses these requests`,
        evidence,
      }
    : {
        severity: 'serious',
        summary: `${url.origin} serves requests that bypass Latchkey${onLoopback(answers)}`,
        evidence,
      };
}

/** Reports an API that refuses requests itself, but trusts identity headers from anyone. */
async function believing(
  deployment: Deployment,
  url: URL,
  answers: readonly ProbeResponse[],
  targets: readonly string[],
): Promise<Finding[]> {
  const fields = IDENTITY_HEADERS.map((name): Field => [name, /Scope/.test(name) ? 'global' : 'superuser']);
  const forged = await Promise.all(
    targets.map(async (target) => deployment.send({ target, fields }, destinationOf(url))),
  );
  const evidence = forged.flatMap((answer, i) => {
    const before = answers[i];
    if (before === undefined || verdictOf(before) !== 'refused' || verdictOf(answer) !== 'passed') return [];
    return [`GET ${url.origin}${targets[i]} with forged identity headers: ${describeAnswer(answer)} instead of ${describeAnswer(before)}`];
  });
  if (evidence.length === 0) return [];
  return [{ severity: 'serious', summary: `${url.origin} trusts forged identity headers`, evidence }];
} // prettier-ignore
