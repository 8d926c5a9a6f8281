import type { JwtEvents } from '../accounts/jwt/issuers.js';
import type { Log } from '../observe/log.js';
import { createLogThrottle } from '../observe/log-throttle.js';
import { jwtKeyFetches, jwtVerifications } from '../observe/metrics.js';
import { printable } from '../observe/printable.js';

/** Makes the listener that counts what happens to JWTs, and logs when keys can't be fetched and when they can again. */
export function createJwtEvents(log: Log): JwtEvents {
  const throttle = createLogThrottle(60_000);
  const failing = new Set<string>();
  return {
    verified: (issuer, outcome) => jwtVerifications.inc({ issuer, outcome }),
    fetched: (issuer, error) => {
      jwtKeyFetches.inc({ issuer, outcome: error === undefined ? 'succeeded' : 'failed' });
      if (error === undefined) {
        if (failing.delete(issuer)) log.info({ issuer }, 'issuer keys fetched again');
        return;
      }
      failing.add(issuer);
      const suppressed = throttle(issuer);
      const reason = printable(error instanceof Error ? error.message : 'unknown');
      if (suppressed !== undefined)
        log.warn({ issuer, reason, suppressed }, 'issuer keys not fetched; known keys stay in use');
    },
  };
}
