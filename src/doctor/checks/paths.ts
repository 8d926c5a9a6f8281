import { findingsOf, tryOnRefused } from '../alter.js';
import { type Check, fine } from '../check.js';
import { readingsOf, readingsThrough } from '../readings.js';

/** Whether a path is refused in every way to write it. */
export const pathReadings: Check = {
  name: 'paths',
  title: 'Other readings of a path',
  severity: 'serious',
  remedy:
    'Authorize the path that the API will see: forward the target unchanged after the decision, refuse dot segments, encoded slashes, backslashes and ";" (Latchkey does), and let no location or prefix of the proxy skip the check.',
  async run(deployment) {
    const { subjects, options } = deployment;
    const isOpen = subjects.some(({ kind, verdict }) => kind === 'unknown' && verdict !== 'refused');
    const open = options.publicPaths.filter((path) => path !== '/');
    const hits = await tryOnRefused(deployment, ({ path }) =>
      [...readingsOf(path, options.url.origin), ...open.flatMap((one) => readingsThrough(one, path))]
        // Where anything that nobody named is let in, another resource is no bypass.
        .filter(({ isSame }) => isSame || !isOpen)
        .map(({ label, target }) => ({ label: `${target} (${label})`, probe: { target } })),
    );
    const findings = findingsOf(hits, 'Another reading of a path');
    return findings.length > 0
      ? { findings, seen: '' }
      : fine(`${hits.tried} readings of refused paths are refused`);
  },
};
