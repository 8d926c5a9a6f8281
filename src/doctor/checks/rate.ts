import { type Check, type Deployment, type Finding } from '../check.js';
import type { ProbeResponse } from '../message.js';
import { verdictOf } from '../verdict.js';

const REQUESTS = 30;
const ADVICE =
  'If the API is public, limit requests per client address at the proxy in front (nginx: limit_req_zone $binary_remote_addr; HAProxy: stick-table; Traefik: rateLimit).';

/**
 * Measures how fast requests without a credential are answered, and whether each is refused.
 *
 * A missing rate limit is not a fault.
 */
export const rate: Check = {
  name: 'rate',
  title: 'Rate limiting of unauthenticated requests',
  severity: 'serious',
  remedy: 'Have every instance behind the load balancer require a credential: one of them lets requests in.',
  async run(deployment) {
    const refused = refusedPath(deployment);
    const target = refused ?? deployment.unknownPath;
    const from = performance.now();
    const answers = await Promise.all(Array.from({ length: REQUESTS }, async () => deployment.send({ target })));
    const rate = Math.round((REQUESTS * 1_000) / (performance.now() - from));
    const limited = answers.filter(({ status }) => status === 429).length;
    const lost = answers.filter(({ status }) => status === 0).length;
    const note = limited > 0 ? `${limited} were limited (429)` : 'none was limited';
    const advice = limited > 0 ? [] : [{ summary: `None of ${REQUESTS} requests without a credential was limited`, remedy: ADVICE }];
    const seen = `${REQUESTS} requests at ${rate} a second: ${note}${lost > 0 ? `, ${lost} got no response` : ''}`;
    return { findings: refused === undefined ? [] : findingsOf(refused, answers), advice, seen };
  },
}; // prettier-ignore

/** Returns a path that is refused without a credential, preferably one that the operator named. */
function refusedPath({ subjects }: Deployment): string | undefined {
  const refused = subjects.filter(({ view, verdict }) => view.fields.length === 0 && verdict === 'refused');
  return (refused.find(({ kind }) => kind === 'protected') ?? refused[0])?.path;
}

/**
 * Reports requests that were let in. Instances behind one address may differ, and one request
 * reaches only one of them.
 */
function findingsOf(target: string, answers: readonly ProbeResponse[]): Finding[] {
  const passed = answers.filter((answer) => verdictOf(answer) === 'passed').length;
  if (passed === 0) return [];
  const summary = `${passed} of ${REQUESTS} requests without a credential are let in`;
  return [{ severity: 'serious', summary, evidence: [`${REQUESTS} times GET ${target}`] }];
}
