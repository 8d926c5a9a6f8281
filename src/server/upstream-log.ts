import type { Log } from '../observe/log.js';
import { countUpstreamRetry } from '../observe/metrics.js';
import { printable } from '../observe/printable.js';
import type { UpstreamEvents } from '../upstream/upstreams.js';

/** An address that is away fails every request; each kind of cause is logged this often. */
const INTERVAL_MS = 10_000;

/** Makes the listener that logs what happens to upstreams and counts what is sent again. */
export function createUpstreamLog(log: Log): UpstreamEvents {
  const logged = new Map<string, { at: number; suppressed: number }>();
  return {
    changed: ({ upstream, address, usable, cause }) => {
      const line = { upstream, address, reason: printable(cause) };
      if (usable) log.info(line, 'an address of an upstream is used again');
      else log.warn(line, 'an address of an upstream is left out');
    },
    failed: ({ upstream, address, code, cause }) => {
      const key = `${upstream} ${address} ${code}`;
      const last = logged.get(key);
      const now = performance.now();
      if (last !== undefined && now - last.at < INTERVAL_MS) {
        last.suppressed += 1;
        return;
      }
      logged.set(key, { at: now, suppressed: 0 });
      log.warn(
        { upstream, address, reason: printable(cause), suppressed: last?.suppressed ?? 0 },
        'an address of an upstream failed',
      );
    },
    retried: countUpstreamRetry,
  };
}
