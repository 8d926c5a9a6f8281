import { createLogThrottle } from '../util/time.js';
import type { JwtEvents } from '../accounts/jwt/issuers.js';
import type { Log } from '../observe/log.js';
import { jwtKeyFetches, jwtVerifications } from '../observe/metrics.js';
import { printable } from '../util/text.js';

/** Counts JWT events, and logs when fetching keys starts failing or recovers. */
export function createJwtEvents(log: Log): JwtEvents {
  const throttle = createLogThrottle(60_000);
  const failing = new Set<string>();
  return {
    verified: (issuer, outcome) => jwtVerifications.inc({ issuer, outcome }),
    fetched: (issuer, error) => {
      jwtKeyFetches.inc({ issuer, outcome: error === undefined ? 'succeeded' : 'failed' });
      if (error === undefined) {
        if (failing.delete(issuer)) log.info({ issuer }, 'issuer keys reachable again');
        return;
      }
      failing.add(issuer);
      const reason = printable(error instanceof Error ? error.message : 'unknown');
      const suppressed = throttle(`${issuer} ${reason}`);
      if (suppressed !== undefined)
        log.warn({ issuer, reason, suppressed }, 'issuer keys unreachable; known keys stay in use');
    },
  };
}
