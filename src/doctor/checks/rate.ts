import { type Check, fine } from '../check.js';

const REQUESTS = 30;
const ADVICE =
  'Limit requests for each client address at the proxy in front, if strangers reach it (nginx: limit_req_zone $binary_remote_addr; HAProxy: stick-table; Traefik: rateLimit).';

/** How fast requests without a credential are answered, and whether there is a limit. Its absence is no fault. */
export const rate: Check = {
  name: 'rate',
  title: 'The rate of refusals',
  severity: 'warning',
  remedy: ADVICE,
  async run(deployment) {
    const from = performance.now();
    const answers = await Promise.all(
      Array.from({ length: REQUESTS }, async () => deployment.send({ target: deployment.unknownPath })),
    );
    const rate = Math.round((REQUESTS * 1_000) / (performance.now() - from));
    const limited = answers.filter(({ status }) => status === 429).length;
    const lost = answers.filter(({ status }) => status === 0).length;
    const note = limited > 0 ? `${limited} were limited (429)` : 'none was limited';
    const advice = limited > 0 ? [] : [{ summary: `None of ${REQUESTS} requests without a credential was limited`, remedy: ADVICE }];
    return { advice, ...fine(`${REQUESTS} requests at ${rate} a second: ${note}${lost > 0 ? `, ${lost} had no answer` : ''}`) };
  },
}; // prettier-ignore
