import type { Deployment, Finding } from '../check.js';
import { type Destination, destinationOf } from '../exchange.js';
import { type ProbeResponse, valuesOf } from '../message.js';
import { isDeployment, neighbours } from '../nearby.js';
import { describeAnswer, verdictOf } from '../verdict.js';

const HTTP_PORT = 80;
const HTTPS_PORT = 443;
const REMEDY =
  'Redirect plain HTTP to https, or do not serve it (nginx: return 308 https://api.example$request_uri; in a server of its own; Latchkey: no second listener without tls): clients that use it send their tokens in plain text.';

/** Reports ports that serve the API without TLS. Such a port may only redirect. */
export async function plainFindings(deployment: Deployment): Promise<Finding[]> {
  const { to, options } = deployment;
  const same = { ...to, isTls: false, port: to.port === HTTPS_PORT ? HTTP_PORT : to.port };
  const named = options.plain === undefined ? [] : [destinationOf(options.plain)];
  const asked = await Promise.all([same, ...named].map(async (plain) => ask(deployment, plain, named.includes(plain))));
  const near = (await neighbours(deployment)).filter(({ to, path, answer }) => !to.isTls && to.port !== same.port && !isHarmless(answer) && isDeployment(deployment, path, answer));
  const evidence = [...asked.flat(), ...near.map(({ to, path, answer }) => line(to, path, answer))];
  if (evidence.length === 0) return [];
  return [{ severity: 'serious', summary: 'The API is also served without TLS', evidence: [...new Set(evidence)], remedy: REMEDY }];
} // prettier-ignore

/**
 * Returns evidence of plain HTTP. At a port that was not named, pages of another server do not
 * count.
 */
async function ask(deployment: Deployment, plain: Destination, isNamed: boolean): Promise<string[]> {
  const paths = [...deployment.options.paths.slice(0, 1), deployment.unknownPath];
  const answers = await Promise.all(
    paths.map(async (target) => ({ target, answer: await deployment.send({ target }, plain) })),
  );
  return answers
    .filter(({ answer }) => answer.status !== 0 && !isHarmless(answer))
    .filter(
      ({ target, answer }) =>
        isNamed || verdictOf(answer) === 'passed' || isDeployment(deployment, target, answer),
    )
    .map(({ target, answer }) => line(plain, target, answer));
}

function line({ host, port }: Destination, target: string, answer: ProbeResponse): string {
  return `GET http://${host}:${port}${target}: ${describeAnswer(answer)}`;
}

/** Whether a response redirects to TLS, or reports that TLS was expected. */
function isHarmless(answer: ProbeResponse): boolean {
  const { status } = answer;
  if (status >= 300 && status < 400) return valuesOf(answer, 'location').every((to) => to.startsWith('https:'));
  return status === 400 || status === 497 || status === 426;
} // prettier-ignore
