import type { Log } from '../observe/log.js';
import { createLogThrottle } from '../observe/log-throttle.js';
import { upstreamRetries } from '../observe/metrics.js';
import { printable } from '../observe/printable.js';
import type { UpstreamEvents } from '../upstream/upstreams.js';

/** Makes the listener that logs what happens to upstreams and counts what is sent again. */
export function createUpstreamLog(log: Log): UpstreamEvents {
  // An address that is away fails every request.
  const throttle = createLogThrottle();
  return {
    changed: ({ upstream, address, usable, cause }) => {
      const line = { upstream, address, reason: printable(cause) };
      if (usable) log.info(line, 'upstream address healthy; used again');
      else log.warn(line, 'upstream address unhealthy; not used');
    },
    failed: ({ upstream, address, code, cause }) => {
      const suppressed = throttle(`${upstream} ${address} ${code}`);
      if (suppressed !== undefined)
        log.warn(
          { upstream, address, code, reason: printable(cause), suppressed },
          'upstream address failed',
        );
    },
    retried: (upstream) => upstreamRetries.inc({ upstream }),
  };
}
