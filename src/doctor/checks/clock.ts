import { type Check, fine, unknown } from '../check.js';
import { valuesOf } from '../message.js';

/**
 * Offset in milliseconds beyond which one-time passwords of a time step and JWTs are refused or
 * live too long.
 */
const SERIOUS_MS = 30_000;
const WARNING_MS = 10_000;
/** `Date` has a resolution of one second. */
const RESOLUTION_MS = 1_000;

/** Whether the deployment's clock agrees with the local one. */
export const clock: Check = {
  name: 'clock',
  title: 'The clock',
  severity: 'serious',
  remedy: 'Synchronize the clock of the deployment by NTP (and the one that doctor runs on): expiry, one-time passwords and JWTs depend on it.',
  async run({ answers }) {
    const offsets = answers.flatMap((answer) => {
      const at = Date.parse(valuesOf(answer, 'date')[0] ?? '');
      if (Number.isNaN(at) || valuesOf(answer, 'age').length > 0) return [];
      if (at < answer.sentAt - RESOLUTION_MS) return [at - (answer.sentAt - RESOLUTION_MS)];
      return [Math.max(at - answer.receivedAt, 0)];
    });
    if (offsets.length === 0) return unknown('no response has a Date header');
    // One of several instances may be wrong, so the largest offset counts.
    const worst = offsets.reduce((a, b) => (Math.abs(a) > Math.abs(b) ? a : b));
    const size = Math.abs(worst);
    if (size < WARNING_MS) return fine('it agrees with the local clock');
    const summary = `The clock is ${Math.round(size / 1_000)} seconds ${worst < 0 ? 'behind' : 'ahead of'} the local one`;
    const severity = size < SERIOUS_MS ? 'warning' : 'serious';
    return { findings: [{ severity, summary, evidence: [`${offsets.length} responses with Date`] }], seen: '' };
  },
}; // prettier-ignore
