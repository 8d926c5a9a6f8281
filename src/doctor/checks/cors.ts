import { probeOf, shorten } from '../alter.js';
import type { Check, Deployment, Finding, Subject } from '../check.js';
import { valuesOf } from '../message.js';

const FOREIGN = 'latchkey-doctor.invalid';

/**
 * Returns unlisted origins, and some that a careless comparison with the deployment's host accepts.
 */
function originsBeside(host: string): string[] {
  const ofHost = [
    `https://${host}.${FOREIGN}`,
    `https://latchkey-doctor-${host}`,
    `https://${FOREIGN}/${host}`,
  ];
  return [`https://${FOREIGN}`, `http://${FOREIGN}`, 'null', ...ofHost];
}

const METHODS = ['GET', 'OPTIONS'] as const;

/** Whether pages of every origin may read responses, in particular with session cookies. */
export const cors: Check = {
  name: 'cors',
  title: 'Pages of other origins',
  severity: 'serious',
  remedy: 'List exact origins in cors.origins of Latchkey, and let neither the proxy nor the API reflect Origin.',
  async run(deployment) {
    const reflected = (await Promise.all(deployment.subjects.map(async (subject) => reflections(deployment, subject)))).flat();
    const findings: Finding[] = [true, false].flatMap((withCookies) => {
      const lines = [...new Set(reflected.filter((one) => one.withCookies === withCookies).map(({ line }) => line))];
      if (lines.length === 0) return [];
      const severity = withCookies ? 'serious' : 'warning';
      return [{ severity, summary: `Pages of any origin may read responses${withCookies ? ', with cookies' : ''}`, evidence: shorten(lines) }];
    });
    return { findings, seen: 'an unknown origin may read nothing' };
  },
}; // prettier-ignore

/** Returns the responses for a path that allow an unlisted origin. */
async function reflections(deployment: Deployment, subject: Subject) {
  const tries = originsBeside(deployment.to.host).flatMap((origin) => METHODS.map((method) => ({ origin, method })));
  const found = await Promise.all(
    tries.map(async ({ origin, method }) => {
      const fields = [['Origin', origin], ['Access-Control-Request-Method', 'GET']] as const;
      const answer = await deployment.send(probeOf(subject, { probe: { method, fields } }));
      const allowed = valuesOf(answer, 'access-control-allow-origin');
      const withCookies = valuesOf(answer, 'access-control-allow-credentials').includes('true');
      // Browsers refuse `*` with cookies, but this configuration means to give them to every
      // origin.
      if (!allowed.includes(origin) && !(allowed.includes('*') && withCookies)) return [];
      return [{ withCookies, line: `${method} ${subject.path} with Origin: ${origin}` }];
    }),
  );
  return found.flat();
} // prettier-ignore
