import { probeOf, shorten } from '../alter.js';
import type { Check, Deployment, Finding, Subject } from '../check.js';
import { valuesOf } from '../message.js';

const ORIGINS: readonly string[] = ['https://latchkey-doctor.invalid', 'null'];
const METHODS = ['GET', 'OPTIONS'] as const;

/** Whether pages of every origin may read answers that a session cookie opens. */
export const cors: Check = {
  name: 'cors',
  title: 'Pages of other origins',
  severity: 'serious',
  remedy: 'List exact origins in cors.origins of Latchkey, and let neither the proxy nor the API reflect Origin.',
  async run(deployment) {
    const reflected = (await Promise.all(deployment.subjects.map(async (subject) => reflections(deployment, subject)))).flat();
    const findings: Finding[] = [true, false].flatMap((withCookies) => {
      const lines = reflected.filter((one) => one.withCookies === withCookies).map(({ line }) => line);
      if (lines.length === 0) return [];
      const severity = withCookies ? 'serious' : 'warning';
      return [{ severity, summary: `Pages of any origin may read answers${withCookies ? ', with cookies' : ''}`, evidence: shorten(lines) }];
    });
    return { findings, seen: 'an unknown origin may read nothing' };
  },
}; // prettier-ignore

/** Answers of a path that name an origin which nobody listed. */
async function reflections(deployment: Deployment, subject: Subject) {
  const tries = ORIGINS.flatMap((origin) => METHODS.map((method) => ({ origin, method })));
  const found = await Promise.all(
    tries.map(async ({ origin, method }) => {
      const fields = [['Origin', origin], ['Access-Control-Request-Method', 'GET']] as const;
      const answer = await deployment.send(probeOf(subject, { probe: { method, fields } }));
      if (!valuesOf(answer, 'access-control-allow-origin').includes(origin)) return [];
      const withCookies = valuesOf(answer, 'access-control-allow-credentials').includes('true');
      return [{ withCookies, line: `${method} ${subject.path} with Origin: ${origin}` }];
    }),
  );
  return found.flat();
} // prettier-ignore
