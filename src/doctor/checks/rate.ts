import { type Check, fine } from '../check.js';

const REQUESTS = 30;

/** How fast requests without a credential are answered, and whether there is a limit. It finds nothing wrong. */
export const rate: Check = {
  name: 'rate',
  title: 'The rate of refusals',
  severity: 'warning',
  remedy: 'Limit requests without a credential for each address at the proxy in front, if the deployment needs it.',
  async run(deployment) {
    const from = performance.now();
    const answers = await Promise.all(
      Array.from({ length: REQUESTS }, async () => deployment.send({ target: deployment.unknownPath })),
    );
    const rate = Math.round((REQUESTS * 1_000) / (performance.now() - from));
    const limited = answers.filter(({ status }) => status === 429).length;
    const lost = answers.filter(({ status }) => status === 0).length;
    const note = limited > 0 ? `${limited} were limited (429)` : 'none was limited';
    return fine(`${REQUESTS} requests at ${rate} a second: ${note}${lost > 0 ? `, ${lost} had no answer` : ''}`);
  },
}; // prettier-ignore
